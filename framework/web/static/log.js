// The end of a task's output, followed while the task runs.
import { Problem, fetchResponse, encodePath, readChunks } from './api.js';
import { createElement, setText } from './dom.js';

const tailBytes = 64 << 10; // bytes from the end
const maxCharacters = 512 << 10; // characters on the page
const retryDelay = 3000; // milliseconds until a failed request is repeated
const scrollTolerance = 8; // pixels; so close to the end the log follows new output

export function createLog() {
  const view = new Log();
  return {
    node: view.node,
    show: (task, state) => view.show(task, state),
    close: () => view.request.abort(),
    get task() { return view.task; },
  };
}

class Log {
  task = undefined;
  request = new AbortController(); // aborts the current request
  #state = ''; // the task's state at the last call of show
  #stream = 'stdout';
  #reading = false; // true also after everything is read
  #text = createElement('pre', { class: 'log', tabindex: 0, role: 'region', 'aria-label': 'Output' });
  #name = createElement('code');
  #note = createElement('p', { class: 'note', 'aria-live': 'polite' });
  #follow = createElement('input', { type: 'checkbox', checked: true, on: { change: () => this.#scroll() } });

  constructor() {
    this.#text.addEventListener('scroll', () => { this.#follow.checked = this.#atEnd(); });
    this.node = createElement('section', {}, createElement('h3', {}, 'Output'),
      createElement('div', { class: 'tools' }, this.#name, this.#choice('stdout', true), this.#choice('stderr', false), createElement('label', {}, this.#follow, ' follow')),
      this.#note, this.#text);
  }

  #choice(stream, checked) {
    const change = () => { this.#stream = stream; this.#restart(); };
    return createElement('label', {}, createElement('input', { type: 'radio', name: 'stream', checked, on: { change } }), ' ', stream);
  }

  // show switches to another task, or retries if the state has changed and
  // there was no output before.
  show(task, state) {
    const taskChanged = task !== this.task;
    const retry = !this.#reading && state !== this.#state;
    this.#state = state;
    if (!taskChanged && !retry) return;
    this.task = task;
    setText(this.#name, task ?? '');
    if (task) this.#restart();
  }

  async #restart() {
    this.request.abort();
    const controller = this.request = new AbortController();
    this.#text.replaceChildren();
    this.#reading = true;
    setText(this.#note, '');
    try {
      const response = await fetchResponse(`v1/tasks/${encodePath(this.task)}/log?follow=true&tail=${tailBytes}&stream=${this.#stream}`, controller.signal);
      await readChunks(response, (chunk) => { if (!controller.signal.aborted) this.#add(chunk); });
      if (controller.signal.aborted) return;
      setText(this.#note, this.#text.hasChildNodes() ? 'End of the output.' : 'The task wrote no output.');
    } catch (err) {
      if (controller.signal.aborted) return;
      setText(this.#note, err.message);
      this.#reading = false;
      if (!(err instanceof Problem)) setTimeout(() => { if (!controller.signal.aborted) this.#restart(); }, retryDelay);
    }
  }

  #add(chunk) {
    const follow = this.#follow.checked;
    this.#text.append(chunk);
    let length = this.#text.textContent.length;
    while (length > maxCharacters && this.#text.childNodes.length > 1) {
      length -= this.#text.firstChild.length;
      this.#text.firstChild.remove();
    }
    if (follow) this.#scroll();
  }

  #scroll() {
    if (this.#follow.checked) this.#text.scrollTop = this.#text.scrollHeight;
  }

  #atEnd() {
    return this.#text.scrollHeight - this.#text.scrollTop - this.#text.clientHeight < scrollTolerance;
  }
}
