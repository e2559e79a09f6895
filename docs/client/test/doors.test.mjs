// Who is let in: by websocket, and from pages of other origins.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { allowedOrigin, House } from './house.mjs'

const otherOrigin = 'https://elsewhere.example.org'

test('the doors', async (t) => {
  const house = await House.open(t)
  const token = await house.token('amara.diallo')
  const socket = (options) => new WebSocket(house.url.replace('http', 'ws'), 'graphql-transport-ws', options)
  const closedAfter = async (first) => {
    const one = socket()
    const closed = once(one, 'close')
    await once(one, 'open')
    if (first) one.send(JSON.stringify(first))
    const [code, reason] = await closed
    return { code, reason: String(reason) }
  }

  await t.test('a websocket with a good token is acknowledged', async () => {
    const one = socket()
    await once(one, 'open')
    one.send(JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${token}` } }))
    const [message] = await once(one, 'message')
    assert.equal(JSON.parse(message).type, 'connection_ack')
    one.close()
    await once(one, 'close')
  })
  for (const [what, payload] of Object.entries({
    'a wrong token': { authorization: 'Bearer x.y.z' },
    'a changed token': { authorization: `Bearer ${token.slice(0, -8)}AAAAAAAA` },
    'no token': {},
    'a token without its scheme': { authorization: token },
  })) {
    await t.test(`a websocket with ${what} is closed with 4403`, async () => {
      assert.deepEqual(await closedAfter({ type: 'connection_init', payload }), { code: 4403, reason: 'Forbidden' })
    })
  }
  await t.test('a websocket that never says who it is is closed', async () => {
    const { code } = await closedAfter(null)
    assert.equal(code, 4408)
  })
  await t.test('a websocket that asks before it says who it is is closed', async () => {
    const { code } = await closedAfter({ type: 'subscribe', id: '1', payload: { query: 'subscription { inboxChanged { id } }' } })
    assert.equal(code, 4401)
  })

  const preflight = (origin, header = 'authorization,content-type') =>
    fetch(house.url, { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': header } })
  await t.test('a preflight from an origin of the list is permitted', async () => {
    const { status, headers } = await preflight(allowedOrigin)
    assert.equal(status, 204)
    assert.equal(headers.get('access-control-allow-origin'), allowedOrigin)
    assert.equal(headers.get('access-control-allow-methods'), 'POST')
    assert.equal(headers.get('access-control-allow-headers'), 'authorization, content-type')
    assert.equal(headers.get('access-control-allow-credentials'), null)
    assert.match(headers.get('vary'), /Origin/)
  })
  for (const origin of [otherOrigin, 'null', `${allowedOrigin}.evil.example`, allowedOrigin.replace('https', 'http')]) {
    await t.test(`a preflight from ${origin} is not`, async () => {
      const { status, headers } = await preflight(origin)
      assert.notEqual(status, 204)
      assert.equal(headers.get('access-control-allow-origin'), null)
      assert.equal(headers.get('access-control-allow-headers'), null)
    })
  }
  await t.test('a page of the list may read an answer, another may not', async () => {
    const ask = (origin) => fetch(house.url, {
      method: 'POST', headers: { origin, 'content-type': 'application/json', authorization: `Bearer ${token}` }, body: '{"query":"{viewer{name}}"}',
    })
    assert.equal((await ask(allowedOrigin)).headers.get('access-control-allow-origin'), allowedOrigin)
    assert.equal((await ask(otherOrigin)).headers.get('access-control-allow-origin'), null)
  })
  await t.test('a websocket opens for a page of the list, and not for another', async () => {
    const admitted = socket({ origin: allowedOrigin })
    await once(admitted, 'open')
    admitted.terminate()
    const [refusal] = await once(socket({ origin: otherOrigin }), 'error')
    assert.equal(refusal.message, 'Unexpected server response: 403')
  })
})
