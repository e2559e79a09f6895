// The explorer asks the server with the token that was typed in, or with the
// Authorization header of the header editor, which goes first. Streams come
// over SSE, so the same header carries the token there too.
'use strict';

const key = 'gantry.token';
const field = document.getElementById('token');
field.value = localStorage.getItem(key) || '';

document.getElementById('access').addEventListener('submit', (event) => {
  event.preventDefault();
  localStorage.setItem(key, field.value.trim());
  location.reload();
});

function headersOf(options, accept) {
  const headers = { 'Content-Type': 'application/json', Accept: accept };
  if (field.value.trim()) headers.Authorization = 'Bearer ' + field.value.trim();
  return Object.assign(headers, options && options.headers);
}

function isSubscription(params) {
  const word = /\b(query|mutation|subscription)\b\s*(\w*)/g;
  const text = params.query.replace(/#.*$/gm, '').replace(/"""[\s\S]*?"""|"(?:\\.|[^"\\])*"/g, '""');
  for (let found = word.exec(text); found; found = word.exec(text)) {
    if (!params.operationName || found[2] === params.operationName) return found[1] === 'subscription';
  }
  return false;
}

async function* events(params, options) {
  const abort = new AbortController();
  try {
    const response = await fetch('/graphql', {
      method: 'POST', headers: headersOf(options, 'text/event-stream'), body: JSON.stringify(params), credentials: 'omit', signal: abort.signal,
    });
    if (!response.ok) { yield await response.json(); return; }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer += value;
      for (let cut = buffer.indexOf('\n\n'); cut >= 0; cut = buffer.indexOf('\n\n')) {
        const block = buffer.slice(0, cut);
        buffer = buffer.slice(cut + 2);
        if (/^event: complete/m.test(block)) return;
        const line = block.split('\n').find((one) => one.startsWith('data: '));
        if (line) yield JSON.parse(line.slice(6));
      }
    }
  } finally {
    abort.abort();
  }
}

async function fetcher(params, options) {
  if (isSubscription(params)) return events(params, options);
  const response = await fetch('/graphql', {
    method: 'POST', headers: headersOf(options, 'application/json'), body: JSON.stringify(params), credentials: 'omit',
  });
  return response.json();
}

ReactDOM.createRoot(document.getElementById('explorer')).render(
  React.createElement(GraphiQL, { fetcher, isHeadersEditorEnabled: true, shouldPersistHeaders: false, defaultQuery: '{\n  viewer {\n    name\n    organisation\n  }\n}\n' }),
);
