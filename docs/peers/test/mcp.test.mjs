// Gantry as a server of MCP, asked by the protocol's own client for TypeScript.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { agent, approve, asker, base, bearing, House, outsider } from './gantry.mjs'

async function speak(t, house, token) {
  const client = new Client({ name: 'gantry-peers', version: '0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${base(house)}/mcp`), { fetch: bearing(token) }))
  t.after(() => client.close())
  return client
}

const said = (result) => (result.isError ? result.content[0].text : result.structuredContent)

test('MCP, TypeScript SDK: a run from its start to its end', async (t) => {
  const house = await House.open(t)
  const client = await speak(t, house, await house.token(asker))
  const { tools } = await client.listTools()
  assert.deepEqual(tools.map((tool) => tool.name).sort(), ['answer_question', 'cancel_run', 'list_agents', 'list_runs', 'read_run', 'recall_memory', 'start_run'])
  const call = async (name, args) => said(await client.callTool({ name, arguments: args }))

  assert.ok((await call('list_agents', {})).agents.some((one) => one.name === agent && one.available))
  const start = { agent, goal: 'Reconcile INV-1004.', idempotencyKey: 'one', waitSeconds: 25 }
  const { run, outcome } = await call('start_run', start)
  assert.equal(outcome, 'ACCEPTED')
  assert.deepEqual(run.waitingFor, ['APPROVAL'])
  const again = await call('start_run', start)
  assert.deepEqual([again.run.id, again.outcome], [run.id, 'REPLAYED'])
  assert.match(await call('start_run', { ...start, goal: 'Another goal.' }), /^COMMAND_ID_REUSED/)

  await approve(house, run.id)
  const ended = (await call('read_run', { run: run.id, waitSeconds: 25 })).run
  assert.equal(ended.status, 'COMPLETED')
  assert.ok(ended.answer.value)
  const { contents } = await client.readResource({ uri: `gantry://runs/${run.id}` })
  assert.equal(JSON.parse(contents[0].text).status, 'COMPLETED')

  const other = await speak(t, house, await house.token(outsider))
  const theirs = await other.callTool({ name: 'read_run', arguments: { run: run.id } })
  const nobodys = await other.callTool({ name: 'read_run', arguments: { run: 'WyJydW4iXQ' } })
  assert.deepEqual(theirs, nobodys, 'what one may not know of is as what does not exist')
})

test('MCP, TypeScript SDK: a client on this machine starts gantry mcp', async (t) => {
  const house = await House.open(t)
  const client = new Client({ name: 'gantry-peers', version: '0' })
  await client.connect(new StdioClientTransport({ command: process.env.GANTRY_BINARY, args: ['mcp', '--url', base(house)], env: { GANTRY_TOKEN: await house.token(asker), GANTRY_HOME: house.folder } }))
  t.after(() => client.close())
  const start = { agent, goal: 'Reconcile INV-1004.', idempotencyKey: 'one', waitSeconds: 25 }
  const { run } = said(await client.callTool({ name: 'start_run', arguments: start }))
  assert.deepEqual(run.waitingFor, ['APPROVAL'])
  assert.match(said(await client.callTool({ name: 'read_run', arguments: { run: 'WyJydW4iXQ' } })), /^NOT_FOUND/)
})

test('MCP, TypeScript SDK: without a token a client learns where to ask for one', async (t) => {
  const house = await House.open(t)
  const response = await fetch(`${base(house)}/mcp`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })
  assert.equal(response.status, 401)
  const [, metadata] = /resource_metadata="([^"]+)"/.exec(response.headers.get('www-authenticate'))
  assert.equal((await (await fetch(metadata)).json()).resource, `${base(house)}/mcp`)
})
