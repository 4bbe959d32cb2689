// The end of a task's output, followed while the task runs, with a search and a download.
import { Problem, fetchResponse, encodePath, readChunks } from './api.js';
import { saveFile } from './download.js';
import { createButton, createElement, createFilter, createLink, formatCount, setAttribute, setText, syncChildren } from './dom.js';

const tailBytes = 64 << 10; // bytes from the end
const maxCharacters = 512 << 10; // characters on the page
const retryDelay = 3000; // milliseconds until a failed request is repeated
const scrollTolerance = 8; // pixels; so close to the end the log follows new output

// createLog creates a section with the output of a task; more is shown in its head.
export function createLog(more) {
  const view = new Log(more);
  return {
    node: view.node,
    show: (task, state, attempts) => view.show(task, state, attempts),
    close: () => view.request.abort(),
    get task() { return view.task; },
  };
}

class Log {
  task = undefined;
  request = new AbortController(); // aborts the current request
  #state = ''; // the task's state at the last call of show
  #stream = 'stdout';
  #chosen = false; // the user has chosen the stream
  #query = '';
  #received = ''; // the output, of which #text shows the matching lines
  #reading = false; // true also after everything is read
  #text = createElement('pre', { class: 'log', tabindex: 0, role: 'region', 'aria-label': 'Output' });
  #name = createElement('code');
  #note = createElement('p', { class: 'note', 'aria-live': 'polite' });
  #matches = createElement('span', { class: 'note', 'aria-live': 'polite' });
  #attempts = createElement('span', { class: 'attempts' });
  #follow = createElement('input', { type: 'checkbox', checked: true, on: { change: () => this.#scroll() } });
  #streams = ['stdout', 'stderr'].map((stream) => createElement('input', { type: 'radio', name: 'stream', value: stream, checked: stream === 'stdout', on: { change: () => this.#choose(stream) } }));

  constructor(more) {
    this.#text.addEventListener('scroll', () => { this.#follow.checked = this.#atEnd(); });
    this.node = createElement('section', { class: 'card' }, createElement('div', { class: 'title' }, createElement('h3', {}, 'Output'), more),
      createElement('div', { class: 'tools' }, this.#name, this.#attempts, ...this.#streams.map((input) => createElement('label', {}, input, ` ${input.value}`)), createElement('label', {}, this.#follow, ' follow'),
        createFilter('Search', (text) => this.#search(text)), this.#matches, createButton('Download', () => this.#download(), { class: 'small' })),
      this.#note, this.#text);
  }

  #choose(stream) {
    this.#chosen = true;
    this.#stream = stream;
    this.#restart();
  }

  // show switches to another task, or retries if the state has changed and there was no
  // output before. Of a failed task it shows standard error, unless the user has chosen.
  show(task, state, attempts = []) {
    const taskChanged = task !== this.task;
    const retry = !this.#reading && state !== this.#state;
    this.#state = state;
    syncChildren(this.#attempts, attempts.length > 1 ? attempts : [], ({ id }) => id, ({ href, text }) => createLink(href, text), (link, { id }) => setAttribute(link, 'aria-current', id === task && 'true'));
    if (!taskChanged && !retry) return;
    this.task = task;
    setText(this.#name, task ?? '');
    if (!this.#chosen) this.#setStream(state === 'FAILED' ? 'stderr' : 'stdout');
    if (task) this.#restart();
  }

  #setStream(stream) {
    this.#stream = stream;
    for (const input of this.#streams) input.checked = input.value === stream;
  }

  #path(query) {
    return `v1/tasks/${encodePath(this.task)}/log?${query}&stream=${this.#stream}`;
  }

  async #restart() {
    this.request.abort();
    const controller = this.request = new AbortController();
    this.#text.replaceChildren();
    this.#received = '';
    this.#reading = true;
    setText(this.#note, '');
    try {
      const response = await fetchResponse(this.#path(`follow=true&tail=${tailBytes}`), controller.signal);
      await readChunks(response, (chunk) => { if (!controller.signal.aborted) this.#add(chunk); });
      if (controller.signal.aborted) return;
      this.#end(this.#received ? 'End of the output.' : `The task wrote nothing to ${this.#stream}.`);
    } catch (err) {
      if (controller.signal.aborted) return;
      this.#reading = false;
      this.#end(err.message);
      if (!(err instanceof Problem)) setTimeout(() => { if (!controller.signal.aborted) this.#restart(); }, retryDelay);
    }
  }

  // #end shows the other stream if this one was not chosen and is empty.
  #end(note) {
    setText(this.#note, note);
    if (this.#received || this.#chosen || this.#stream === 'stdout') return;
    this.#setStream('stdout');
    this.#restart();
  }

  #add(chunk) {
    const follow = this.#follow.checked;
    this.#received = (this.#received + chunk).slice(-maxCharacters);
    if (this.#query) this.#draw();
    else this.#append(chunk);
    if (follow) this.#scroll();
  }

  #append(chunk) {
    this.#text.append(chunk);
    let length = this.#text.textContent.length;
    while (length > maxCharacters && this.#text.childNodes.length > 1) {
      length -= this.#text.firstChild.length;
      this.#text.firstChild.remove();
    }
  }

  #search(text) {
    this.#query = text.toLowerCase();
    this.#draw();
  }

  // #draw shows the lines that contain the search text, with the text marked.
  #draw() {
    if (!this.#query) {
      setText(this.#matches, '');
      this.#text.replaceChildren(this.#received);
      this.#scroll();
      return;
    }
    const lines = this.#received.split('\n').filter((line) => line.toLowerCase().includes(this.#query));
    setText(this.#matches, formatCount(lines.length, 'line'));
    this.#text.replaceChildren(...lines.flatMap((line) => [...markMatches(line, this.#query), '\n']));
  }

  // #download saves the whole output.
  async #download() {
    try {
      await saveFile(this.#path('follow=false'), `${this.task}.${this.#stream}.txt`);
    } catch (err) {
      setText(this.#note, `Not downloaded: ${err.message}`);
    }
  }

  #scroll() {
    if (this.#follow.checked) this.#text.scrollTop = this.#text.scrollHeight;
  }

  #atEnd() {
    return this.#text.scrollHeight - this.#text.scrollTop - this.#text.clientHeight < scrollTolerance;
  }
}

// markMatches returns a line's parts, those that match in a mark element.
function markMatches(line, query) {
  const parts = [];
  let rest = line;
  for (let i = rest.toLowerCase().indexOf(query); i >= 0; i = rest.toLowerCase().indexOf(query)) {
    parts.push(rest.slice(0, i), createElement('mark', {}, rest.slice(i, i + query.length)));
    rest = rest.slice(i + query.length);
  }
  return [...parts, rest].filter((part) => part !== '');
}
