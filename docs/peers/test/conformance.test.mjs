// The public suite of MCP's conformance: as much of it as applies to a server of
// tools and resources that keeps no session and asks its clients nothing.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createServer, request } from 'node:http'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { asker, House } from './gantry.mjs'

const suite = fileURLToPath(new URL('../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url))
const fixture = fileURLToPath(new URL('../build/conform', import.meta.url))

/** What the suite needs no tools of its own for: asked of the server itself. */
const ofTheServer = ['server-initialize', 'ping', 'tools-list', 'resources-list', 'dns-rebinding-protection']
/** What it needs its own tools and resources for: asked of the same server with these beside. */
const ofTheFixture = [...ofTheServer, 'tools-call-simple-text', 'tools-call-image', 'tools-call-audio', 'tools-call-embedded-resource', 'tools-call-mixed-content',
  'tools-call-error', 'tools-call-with-progress', 'json-schema-2020-12', 'resources-read-text', 'resources-read-binary', 'resources-templates-read']
/** What Gantry does not offer, and so does not claim. */
const notOffered = ['logging-set-level', 'completion-complete', 'tools-call-with-logging', 'tools-call-sampling', 'tools-call-elicitation',
  'elicitation-sep1034-defaults', 'elicitation-sep1330-enums', 'server-sse-polling', 'server-sse-multiple-streams', 'resources-subscribe', 'resources-unsubscribe',
  'prompts-list', 'prompts-get-simple', 'prompts-get-with-args', 'prompts-get-embedded-resource', 'prompts-get-with-image']

const run = (...args) => new Promise((resolve, reject) => {
  const child = spawn(process.execPath, [suite, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (said += piece))
  child.once('error', reject)
  child.once('close', (code) => resolve({ code, said }))
})

async function passes(t, url, scenarios) {
  for (const scenario of scenarios) {
    await t.test(scenario, async () => {
      const { code, said } = await run('server', '--url', url, '--scenario', scenario)
      const [, passed, all] = /Passed: (\d+)\/(\d+)/.exec(said) ?? []
      assert.ok(code === 0 && all > 0 && passed === all, said)
    })
  }
}

/** The suite sends no token: what stands between adds one, and changes nothing else. */
async function withToken(t, house, token) {
  const near = createServer((incoming, outgoing) => {
    const headers = { ...incoming.headers, authorization: `Bearer ${token}` }
    const far = request({ host: '127.0.0.1', port: house.wire.port, path: incoming.url, method: incoming.method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers)
      answer.pipe(outgoing)
    })
    far.on('error', () => outgoing.destroy())
    incoming.pipe(far)
  })
  await new Promise((resolve) => near.listen(0, '127.0.0.1', resolve))
  t.after(() => near.close())
  return `http://127.0.0.1:${near.address().port}/mcp`
}

test('MCP conformance of the server', async (t) => {
  const house = await House.open(t)
  await passes(t, await withToken(t, house, await house.token(asker)), ofTheServer)
})

test('MCP conformance with the tools that the suite expects', async (t) => {
  const child = spawn(fixture, [], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill())
  const url = await new Promise((resolve, reject) => {
    child.stdout.on('data', (line) => resolve(/http:\S+/.exec(line)[0]))
    child.once('error', reject)
  })
  await passes(t, url, ofTheFixture)
})

test('MCP conformance: every scenario of the suite is asked, or said not to be offered', async () => {
  const { said } = await run('list')
  const listed = said.split('Client scenarios')[0].match(/(?<=^ {2}- )\S+/gm)
  assert.deepEqual([...listed].sort(), [...ofTheFixture, ...notOffered].sort())
})
