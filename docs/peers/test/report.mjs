import { counted } from '../../client/test/counted.mjs'

const needed = ['MCP, TypeScript SDK: a client on this machine starts gantry mcp', 'MCP, TypeScript SDK: a run from its start to its end', 'A2A, JavaScript SDK over JSON-RPC: a task from its start to its end',
  'A2A, JavaScript SDK over REST: a task from its start to its end', 'MCP conformance of the server', 'MCP conformance with the tools that the suite expects']

export default counted(needed, 'peers', (passed) => `level: L6 checks by peers over MCP and A2A ${passed}`)
