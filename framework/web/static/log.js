// The end of a task's output, followed while the task runs.
import { Problem, fetchResponse, encodePath, readChunks } from './api.js';
import { createElement, setText } from './dom.js';

const tail = 64 << 10; // bytes from the end
const kept = 512 << 10; // characters on the page
const again = 3000; // milliseconds before a broken response is requested again
const slack = 8; // pixels from the bottom that count as the bottom

export function createLog() {
  const view = new Log();
  return {
    node: view.node,
    show: (task, state) => view.show(task, state),
    close: () => view.stop.abort(),
    get task() { return view.task; },
  };
}

class Log {
  task = undefined;
  stop = new AbortController();
  #state = '';
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
    const other = task !== this.task;
    const again = !this.#reading && state !== this.#state;
    this.#state = state;
    if (!other && !again) return;
    this.task = task;
    setText(this.#name, task ?? '');
    if (task) this.#restart();
  }

  async #restart() {
    this.stop.abort();
    const stop = this.stop = new AbortController();
    this.#text.replaceChildren();
    this.#reading = true;
    setText(this.#note, '');
    try {
      const res = await fetchResponse(`v1/tasks/${encodePath(this.task)}/log?follow=true&tail=${tail}&stream=${this.#stream}`, stop.signal);
      await readChunks(res, (part) => { if (!stop.signal.aborted) this.#add(part); });
      if (stop.signal.aborted) return;
      setText(this.#note, this.#text.hasChildNodes() ? 'This is all of it.' : 'It wrote nothing.');
    } catch (err) {
      if (stop.signal.aborted) return;
      setText(this.#note, err.message);
      this.#reading = false;
      if (!(err instanceof Problem)) setTimeout(() => { if (!stop.signal.aborted) this.#restart(); }, again);
    }
  }

  #add(part) {
    const follow = this.#follow.checked;
    this.#text.append(part);
    let length = this.#text.textContent.length;
    while (length > kept && this.#text.childNodes.length > 1) {
      length -= this.#text.firstChild.length;
      this.#text.firstChild.remove();
    }
    if (follow) this.#scroll();
  }

  #scroll() {
    if (this.#follow.checked) this.#text.scrollTop = this.#text.scrollHeight;
  }

  #atEnd() {
    return this.#text.scrollHeight - this.#text.scrollTop - this.#text.clientHeight < slack;
  }
}
