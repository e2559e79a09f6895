// The example client: its types, and what it does when things go wrong.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { WebSocket } from 'ws'
import { follow } from '../build/follow.js'
import { Fault, Gantry, Refused } from '../build/gantry.js'
import { generated } from '../generate.mjs'
import { House } from './house.mjs'
import { Trip } from './trip.mjs'

const here = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url))
const all = async (stream) => { const items = []; for await (const item of stream) items.push(item); return items }

test('the example type-checks', () => promisify(execFile)(process.execPath, [here('node_modules/typescript/bin/tsc'), '--noEmit', '-p', here('.')]))

test('its types are those of the schema', async () => {
  assert.equal(await readFile(here('src/generated.ts'), 'utf8'), await generated())
})

test('it knows every code that the interface has', async () => {
  const declared = [...(await readFile(here('../../graph/edge/fault.go'), 'utf8')).matchAll(/^\tCode\w+\s+= "(\w+)"$/gm)].map(([, code]) => code)
  const known = await readFile(here('src/fault.ts'), 'utf8')
  assert.ok(declared.length >= 10)
  for (const code of declared) assert.ok(known.includes(`| '${code}'`), code)
})

/** Plays one list of answers per subscription; an Error breaks it. */
function played(...subscriptions) {
  const asked = []
  return { asked, async *open(after) {
    asked.push(after)
    for (const answer of subscriptions[asked.length - 1] ?? []) {
      if (answer instanceof Error) throw answer
      yield answer
    }
  } }
}
const event = (cursor) => ({ data: { cursor } })
const following = (source, options) => follow(source.open, (data) => data, ({ cursor }) => cursor, { pause: async () => {}, attempts: 3, ...options })

test('following: a broken stream goes on after the last event that was read', async () => {
  const source = played([event('a'), event('b'), new Error('broken')], [event('c')], [{ errors: [{ message: 'x', extensions: { code: 'NOT_FOUND' } }] }])
  const seen = []
  await assert.rejects(async () => { for await (const { cursor } of following(source)) seen.push(cursor) }, { code: 'NOT_FOUND' })
  assert.deepEqual(seen, ['a', 'b', 'c'])
  assert.deepEqual(source.asked, [undefined, 'b', 'c'])
})

test('following: RESYNC goes on where the server says', async () => {
  const resync = { errors: [{ message: 'cut', extensions: { code: 'RESYNC', cursor: 'q', retryable: true } }] }
  const source = played([event('a'), resync], [event('r')])
  const cuts = []
  await assert.rejects(all(following(source, { onCut: (why) => cuts.push(why.code) })), { code: 'UNREACHABLE' })
  assert.deepEqual(source.asked.slice(0, 3), [undefined, 'q', 'r'])
  assert.equal(cuts[0], 'RESYNC')
})

test('following: who cannot reach the server hears so after the attempts that were given', async () => {
  const source = played()
  await assert.rejects(all(following(source)), { code: 'UNREACHABLE', retryable: true })
  assert.equal(source.asked.length, 3)
})

test('the client against a server', async (t) => {
  const house = await House.open(t)
  const as = async (person) => {
    const client = new Gantry({ url: house.url, token: await house.token(person), webSocket: WebSocket, pause: async () => {} })
    t.after(() => client.close())
    return client
  }
  const accountant = await as('amara.diallo')
  const controller = await as('tomas.rehak')
  const { run } = await accountant.startRun({ agent: 'invoice-reconciler', goal: 'Reconcile invoice INV-1008.' })

  await t.test('it reads through lost sockets, without gap or double', async () => {
    const trip = new Trip()
    const leave = new AbortController()
    trip.begin(accountant.runEvents(run.id, { ...trip.options, signal: leave.signal }))
    for (const seq of [1, 4, 9]) {
      await trip.readTo((event) => Number(event.seq) >= seq)
      await trip.lose(() => house.wire.cut())
      house.wire.mend()
    }
    await trip.readTo((event) => event.kind === 'approval_requested')
    assert.deepEqual(trip.seen.map(({ seq }) => Number(seq)), trip.seen.map((_, index) => index + 1))
    await trip.end(leave)
  })
  await t.test('what is refused is typed, and changes nothing', async () => {
    const [{ approval }] = await controller.inbox()
    const other = { id: approval.id, digest: '0'.repeat(64) }
    await assert.rejects(controller.decide(other, 'APPROVE'), (error) => error instanceof Refused && error.code !== '' && error.reasons.length === 1)
    await assert.rejects(accountant.decide(approval, 'APPROVE'), Refused)
    assert.equal((await controller.run(run.id)).status, 'WAITING')
  })
  await t.test('a command whose answer is lost is sent again and counts once', async () => {
    const [{ approval }] = await controller.inbox()
    const { fetch } = globalThis
    t.after(() => (globalThis.fetch = fetch))
    globalThis.fetch = async (...request) => {
      globalThis.fetch = fetch
      await fetch(...request)
      throw new TypeError('the answer was lost')
    }
    assert.equal((await controller.decide(approval, 'DENY', 'Not this one.')).outcome, 'REPLAYED')
  })
  await t.test('it sees the end', async () => {
    const { kind } = (await untilEnded(accountant.runEvents(run.id))).at(-1)
    assert.equal(kind, 'ended')
    assert.equal((await accountant.run(run.id)).end.status, (await accountant.run(run.id)).status)
  })
  await t.test('a signal ends a stream', async () => {
    const stop = new AbortController()
    const inbox = accountant.inboxChanges({ signal: stop.signal })
    assert.equal((await inbox.next()).done, false)
    const next = inbox.next()
    stop.abort()
    assert.equal((await next).done, true)
  })
  await t.test('it remembers, recalls what each may see, and forgets with a receipt', async () => {
    const text = 'Supplier Kestrel sends its invoices to the old address.'
    const input = { draft: { space: 'department:finance', subject: 'Kestrel, address', text, labels: ['finance'] }, commandId: 'remember-1' }
    const { item, known, outcome } = await accountant.remember(input)
    assert.deepEqual([item.text, item.labels, known, outcome], [text, ['finance'], false, 'ACCEPTED'])
    assert.equal((await accountant.remember(input)).outcome, 'REPLAYED')
    const { hits, degraded } = await controller.recall('Where does Kestrel send invoices?', { first: 3 })
    assert.equal(hits[0].item.id, item.id)
    assert.match(hits[0].citation, /Amara Diallo/)
    assert.deepEqual(degraded, [])
    const outsider = await as('liam.byrne')
    const changes = controller.memoryChanges()
    assert.deepEqual((await changes.next()).value, [], 'it stands')
    assert.ok((await outsider.recall('Where does Kestrel send invoices?')).hits.every((hit) => hit.item.id !== item.id))
    await assert.rejects(outsider.forget({ items: [item.id] }), (error) => error instanceof Refused && error.code === 'NOT_FOUND')
    const { receipt } = await accountant.forget({ items: [item.id] })
    assert.deepEqual(receipt.items, [item.id])
    assert.deepEqual((await changes.next()).value, [{ kind: 'GONE', id: item.id, item: null }])
    await changes.return()
    assert.ok((await controller.recall('Where does Kestrel send invoices?')).hits.every((hit) => hit.item.id !== item.id))
  })
  await t.test('what it asks wrongly is a fault with a code', async () => {
    await assert.rejects(accountant.run('nonsense'), { name: 'Fault', code: 'NOT_FOUND' })
    const nobody = new Gantry({ url: house.url, token: 'x.y.z', webSocket: WebSocket })
    await assert.rejects(nobody.viewer(), (error) => error instanceof Fault && error.code === 'UNAUTHENTICATED')
    await assert.rejects(nobody.inboxChanges().next(), { code: 'UNAUTHENTICATED', retryable: false })
    await nobody.close()
  })
})

async function untilEnded(events) {
  const seen = []
  for await (const event of events) {
    seen.push(event)
    if (event.kind === 'ended') return seen
  }
  return seen
}
