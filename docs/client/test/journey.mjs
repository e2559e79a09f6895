// What every client must be able to do against the real binary, whichever
// library it is made with.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { fault, Fault } from '../build/fault.js'
import { follow } from '../build/follow.js'
import { House } from './house.mjs'
import { Trip } from './trip.mjs'

const startRun = `mutation Start($input: StartRunInput!) { startRun(input: $input) { run { id status } outcome userErrors { code field } } }`
const decide = `mutation Decide($input: DecideApprovalInput!) { decideApproval(input: $input) { run { id } outcome userErrors { code } } }`
const viewer = `query Viewer { viewer { name } }`
const inbox = `subscription Inbox { inboxChanged { run { id } approval { id digest tool arguments { display } } } }`
const events = `subscription Events($run: ID!, $after: Cursor) { runEvents(run: $run, after: $after) { cursor seq kind } }`
const outcome = `query Outcome($id: ID!) { run(id: $id) { status events(first: 100) { edges { cursor node { seq kind } } } } }`

/**
 * Walks one client through a run.
 *
 * make({url, token}) returns {ask(query, variables), open(query, variables),
 * close()}: ask answers with {data, errors} or throws, open subscribes once.
 */
export function journey(name, make) {
  test(`${name}: a run from its start to its end`, async (t) => {
    const house = await House.open(t)
    const clients = []
    const as = async (person, token) => {
      const client = await make({ url: house.url, token: token ?? (await house.token(person)) })
      clients.push(client)
      return client
    }
    t.after(() => Promise.all(clients.map((client) => client.close())))
    await walk(t, house, await as('amara.diallo'), await as('tomas.rehak'), await as('amara.diallo'))
    await t.test('a token that is not accepted is told apart', async () => {
      const nobody = await as('', 'x.y.z')
      await assert.rejects(async () => fine(await nobody.ask(viewer, {})), unauthenticated)
      await assert.rejects(async () => { for await (const answer of nobody.open(inbox, {})) fine(answer) }, unauthenticated)
    })
  })
}

const only = ({ cursor, seq, kind }) => ({ cursor, seq, kind }) // libraries add names of types

function fine(answer) {
  if (answer.errors?.length) throw fault(answer.errors)
  return answer.data
}

function unauthenticated(error) {
  assert.equal(fault(error).code, 'UNAUTHENTICATED', String(error))
  return true
}

async function walk(t, house, accountant, controller, second) {
  const trip = new Trip()
  let run
  await t.test('it asks who it is', async () => {
    assert.equal(fine(await accountant.ask(viewer, {})).viewer.name, 'Amara Diallo')
  })
  await t.test('a command id counts once', async () => {
    const input = { agent: 'invoice-reconciler', goal: 'Reconcile invoice INV-1004.', commandId: randomUUID() }
    const first = fine(await accountant.ask(startRun, { input })).startRun
    const again = fine(await accountant.ask(startRun, { input })).startRun
    assert.deepEqual([first.outcome, again.outcome, again.run.id], ['ACCEPTED', 'REPLAYED', first.run.id])
    run = first.run.id
    trip.begin(follow((after) => accountant.open(events, { run, after: after ?? null }), (data) => only(data.runEvents), (event) => event.cursor, trip.options))
  })
  await t.test('it reads up to the held call over sockets that are lost on the way', async () => {
    for (const seq of [2, 6, 12]) {
      await trip.readTo((event) => Number(event.seq) >= seq)
      await trip.lose(() => house.wire.cut())
      house.wire.mend()
    }
    await trip.readTo((event) => event.kind === 'approval_requested')
  })
  let approval
  await t.test('whoever answers for it sees the held call', async () => {
    for await (const answer of controller.open(inbox, {})) {
      approval = fine(answer).inboxChanged.find((entry) => entry.run.id === run)?.approval
      if (approval) break
    }
    assert.equal(approval.tool, 'ledger.post_adjustment')
    assert.match(approval.arguments.display, /^\{"amountCents":-64856,"currency":"EUR","invoice":"INV-1004"/)
  })
  await t.test('another digest than the one shown decides nothing', async () => {
    const input = { id: approval.id, digest: approval.digest.replace(/.$/, (last) => (last === '0' ? '1' : '0')), decision: 'APPROVE' }
    const payload = fine(await controller.ask(decide, { input })).decideApproval
    assert.equal(payload.outcome, null)
    assert.equal(payload.userErrors.length, 1)
  })
  await t.test('a server that restarts says where to go on, and is only a pause', async () => {
    trip.away()
    const why = await trip.lose(() => house.stop())
    assert.deepEqual([why.code, why.cursor], ['RESYNC', trip.seen.at(-1).cursor])
    await house.serve()
    trip.comeBack()
  })
  await t.test('the exact digest is granted, once, while the reader is away', async () => {
    trip.away()
    await trip.lose(() => house.wire.cut())
    house.wire.mend()
    const input = { id: approval.id, digest: approval.digest, decision: 'APPROVE', commandId: randomUUID() }
    assert.equal(fine(await controller.ask(decide, { input })).decideApproval.outcome, 'ACCEPTED')
    assert.equal(fine(await controller.ask(decide, { input })).decideApproval.outcome, 'REPLAYED')
    const late = fine(await controller.ask(decide, { input: { ...input, commandId: randomUUID() } })).decideApproval
    assert.equal(late.outcome, null)
    for await (const answer of second.open(events, { run, after: null })) {
      if (fine(answer).runEvents.kind === 'ended') break
    }
  })
  await t.test('case 49: the end that came meanwhile arrives, without gap or double', async () => {
    trip.comeBack()
    await trip.readTo((event) => event.kind === 'ended')
    await trip.stream.return()
    const { status, events } = fine(await accountant.ask(outcome, { id: run })).run
    assert.equal(status, 'COMPLETED')
    assert.deepEqual(trip.seen, events.edges.map(({ cursor, node }) => only({ cursor, ...node })))
    assert.deepEqual(trip.seen.map(({ seq }) => Number(seq)), trip.seen.map((_, index) => index + 1))
  })
  await t.test('a cursor that is none is refused, for good', async () => {
    const broken = follow((after) => accountant.open(events, { run, after }), (data) => data, () => undefined, { after: 'nonsense' })
    await assert.rejects(broken.next(), (error) => error instanceof Fault && error.code === 'CURSOR_INVALID' && !error.retryable)
  })
}
