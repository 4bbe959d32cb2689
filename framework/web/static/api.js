// Client of the scheduler's REST API, which has the same origin as this page.

// Problem is an unsuccessful response.
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// answered has the Age header of the last response: the age of a standby's copy.
export const answered = { age: null };

const tokenKey = 'mesos-gpu.token';

// signIn stores a token until the tab is closed.
export function signIn(token) {
  sessionStorage.setItem(tokenKey, token);
}

// signedIn reports whether there is a token.
export function signedIn() {
  return sessionStorage.getItem(tokenKey) !== null;
}

// ask returns the response, or throws a Problem.
export async function ask(path, signal) {
  const token = sessionStorage.getItem(tokenKey);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const res = await fetch(path, { headers, signal, cache: 'no-store' }).catch((err) => {
    throw err instanceof TypeError ? new Error('the scheduler does not answer') : err;
  });
  const age = res.headers.get('Age');
  answered.age = age === null ? null : Number(age);
  if (!res.ok) throw new Problem(res.status, await detailOf(res));
  return res;
}

async function detailOf(res) {
  const text = await res.text();
  try {
    const body = JSON.parse(text);
    return body.detail ?? body.message ?? text;
  } catch {
    return text || res.statusText || `status ${res.status}`;
  }
}

// get returns the JSON at the path.
export async function get(path, signal) {
  return (await ask(path, signal)).json();
}

// read passes the text of a response to each, chunk by chunk, until its end.
export async function read(res, each) {
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    each(value);
  }
}

// events reads server-sent events. It calls each with the parsed data and the
// name of an event, '' for none, and alive for all input, including comments.
export async function events(path, signal, each, alive) {
  const res = await ask(path, signal);
  alive();
  let rest = '';
  let name = '';
  await read(res, (text) => {
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

// path joins the parts to a path and escapes each.
export function path(...parts) {
  return parts.map(encodeURIComponent).join('/');
}
