// Turns what calls back into what can be read: subscribe(sink) begins and
// returns how to end it.
export async function* pushed(subscribe) {
  const waiting = []
  let wake
  const put = (item) => (waiting.push(item), wake?.())
  const end = subscribe({ next: (value) => put({ value }), error: (error) => put({ error }), complete: () => put({ done: true }) })
  try {
    for (;;) {
      while (waiting.length === 0) await new Promise((resolve) => (wake = resolve))
      const item = waiting.shift()
      if (item.done) return
      if ('error' in item) throw item.error
      yield item.value
    }
  } finally {
    end()
  }
}
