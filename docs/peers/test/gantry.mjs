// The real binary as an operator serves it, and what a person does there in
// GraphQL, whatever protocol began it.
import assert from 'node:assert/strict'
import { House } from '../../client/test/house.mjs'

export { House }
export const asker = 'amara.diallo'
export const controller = 'tomas.rehak'
export const outsider = 'liam.byrne'
export const agent = 'invoice-reconciler'

/** Where the server answers. */
export const base = (house) => house.url.replace('/graphql', '')

/** A fetch that sends a person's token. */
export const bearing = (token) => (url, init = {}) => {
  const headers = new Headers(init.headers)
  headers.set('authorization', `Bearer ${token}`)
  return fetch(url, { ...init, headers })
}

async function ask(house, token, query, variables) {
  const response = await bearing(token)(house.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query, variables }) })
  const { data, errors } = await response.json()
  assert.equal(errors, undefined, JSON.stringify(errors))
  return data
}

/** Lets the one who answers for the ledger approve the call of a run that waits. */
export async function approve(house, run) {
  const token = await house.token(controller)
  const { inbox } = await ask(house, token, '{ inbox { run { id } approval { id digest } } }')
  const { approval } = inbox.find((item) => item.run.id === run)
  const input = { id: approval.id, digest: approval.digest, decision: 'APPROVE' }
  const { decideApproval } = await ask(house, token, 'mutation($input: DecideApprovalInput!) { decideApproval(input: $input) { outcome userErrors { code } } }', { input })
  assert.deepEqual(decideApproval, { outcome: 'ACCEPTED', userErrors: [] })
}
