// Prints what failed, and one line when nothing did.
const needed = ['graphql-ws + urql: a run from its start to its end', 'Apollo Client: a run from its start to its end', 'graphql-sse: a run from its start to its end', 'the doors', 'the client against a server']

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
  yield failed > 0 ? `clients: ${failed} failed, ${passed} passed\n` : `clients: graphql-ws+urql, apollo, graphql-sse: ${passed} checks passed\n`
}
