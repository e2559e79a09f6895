import assert from 'node:assert/strict'

/** A promise that a test resolves. */
function signal() {
  let resolve
  const promise = new Promise((done) => (resolve = done))
  return { promise, resolve }
}

/** A reader on its way through a stream that follow keeps up. */
export class Trip {
  seen = []
  /** For follow. */
  options = { onCut: (why) => this.#cut.resolve(why), pause: () => this.#back.promise }
  #cut = signal()
  #back = signal()
  #next // a read that a cut has left open

  constructor() {
    this.#back.resolve()
  }

  begin(stream) {
    this.stream = stream
  }

  async readTo(wanted) {
    while (this.seen.length === 0 || !wanted(this.seen.at(-1))) this.#take(await (this.#next ?? this.stream.next()))
  }

  #take({ value, done }) {
    assert.equal(done, false)
    this.#next = undefined
    this.seen.push(value)
  }

  /** Has the stream broken, reads what had come before, and returns how it broke. */
  async lose(breaking) {
    this.#cut = signal()
    const broke = this.#cut.promise.then((why) => ({ why }))
    const broken = breaking()
    for (;;) {
      this.#next ??= this.stream.next()
      const first = await Promise.race([this.#next, broke])
      if (first.why) return (await broken, first.why)
      this.#take(first)
    }
  }

  /** From here on nothing is mended before comeBack. */
  away() {
    this.#back = signal()
  }

  comeBack() {
    this.#back.resolve()
  }

  /** Leaves, whether or not a read is open. */
  async end(abort) {
    abort.abort()
    if (this.#next) assert.equal((await this.#next).done, true)
    else await this.stream.return()
  }
}
