import { counted } from './counted.mjs'

const needed = ['graphql-ws + urql: a run from its start to its end', 'Apollo Client: a run from its start to its end', 'graphql-sse: a run from its start to its end', 'the doors', 'the client against a server']

export default counted(needed, 'clients', (passed) => `clients: graphql-ws+urql, apollo, graphql-sse: ${passed} checks passed`)
