import { Fault, fault, type Reported } from './fault.js'

/** One answer of a subscription, as every GraphQL library hands it over. */
export interface Answer<Data> {
  data?: Data | null | undefined
  errors?: readonly Reported[] | undefined
}

/** How to follow a stream. */
export interface Follow {
  /** Cursor of the last event that you have; from the beginning when absent. */
  after?: string | undefined
  /** Ends the stream. */
  signal?: AbortSignal | undefined
  /** Tries in a row that may bring nothing; 10 when absent. */
  attempts?: number | undefined
  /** Told of every cut, before it is mended: show "reconnecting" here. */
  onCut?: ((why: Fault) => void) | undefined
  /** Waits before the given attempt, from 1; by default longer each time, up to 10 seconds. */
  pause?: ((attempt: number, signal?: AbortSignal) => Promise<void>) | undefined
}

/**
 * Follows a subscription for as long as you read, without gap or repeat. When
 * the connection breaks it subscribes again after the last event that you were
 * given; on RESYNC, after the cursor that the server names.
 *
 * `open` subscribes once. It must not resubscribe by itself: a library that
 * does would ask again from the old cursor, and you would see events twice.
 *
 * Throws a Fault that trying again does not mend.
 */
export async function* follow<Data, Event>(
  open: (after: string | undefined, signal: AbortSignal | undefined) => AsyncIterable<Answer<Data>>,
  read: (data: Data) => Event,
  cursorOf: (event: Event) => string | undefined,
  options: Follow = {},
): AsyncGenerator<Event, void, undefined> {
  const { signal, attempts = 10, pause = backoff } = options
  let after = options.after
  for (let attempt = 1; !signal?.aborted; attempt++) {
    let why = new Fault('UNREACHABLE', 'The server ended the stream.', true)
    try {
      for await (const answer of open(after, signal)) {
        if (answer.errors?.length) throw fault(answer.errors)
        if (answer.data == null) continue
        const event = read(answer.data)
        after = cursorOf(event) ?? after
        attempt = 0
        yield event
      }
    } catch (error) {
      why = fault(error)
    }
    if (signal?.aborted) return
    if (!why.retryable || attempt >= attempts) throw why
    after = why.cursor || after
    options.onCut?.(why)
    await pause(Math.max(attempt, 1), signal)
  }
}

/** Waits a random part of 0.2 s, 0.4 s, 0.8 s … 10 s, so that not all clients come back at once. */
export function backoff(attempt: number, signal?: AbortSignal): Promise<void> {
  const longest = Math.min(10_000, 100 * 2 ** attempt)
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, longest * (0.5 + Math.random() / 2))
    signal?.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })
}
