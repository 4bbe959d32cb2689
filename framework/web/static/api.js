// Client of the scheduler's REST API, which has the same origin as this page.

// Problem is an unsuccessful response.
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// lastAnswer has the Age header of the last response: the age of a standby's copy.
export const lastAnswer = { age: null };

const tokenKey = 'mesos-gpu.token';

// signIn stores a token until the tab is closed.
export function signIn(token) {
  sessionStorage.setItem(tokenKey, token);
}

// isSignedIn reports whether there is a token.
export function isSignedIn() {
  return sessionStorage.getItem(tokenKey) !== null;
}

// fetchResponse returns the response, or throws a Problem.
export async function fetchResponse(path, signal) {
  const token = sessionStorage.getItem(tokenKey);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const res = await fetch(path, { headers, signal, cache: 'no-store' }).catch((err) => {
    throw err instanceof TypeError ? new Error('the scheduler does not answer') : err;
  });
  const age = res.headers.get('Age');
  lastAnswer.age = age === null ? null : Number(age);
  if (!res.ok) throw new Problem(res.status, await readErrorDetail(res));
  return res;
}

async function readErrorDetail(res) {
  const text = await res.text();
  try {
    const body = JSON.parse(text);
    return body.detail ?? body.message ?? text;
  } catch {
    return text || res.statusText || `status ${res.status}`;
  }
}

// fetchJSON returns the JSON at the path.
export async function fetchJSON(path, signal) {
  return (await fetchResponse(path, signal)).json();
}

// readChunks passes the text of a response to each, chunk by chunk, until its end.
export async function readChunks(res, each) {
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    each(value);
  }
}

// streamEvents reads server-sent events. It calls each with the parsed data and the
// name of an event, '' for none, and alive for all input, including comments.
export async function streamEvents(path, signal, each, alive) {
  const res = await fetchResponse(path, signal);
  alive();
  let rest = '';
  let name = '';
  await readChunks(res, (text) => {
    alive();
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line === '') name = '';
      else if (line.startsWith('event: ')) name = line.slice(7);
      else if (line.startsWith('data: ')) each(JSON.parse(line.slice(6)), name);
    }
  });
}

// encodePath joins the parts to a path and escapes each.
export function encodePath(...parts) {
  return parts.map(encodeURIComponent).join('/');
}
