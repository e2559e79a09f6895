// Agents of Gantry, spoken to by A2A's own client for JavaScript.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client'
import { Role, TaskState } from '@a2a-js/sdk'
import { agent, approve, asker, base, bearing, House, outsider } from './gantry.mjs'

const text = (words, more = {}) => ({
  message: { messageId: randomUUID(), role: Role.ROLE_USER, parts: [{ content: { $case: 'text', value: words }, mediaType: 'text/plain', filename: '', metadata: {} }], contextId: '', taskId: '', extensions: [], referenceTaskIds: [], metadata: {}, ...more },
  configuration: undefined, metadata: {}, tenant: '',
})

const open = (house, token, transport) => new ClientFactory({
  transports: [new transport({ fetchImpl: bearing(token) })], cardResolver: ClientFactoryOptions.default.cardResolver,
}).createFromUrl(`${base(house)}/a2a/${agent}/`)

for (const [name, transport] of [['JSON-RPC', JsonRpcTransportFactory], ['REST', RestTransportFactory]]) {
  test(`A2A, JavaScript SDK over ${name}: a task from its start to its end`, async (t) => {
    const house = await House.open(t)
    const client = await open(house, await house.token(asker), transport)
    const asked = text('Reconcile INV-1004 or INV-1008')
    let task
    let state
    for await (const { payload } of client.sendMessageStream(asked)) {
      task ??= payload.value
      state = payload.value.status?.state ?? state
    }
    assert.equal(state, TaskState.TASK_STATE_INPUT_REQUIRED)

    const held = await client.sendMessage(text('INV-1004', { taskId: task.id }))
    assert.equal((held.payload?.value ?? held).status.state, TaskState.TASK_STATE_INPUT_REQUIRED)
    await assert.rejects(client.sendMessage(text('I approve.', { taskId: task.id })), 'no message decides a call')

    const seen = []
    for await (const { payload } of client.resubscribeTask({ id: task.id, tenant: '' })) {
      if (seen.length === 0) await approve(house, task.id)
      seen.push(payload)
    }
    assert.equal(seen.at(-1).value.status.state, TaskState.TASK_STATE_COMPLETED)
    const done = await client.getTask({ id: task.id, tenant: '', historyLength: undefined })
    assert.ok(done.artifacts[0].parts[0].content.value)

    const other = await open(house, await house.token(outsider), transport)
    await assert.rejects(other.getTask({ id: task.id, tenant: '', historyLength: undefined }))
  })
}
