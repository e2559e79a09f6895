// The network between a client and the server, which a test can cut.
import { connect, createServer } from 'node:net'

export class Wire {
  #sockets = new Set()
  #server
  #down = false
  /** Port of the server behind it. */
  target = 0

  static async open() {
    const wire = new Wire()
    wire.#server = createServer((near) => {
      if (wire.#down) return near.resetAndDestroy()
      const far = connect(wire.target, '127.0.0.1')
      for (const [one, other] of [[near, far], [far, near]]) {
        wire.#sockets.add(one)
        one.pipe(other)
        one.on('error', () => other.destroy())
        one.on('close', () => (wire.#sockets.delete(one), other.destroy()))
      }
    })
    await new Promise((resolve) => wire.#server.listen(0, '127.0.0.1', resolve))
    return wire
  }

  get port() {
    return this.#server.address().port
  }

  /** Destroys every connection, without a word to either side, and every new one until mend. */
  cut() {
    this.#down = true
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  mend() {
    this.#down = false
  }

  async close() {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.cut()
    await closed
  }
}
