// The real binary, served in a temporary folder as an operator would: keys,
// the sample organisation, its outside ledger, and tokens.
import { spawn } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Wire } from './wire.mjs'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const binary = process.env.GANTRY_BINARY ?? fileURLToPath(new URL('../build/gantry', import.meta.url))
const ledgerToken = 'a-token-of-the-ledger'
export const allowedOrigin = 'https://app.example.org'

// A test that takes too long is ended from outside; what it started goes too.
const children = new Set()
process.once('SIGTERM', () => {
  for (const child of children) child.kill('SIGKILL')
  process.exit(1)
})

/** Starts a process, with nothing of this one's environment, and resolves with what `ready` finds in one of its lines. */
function start(args, env, ready) {
  const child = spawn(binary, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  children.add(child)
  const exited = new Promise((resolve) => child.once('exit', () => (children.delete(child), resolve())))
  const said = []
  const found = new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (text) => {
        said.push(text)
        const value = ready?.(text)
        if (value) resolve(value)
      })
    }
    child.once('error', reject)
    child.once('close', (code) => (ready || code !== 0 ? reject(new Error(`gantry ${args[0]} ended with ${code}:\n${said.join('\n')}`)) : resolve(said.join('\n'))))
  })
  return { found, stop: () => (child.kill('SIGTERM'), exited) }
}

const run = (...args) => start(args, {}).found

export class House {
  /** Serves the sample; stops when the test ends. */
  static async open(t) {
    const house = new House()
    house.folder = await mkdtemp(join(tmpdir(), 'gantry-clients-'))
    t.after(() => house.close())
    await house.#furnish()
    house.wire = await Wire.open()
    await house.serve()
    house.url = `http://127.0.0.1:${house.wire.port}/graphql`
    return house
  }

  async #furnish() {
    await writeFile(join(this.folder, 'ledger-tokens'), `gantry ${ledgerToken}\n`)
    this.ledger = start(['sample-ledger', '--listen', '127.0.0.1:0', '--db', join(this.folder, 'ledger.db'), '--token-file', join(this.folder, 'ledger-tokens')],
      {}, (text) => /listens on (http:\S+)/.exec(text)?.[1])
    const address = new URL(await this.ledger.found).host
    const organisation = join(this.folder, 'organisation')
    await cp(join(root, 'deploy/sample'), organisation, { recursive: true })
    const file = join(organisation, 'organisation.yaml')
    await writeFile(file, (await readFile(file, 'utf8')).replaceAll('127.0.0.1:7411', address))
    await run('keys', '--folder', this.folder)
    await run('apply', '-f', organisation, '--folder', this.folder)
  }

  /** Begins to serve; the wire leads to the new process. */
  async serve() {
    this.server = start(['serve', '--folder', this.folder, '--listen', '127.0.0.1:0', '--files', join(this.folder, 'organisation/files'), '--origins', allowedOrigin],
      { GANTRY_SECRET_LEDGER: ledgerToken }, (text) => /"msg":"started","address":"[^"]*:(\d+)"/.exec(text)?.[1])
    this.wire.target = Number(await this.server.found)
  }

  /** Lets the process drain, as a deployment does. */
  stop() {
    return this.server.stop()
  }

  token(person) {
    return run('token', person, '--organisation', 'northwind', '--folder', this.folder)
  }

  async close() {
    await this.server?.stop()
    await this.ledger?.stop()
    await this.wire?.close()
    await rm(this.folder, { recursive: true })
  }
}
