// Prints what failed, and one line of words when nothing did and all that is
// needed was there.
export const counted = (needed, prefix, words) => async function* (source) {
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
  yield failed > 0 ? `${prefix}: ${failed} failed, ${passed} passed\n` : words(passed) + '\n'
}
