// Writes src/generated.ts: the types of everything in src/operations.graphql,
// as schema.graphql at the root of the repository has it. With --check it
// writes nothing and fails when the file is stale.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { codegen } from '@graphql-codegen/core'
import * as documents from '@graphql-codegen/typed-document-node'
import * as operations from '@graphql-codegen/typescript-operations'
import { buildSchema, parse, validate } from 'graphql'

const path = (name) => fileURLToPath(new URL(name, import.meta.url))
const read = (name) => readFileSync(path(name), 'utf8')

// Scalars come as strings on the wire, and stay what they are: a 64-bit number
// or an amount of money fits in no JavaScript number.
const scalars = { ID: 'string', MicroUsd: 'string', Int64: 'string', Time: 'string', Cursor: 'string', Json: 'unknown' }

export async function generated() {
  const schema = parse(read('../../schema.graphql'))
  const document = parse(read('src/operations.graphql'))
  const faults = validate(buildSchema(read('../../schema.graphql')), document)
  if (faults.length > 0) throw new Error(faults.join('\n'))
  return codegen({
    filename: 'generated.ts',
    schema,
    documents: [{ location: 'operations.graphql', document }],
    config: { scalars, strictScalars: true, useTypeImports: true, enumType: 'string-literal', skipTypename: true },
    plugins: [{ typescriptOperations: {} }, { typedDocumentNode: {} }],
    pluginMap: { typescriptOperations: operations, typedDocumentNode: documents },
  })
}

if (process.argv[1] === path('generate.mjs')) {
  const text = await generated()
  if (!process.argv.includes('--check')) writeFileSync(path('src/generated.ts'), text)
  else if (read('src/generated.ts') !== text) throw new Error('src/generated.ts is stale: npm run generate')
}
