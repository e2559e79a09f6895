// Prints what failed, and what was counted when nothing did.
const needed = ['MCP, TypeScript SDK: a client on this machine starts gantry mcp', 'MCP, TypeScript SDK: a run from its start to its end', 'A2A, JavaScript SDK over JSON-RPC: a task from its start to its end',
  'A2A, JavaScript SDK over REST: a task from its start to its end', 'MCP conformance of the server', 'MCP conformance with the tools that the suite expects']

export default async function* report(source) {
  let passed = 0
  let failed = 0
  const names = new Set()
  for await (const { type, data } of source) {
    if (type === 'test:stderr' || type === 'test:stdout') yield data.message
    if (type === 'test:fail') {
      failed++
      const cause = data.details.error?.cause ?? data.details.error
      yield `FAIL ${data.name} (${data.file}:${data.line})\n${cause?.stack ?? cause}\n`
    }
    if (type === 'test:pass') {
      if (data.skip || data.todo) failed++, yield `SKIPPED ${data.name}\n`
      else passed++
      names.add(data.name)
    }
  }
  for (const name of needed) {
    if (!names.has(name)) failed++, yield `MISSING ${name}\n`
  }
  if (failed > 0) process.exitCode = 1
  yield failed > 0 ? `peers: ${failed} failed, ${passed} passed\n` : `level: L6 checks by peers over MCP and A2A ${passed}\n`
}
