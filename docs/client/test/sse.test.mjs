// Over server-sent events, with graphql-sse: everything, not only streams.
import { createClient } from 'graphql-sse'
import { journey } from './journey.mjs'

journey('graphql-sse', ({ url, token }) => {
  const client = createClient({ url, headers: { authorization: `Bearer ${token}` }, retryAttempts: 0 })
  const open = (query, variables) => client.iterate({ query, variables })
  return {
    open,
    async ask(query, variables) {
      for await (const answer of open(query, variables)) return answer
      throw new Error('no answer')
    },
    close: () => client.dispose(),
  }
})
