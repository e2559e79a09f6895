// With urql, and graphql-ws for its streams.
import { createClient as urql, fetchExchange, subscriptionExchange } from '@urql/core'
import { createClient as socket } from 'graphql-ws'
import { WebSocket } from 'ws'
import { journey } from './journey.mjs'
import { pushed } from './push.mjs'

journey('graphql-ws + urql', ({ url, token }) => {
  const authorization = `Bearer ${token}`
  const streams = socket({ url: url.replace('http', 'ws'), webSocketImpl: WebSocket, connectionParams: { authorization }, retryAttempts: 0 })
  const client = urql({
    url,
    preferGetMethod: false, // operations are sent by POST only
    fetchOptions: { headers: { authorization } },
    fetch: (address, { signal, ...request }) => fetch(address, request), // urql aborts what it has read, which Node's fetch may report to nobody
    requestPolicy: 'network-only',
    exchanges: [
      fetchExchange,
      subscriptionExchange({ forwardSubscription: (request) => ({ subscribe: (sink) => ({ unsubscribe: streams.subscribe({ query: request.query ?? '', variables: request.variables }, sink) }) }) }),
    ],
  })
  const answer = ({ data, error }) => {
    if (error?.networkError) throw error.networkError
    return { data, errors: error?.graphQLErrors }
  }
  return {
    async ask(query, variables) {
      const result = await (query.startsWith('mutation') ? client.mutation(query, variables) : client.query(query, variables)).toPromise()
      return { data: result.data, errors: result.error?.graphQLErrors }
    },
    async *open(query, variables) {
      for await (const result of pushed((sink) => client.subscription(query, variables).subscribe(sink.next).unsubscribe)) yield answer(result)
    },
    close: () => streams.dispose(),
  }
})
