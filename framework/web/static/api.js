// Client of the scheduler's REST API, which has the same origin as this page.
import { readToken } from './session.js';

// Problem is an unsuccessful response.
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// lastResponse has the Age header of the last response: the age of a standby's copy.
export const lastResponse = { age: null };

// fetchResponse returns the response, or throws a Problem. The request has the session's
// token, unless it is anonymous, and no cookies.
export async function fetchResponse(path, signal, { anonymous = false, headers = {}, ...request } = {}) {
  const token = anonymous ? null : readToken();
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...request, headers, signal, cache: 'no-store', credentials: 'omit' }).catch((err) => {
    throw err instanceof TypeError ? new Error('the scheduler does not answer') : err;
  });
  const age = response.headers.get('Age');
  lastResponse.age = age === null ? null : Number(age);
  if (!response.ok) throw new Problem(response.status, await readErrorDetail(response));
  return response;
}

async function readErrorDetail(response) {
  const text = await response.text();
  try {
    const body = JSON.parse(text);
    return body.detail ?? body.message ?? text;
  } catch {
    return text || response.statusText || `status ${response.status}`;
  }
}

// fetchJSON returns the JSON at the path.
export async function fetchJSON(path, signal, request) {
  return (await fetchResponse(path, signal, request)).json();
}

// sendJSON sends a change and returns the JSON of the answer, null if it has none.
export async function sendJSON(method, path, body, signal) {
  const request = body === undefined ? { method } : { method, body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } };
  return parseAnswer(await fetchResponse(path, signal, request));
}

// sendJobFile sends a job file in YAML and returns the JSON of the answer.
export async function sendJobFile(method, path, text, { signal, headers = {} } = {}) {
  return parseAnswer(await fetchResponse(path, signal, { method, body: text, headers: { ...headers, 'Content-Type': 'application/yaml' } }));
}

async function parseAnswer(response) {
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

// readChunks calls onChunk with the text of a response, chunk by chunk, until its end.
async function readChunks(response, onChunk) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onChunk(value);
  }
}

// readStart returns the first bytes of a response, at most so many, and whether these are all.
export async function readStart(response, limit) {
  const reader = response.body.getReader();
  const bytes = new Uint8Array(limit);
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { bytes: bytes.subarray(0, length), complete: true };
    bytes.set(value.subarray(0, limit - length), length);
    if (value.length > limit - length) {
      reader.cancel();
      return { bytes, complete: false };
    }
    length += value.length;
  }
}

// readLines calls onLines with the lines of a response, as many as each chunk ends.
export async function readLines(response, onLines) {
  let incomplete = ''; // the beginning of the next line
  await readChunks(response, (text) => {
    const lines = (incomplete + text).split('\n');
    incomplete = lines.pop();
    onLines(lines);
  });
}

// streamEvents reads server-sent events. It calls onEvent with the parsed data and the
// name of an event, '' for none, and onInput for all input, including comments.
export async function streamEvents(path, signal, onEvent, onInput) {
  const response = await fetchResponse(path, signal);
  onInput();
  let name = '';
  await readLines(response, (lines) => {
    onInput();
    for (const line of lines) {
      if (line === '') name = '';
      else if (line.startsWith('event: ')) name = line.slice(7);
      else if (line.startsWith('data: ')) onEvent(JSON.parse(line.slice(6)), name);
    }
  });
}

// encodePath joins segments to a path and escapes each.
export function encodePath(...segments) {
  return segments.map(encodeURIComponent).join('/');
}
