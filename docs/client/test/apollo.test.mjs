// With Apollo Client, and its link to graphql-ws.
import { ApolloClient, ApolloLink, CombinedGraphQLErrors, HttpLink, InMemoryCache, gql } from '@apollo/client/core/index.js'
import { GraphQLWsLink } from '@apollo/client/link/subscriptions/index.js'
import { OperationTypeNode } from 'graphql'
import { createClient as socket } from 'graphql-ws'
import { WebSocket } from 'ws'
import { journey } from './journey.mjs'
import { pushed } from './push.mjs'

globalThis.WebSocket ??= WebSocket // Apollo's link looks for it, as browsers have it

journey('Apollo Client', ({ url, token }) => {
  const authorization = `Bearer ${token}`
  const streams = socket({ url: url.replace('http', 'ws'), webSocketImpl: WebSocket, connectionParams: { authorization }, retryAttempts: 0 })
  const client = new ApolloClient({
    cache: new InMemoryCache(),
    link: ApolloLink.split(
      ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION,
      new GraphQLWsLink(streams),
      new HttpLink({ uri: url, headers: { authorization } }),
    ),
    defaultOptions: { query: { fetchPolicy: 'no-cache', errorPolicy: 'all' }, mutate: { fetchPolicy: 'no-cache', errorPolicy: 'all' } },
  })
  const answer = ({ data, error }) => {
    if (error && !CombinedGraphQLErrors.is(error)) throw error
    return { data, errors: error?.errors }
  }
  return {
    async ask(query, variables) {
      return answer(query.startsWith('mutation') ? await client.mutate({ mutation: gql(query), variables }) : await client.query({ query: gql(query), variables }))
    },
    async *open(query, variables) {
      const results = client.subscribe({ query: gql(query), variables, fetchPolicy: 'no-cache', errorPolicy: 'all' })
      for await (const result of pushed((sink) => { const s = results.subscribe(sink); return () => s.unsubscribe() })) yield answer(result)
    },
    async close() {
      client.stop()
      await streams.dispose()
    },
  }
})
