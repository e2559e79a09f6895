import type { RefusalFragment } from './generated.js'

/**
 * What can stand in `extensions.code` of an error, and what the client adds:
 * `UNREACHABLE` when no answer came. A newer server may send others.
 */
export type Code =
  | 'UNAUTHENTICATED'
  | 'REVOKED'
  | 'NOT_FOUND'
  | 'NOT_CLEARED'
  | 'BAD_REQUEST'
  | 'OVER_LIMIT'
  | 'CURSOR_INVALID'
  | 'RESYNC'
  | 'TOO_BUSY'
  | 'STORE_UNAVAILABLE'
  | 'MEMORY_UNAVAILABLE'
  | 'REQUEST_TIMEOUT'
  | 'INTERNAL'
  | 'GRAPHQL_PARSE_FAILED'
  | 'GRAPHQL_VALIDATION_FAILED'
  | 'UNREACHABLE'

/** A request that was not answered, or a stream that ended. */
export class Fault extends Error {
  override readonly name = 'Fault'

  constructor(
    /** Say what you do by this, not by the message. */
    readonly code: Code | (string & {}),
    message: string,
    /** Whether the same can be sent again: a command with the same `commandId`, a subscription from the last cursor. */
    readonly retryable = false,
    /** With RESYNC: the cursor to go on after; empty for a stream without cursors. */
    readonly cursor?: string,
  ) {
    super(message)
  }
}

/** A mutation that was understood and not accepted. Nothing changed. */
export class Refused extends Error {
  override readonly name = 'Refused'
  /** The code of the first reason, for example `RUN_ENDED`. */
  readonly code: string

  constructor(readonly reasons: readonly RefusalFragment[]) {
    super(reasons.map((reason) => reason.message).join(' '))
    this.code = reasons[0]?.code ?? ''
  }
}

/** One error of an answer, as GraphQL has it. */
export interface Reported {
  message: string
  extensions?: Record<string, unknown> | undefined
}

/** Turns whatever a GraphQL library reports into a Fault. */
export function fault(reported: unknown): Fault {
  if (reported instanceof Fault) return reported
  if (Array.isArray(reported) && reported.length > 0) return fromErrors(reported)
  // urql and Apollo wrap the errors of an answer.
  const wrapped = reported as Wrapped | null
  for (const inner of [wrapped?.graphQLErrors, wrapped?.errors, wrapped?.networkError]) {
    if (Array.isArray(inner) ? inner.length > 0 : inner) return fault(inner)
  }
  const forbidden = wrapped?.code === closeForbidden || String(wrapped?.message).startsWith(`Socket closed with event ${closeForbidden}`)
  if (forbidden || (wrapped?.statusCode ?? wrapped?.response?.status) === 401) return new Fault('UNAUTHENTICATED', 'The token is not accepted, or no longer.')
  return new Fault('UNREACHABLE', 'The server cannot be reached, or the connection broke.', true)
}

/** What libraries wrap around an answer that is none. */
interface Wrapped {
  graphQLErrors?: unknown
  errors?: unknown
  networkError?: unknown
  /** Of a websocket that was closed; Apollo has the code in the message alone. */
  code?: unknown
  message?: unknown
  /** Of an answer by HTTP, with Apollo and graphql-sse. */
  statusCode?: unknown
  response?: { status?: unknown }
}

/** How the server closes a websocket whose token is not, or no longer, good. */
const closeForbidden = 4403

function fromErrors(errors: readonly Reported[]): Fault {
  const { message, extensions } = errors[0]!
  const text = (value: unknown) => (typeof value === 'string' ? value : undefined)
  return new Fault(text(extensions?.['code']) ?? 'INTERNAL', message, extensions?.['retryable'] === true, text(extensions?.['cursor']))
}
