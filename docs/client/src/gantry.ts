import type { TypedDocumentNode } from '@graphql-typed-document-node/core'
import { print } from 'graphql'
import { createClient, type Client } from 'graphql-ws'
import { Fault, Refused, fault } from './fault.js'
import { backoff, follow, type Answer, type Follow } from './follow.js'
import * as documents from './generated.js'
import type { ApprovalDecision, CancelRunInput, ForgetInput, InboxEntryFragment, RecallQueryVariables, ReceiptFragment, RefusalFragment, RememberedFragment, RememberInput, RunEventsSubscription, RunStateFragment, StartRunInput } from './generated.js'

export { Fault, Refused, type Code } from './fault.js'
export { follow, type Answer, type Follow } from './follow.js'
export type { InboxEntryFragment as InboxEntry, RunStateFragment as Run, RefusalFragment as Refusal, RememberedFragment as MemoryItem, ReceiptFragment as Receipt } from './generated.js'

/** One fact of a run. */
export type RunEvent = RunEventsSubscription['runEvents']

/** What happened to something that is remembered, as you see it. `GONE` has no item. */
export type MemoryChange = documents.MemoryChangedSubscription['memoryChanged'][number]

/** A call that waits for a decision, as it was shown. */
export type Approval = NonNullable<InboxEntryFragment['approval']>

/** Where to ask, and as whom. */
export interface Config {
  /** For example `http://127.0.0.1:8080/graphql`. */
  url: string
  /** A bearer token, or how to get one; asked for again on every request and connection. */
  token: string | (() => string | Promise<string>)
  /** Where there is no global WebSocket, as in Node before 22: the one of `ws`. */
  webSocket?: unknown
  /** Waits before an attempt is made again; see Follow. */
  pause?: Follow['pause']
}

/** What a mutation did. */
export interface Done {
  run: RunStateFragment
  /** REPLAYED: the same `commandId` had been accepted before, and nothing new happened. */
  outcome: documents.MutationOutcome
}

/** How often a command is sent before its fault is passed on. */
const commandAttempts = 4

/** Something remembered, or known already. */
export interface Remembered {
  /** As you see it: `[redacted]` stands in place of what you may not read, and `withheld` says where. Null when it was forgotten since. */
  item: RememberedFragment | null
  /** Whether the same was there already. */
  known: boolean
  /** REPLAYED: the same `commandId` had been accepted before, and nothing new happened. */
  outcome: documents.MutationOutcome
}

/** What was found, best first. */
export type Recollection = documents.RecallQuery['recall']

/** Something that was forgotten, with the proof. */
export interface Forgotten {
  receipt: ReceiptFragment
  /** REPLAYED: the same `commandId` had been accepted before; this is the first receipt. */
  outcome: documents.MutationOutcome
}

/** A client of one Gantry server, for one person. */
export class Gantry {
  readonly #config: Config
  readonly #socket: Client

  constructor(config: Config) {
    this.#config = config
    this.#socket = createClient({
      url: config.url.replace(/^http/, 'ws'),
      webSocketImpl: config.webSocket,
      connectionParams: async () => ({ authorization: await this.#authorization() }),
      retryAttempts: 0, // follow resumes from the last cursor; graphql-ws would ask from the first again
    })
  }

  /** Who the token stands for. */
  async viewer() {
    return (await this.ask(documents.ViewerDocument, {})).viewer
  }

  /** A run as it is now. Throws the Fault NOT_FOUND where there is none that you may see. */
  async run(id: string): Promise<RunStateFragment> {
    const { run } = await this.ask(documents.RunByIdDocument, { id })
    if (run === null) throw new Fault('NOT_FOUND', 'There is no such run.')
    return run
  }

  /** What waits for you. */
  async inbox(): Promise<InboxEntryFragment[]> {
    return (await this.ask(documents.InboxDocument, {})).inbox
  }

  /** Starts a run. Throws Refused when it is not accepted. */
  async startRun(input: StartRunInput): Promise<Done> {
    return this.#command(documents.StartRunDocument, input, (data) => accepted(data.startRun))
  }

  /**
   * Decides a held call: exactly the one that you hand in, as it was shown.
   * Throws Refused when it changed since, was decided, or is not yours.
   */
  async decide(approval: Pick<Approval, 'id' | 'digest'>, decision: ApprovalDecision, reason?: string, commandId?: string): Promise<Done> {
    const { id, digest } = approval
    return this.#command(documents.DecideApprovalDocument, { id, digest, decision, reason, commandId }, (data) => accepted(data.decideApproval))
  }

  /** Cancels a run: nothing new begins, and what is in flight is settled. */
  async cancelRun(input: CancelRunInput): Promise<Done> {
    return this.#command(documents.CancelRunDocument, input, (data) => accepted(data.cancelRun))
  }

  /** Asks what is remembered, of what you may see. Look at `degraded`: it names what could not be asked. */
  async recall(query: string, narrow: Omit<RecallQueryVariables, 'query'> = {}): Promise<Recollection> {
    return (await this.ask(documents.RecallDocument, { query, ...narrow })).recall
  }

  /** Remembers something. Throws Refused when it is not accepted. */
  async remember(input: RememberInput): Promise<Remembered> {
    return this.#command(documents.RememberDocument, input, ({ remember: { item, known, outcome, userErrors } }) => {
      if (outcome === null) throw new Refused(userErrors)
      return { item, known, outcome }
    })
  }

  /** Erases what is remembered, with everything made of it. Throws Refused when it is not accepted. */
  async forget(input: ForgetInput): Promise<Forgotten> {
    return this.#command(documents.ForgetDocument, input, ({ forget: { receipt, outcome, userErrors } }) => {
      if (receipt === null || outcome === null) throw new Refused(userErrors)
      return { receipt, outcome }
    })
  }

  /**
   * The events of a run, for as long as you read: `for await (const event of …)`.
   * Survives lost connections and restarts of the server without gap or
   * repeat. Does not end with the run; leave the loop at the event `ended`.
   */
  runEvents(run: string, options: Follow = {}): AsyncGenerator<RunEvent> {
    return follow(
      (after, signal) => this.#subscribe(documents.RunEventsDocument, { run, after: after ?? null }, signal),
      (data) => data.runEvents,
      (event) => event.cursor,
      this.#patient(options),
    )
  }

  /** Your inbox, whole, at once and whenever it changes. */
  inboxChanges(options: Omit<Follow, 'after'> = {}): AsyncGenerator<InboxEntryFragment[]> {
    return follow(
      (_, signal) => this.#subscribe(documents.InboxChangedDocument, {}, signal),
      (data) => data.inboxChanged,
      () => undefined,
      this.#patient(options),
    )
  }

  /**
   * What changes of what you see in memory. It comes with an empty list at once
   * and again whenever the connection is new: what changed in between is not
   * told, so ask again what you show.
   */
  memoryChanges(spaces?: string[], options: Omit<Follow, 'after'> = {}): AsyncGenerator<MemoryChange[]> {
    return follow(
      (_, signal) => this.#subscribe(documents.MemoryChangedDocument, { spaces: spaces ?? null }, signal),
      (data) => data.memoryChanged,
      () => undefined,
      this.#patient(options),
    )
  }

  /** Asks once. Throws a Fault. */
  async ask<Data, Variables>(document: TypedDocumentNode<Data, Variables>, variables: Variables): Promise<Data> {
    const headers = { 'content-type': 'application/json', authorization: await this.#authorization() }
    const body = JSON.stringify({ query: print(document), variables })
    let answer: Answer<Data>
    try {
      const response = await fetch(this.#config.url, { method: 'POST', headers, body })
      answer = (await response.json()) as Answer<Data>
    } catch (error) {
      throw fault(error)
    }
    if (answer.errors?.length) throw fault(answer.errors)
    if (answer.data == null) throw new Fault('INTERNAL', 'The answer holds nothing.')
    return answer.data
  }

  /** Closes the connection; streams that are being read end with a Fault. */
  async close(): Promise<void> {
    await this.#socket.dispose()
  }

  async #authorization(): Promise<string> {
    const { token } = this.#config
    return `Bearer ${typeof token === 'string' ? token : await token()}`
  }

  #patient(options: Follow): Follow {
    return { pause: this.#config.pause, ...options }
  }

  // A command has one id however often it is sent: when an answer is lost, the
  // repeat gets it, and nothing happens twice.
  async #command<Data, Input extends { commandId?: string | null | undefined }, Result>(
    document: TypedDocumentNode<Data, { input: Input }>,
    input: Input,
    read: (data: Data) => Result,
  ): Promise<Result> {
    const once = { ...input, commandId: input.commandId ?? crypto.randomUUID() }
    const pause = this.#config.pause ?? backoff
    for (let attempt = 1; ; attempt++) {
      try {
        return read(await this.ask(document, { input: once }))
      } catch (error) {
        if (!(error instanceof Fault && error.retryable) || attempt >= commandAttempts) throw error
        await pause(attempt)
      }
    }
  }

  #subscribe<Data, Variables>(document: TypedDocumentNode<Data, Variables>, variables: Variables, signal?: AbortSignal): AsyncIterable<Answer<Data>> {
    const answers = this.#socket.iterate<Data>({ query: print(document), variables: variables as Record<string, unknown> })
    signal?.addEventListener('abort', () => void answers.return?.(), { once: true })
    return answers as AsyncIterable<Answer<Data>>
  }
}

interface Payload {
  run: RunStateFragment | null
  outcome: documents.MutationOutcome | null
  userErrors: RefusalFragment[]
}

function accepted({ run, outcome, userErrors }: Payload): Done {
  if (run === null || outcome === null) throw new Refused(userErrors)
  return { run, outcome }
}
