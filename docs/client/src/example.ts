// A reconciliation as two people see it: an accountant starts a run and
// watches, the controller reads what is held and approves it.
//
//   npm run example -- INV-1006
//
// It speaks to `gantry dev`, whose folder has the address and the tokens.
import { readFileSync } from 'node:fs'
import { WebSocket } from 'ws'
import { Gantry, Refused, type Approval } from './gantry.js'

const folder = process.env['GANTRY_HOME'] ?? '../../.gantry'
const line = (name: string) => readFileSync(`${folder}/${name}`, 'utf8').trim()
const as = (person: string) => new Gantry({ url: `${line('url')}/graphql`, token: () => line(`tokens/${person}`), webSocket: globalThis.WebSocket ?? WebSocket })

const accountant = as('amara.diallo')
const controller = as('tomas.rehak')

async function approvalOf(run: string): Promise<Approval> {
  for await (const entries of controller.inboxChanges()) {
    const approval = entries.find((entry) => entry.run.id === run)?.approval
    if (approval) return approval
  }
  throw new Error('the inbox ended')
}

async function approve(run: string) {
  const approval = await approvalOf(run)
  console.log(`      ${approval.consequence}\n      ${approval.tool} ${approval.arguments.display}`)
  try {
    await controller.decide(approval, 'APPROVE', 'Checked against the receipts.')
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    console.log(`      not approved, ${error.code}: ${error.message}`)
  }
}

const invoice = process.argv[2] ?? 'INV-1006'
const { run } = await accountant.startRun({ agent: 'invoice-reconciler', goal: `Reconcile invoice ${invoice}.` })
for await (const event of accountant.runEvents(run.id, { onCut: (why) => console.log(`      ${why.message}`) })) {
  console.log(event.seq.padStart(5), event.summary)
  if (event.kind === 'approval_requested') await approve(run.id)
  if (event.kind === 'ended') break
}
const { end } = await accountant.run(run.id)
console.log(end?.status, end?.result?.display)
await Promise.all([accountant.close(), controller.close()])
