// A question to memory as two people see its answer, kept as it is now until you
// stop it.
//
//   npm run recall -- "When does the canteen open?" pieter.vanacker ruth.abelson
//
// It speaks to `gantry dev`, whose folder has the address and the tokens.
import { readFileSync } from 'node:fs'
import { WebSocket } from 'ws'
import { Gantry, type Recollection } from './gantry.js'

const folder = process.env['GANTRY_HOME'] ?? '../../.gantry'
const line = (name: string) => readFileSync(`${folder}/${name}`, 'utf8').trim()
const as = (person: string) => new Gantry({ url: `${line('url')}/graphql`, token: () => line(`tokens/${person}`), webSocket: globalThis.WebSocket ?? WebSocket })

const [question = 'When does the canteen open?', ...named] = process.argv.slice(2)
const people = named.length > 0 ? named : ['pieter.vanacker', 'ruth.abelson']

function show(person: string, { hits, degraded }: Recollection) {
  console.log(`\n${person}:`)
  for (const { item, citation } of hits) {
    console.log(`  ${item.display}\n    — ${citation}`)
    for (const { labels } of item.withheld) console.log(`    withheld: ${labels.join(', ') || 'you are not told why'}`)
  }
  if (hits.length === 0) console.log('  nothing that they may see fits')
  if (degraded.length > 0) console.log(`  not whole: ${degraded.join(', ')} could not be asked`)
}

async function keep(person: string) {
  const gantry = as(person)
  // The first comes at once, and one more after every lost connection.
  for await (const _ of gantry.memoryChanges(undefined, { onCut: (why) => console.log(`${person}: ${why.message}`) })) {
    show(person, await gantry.recall(question, { first: 3 }))
  }
}

await Promise.all(people.map(keep))
