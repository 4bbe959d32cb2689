// The end of a task's output, followed while the task runs, with a search and a download.
import { Problem, encodePath, fetchResponse, readLines } from './api.js';
import { saveFile, saveText } from './download.js';
import { createButton, createElement, createFilter, createLink, formatBytes, formatCount, setAttribute, setText, syncChildren } from './dom.js';
import { OutputLines, textOfPart } from './output_lines.js';

const tailLines = 1000; // lines from the end
const retryDelay = 3000; // milliseconds until a failed request is repeated
const scrollTolerance = 8; // pixels; so close to the end the log follows new output
const streams = [['', 'both'], ['stdout', 'stdout'], ['stderr', 'stderr']];

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
  #stream = ''; // the selected stream, or both
  #query = '';
  #output = new OutputLines();
  #nodes = new Map(); // the elements of lines
  #reading = false; // true also after everything is read
  #text = createElement('pre', { class: 'log', tabindex: 0, role: 'region', 'aria-label': 'Output' });
  #name = createElement('code');
  #note = createElement('p', { class: 'note', 'aria-live': 'polite' });
  #matches = createElement('span', { class: 'note', 'aria-live': 'polite' });
  #attempts = createElement('span', { class: 'attempts' });
  #follow = createElement('input', { type: 'checkbox', checked: true, on: { change: () => this.#scroll() } });
  #times = createElement('input', { type: 'checkbox', on: { change: () => this.#drawAll() } });

  constructor(more) {
    this.#text.addEventListener('scroll', () => { this.#follow.checked = this.#atEnd(); });
    const choices = streams.map(([stream, label]) => createElement('label', {},
      createElement('input', { type: 'radio', name: 'stream', value: stream, checked: stream === this.#stream, on: { change: () => this.#choose(stream) } }), ` ${label}`));
    this.node = createElement('section', { class: 'card output' }, createElement('div', { class: 'title' }, createElement('h3', {}, 'Output'), more),
      createElement('div', { class: 'tools' }, this.#name, this.#attempts, ...choices,
        createElement('label', {}, this.#times, ' times'), createElement('label', {}, this.#follow, ' follow'),
        createFilter('Search', (text) => this.#search(text)), this.#matches, createButton('Download', () => this.#download(), { class: 'small' })),
      this.#note, this.#text);
  }

  #choose(stream) {
    this.#stream = stream;
    this.#restart();
  }

  // show switches to another task, or retries if the state has changed and there was no
  // output before.
  show(task, state, attempts = []) {
    const taskChanged = task !== this.task;
    const retry = !this.#reading && state !== this.#state;
    this.#state = state;
    syncChildren(this.#attempts, attempts.length > 1 ? attempts : [], ({ id }) => id, ({ href, text }) => createLink(href, text), (link, { id }) => setAttribute(link, 'aria-current', id === task && 'true'));
    if (!taskChanged && !retry) return;
    this.task = task;
    setText(this.#name, task ?? '');
    if (task) this.#restart();
  }

  async #restart() {
    this.request.abort();
    const controller = this.request = new AbortController();
    this.#output = new OutputLines();
    this.#drawAll();
    this.#reading = true;
    setText(this.#note, '');
    try {
      await this.#read(true, controller.signal, (parts) => { if (!controller.signal.aborted) this.#add(parts); });
      if (controller.signal.aborted) return;
      const target = this.#stream ? ` to ${this.#stream}` : '';
      const end = this.#output.lines.length ? 'End of the output.' : `The task wrote nothing${target}.`;
      setText(this.#note, describeStored(this.#output.stored) + end);
    } catch (err) {
      if (controller.signal.aborted) return;
      this.#reading = false;
      setText(this.#note, err.message);
      if (!(err instanceof Problem)) setTimeout(() => { if (!controller.signal.aborted) this.#restart(); }, retryDelay);
    }
  }

  // #read calls onParts with parts of the output: its end, and then what the task writes, or all
  // that there is.
  async #read(follow, signal, onParts) {
    const query = (follow ? `follow=true&tail=${tailLines}` : 'follow=false') + (this.#stream && `&stream=${this.#stream}`);
    const response = await fetchResponse(`v1/tasks/${encodePath(this.task)}/output?${query}`, signal);
    await readLines(response, (lines) => onParts(lines.map((line) => JSON.parse(line)).filter((part) => !part.complete)));
  }

  #add(parts) {
    const follow = this.#follow.checked;
    const { changed, removed } = this.#output.add(parts);
    for (const line of changed) this.#drawLine(line);
    for (const line of removed) {
      this.#nodes.get(line)?.remove();
      this.#nodes.delete(line);
    }
    this.#countMatches();
    if (follow) this.#scroll();
  }

  #search(text) {
    this.#query = text.toLowerCase();
    this.#drawAll();
  }

  #drawAll() {
    this.#nodes.clear();
    this.#text.replaceChildren();
    for (const line of this.#output.lines) this.#drawLine(line);
    this.#countMatches();
    this.#scroll();
  }

  // #drawLine shows a line if it contains the search text, which is marked.
  #drawLine(line) {
    if (!line.text.toLowerCase().includes(this.#query)) return;
    let node = this.#nodes.get(line);
    if (!node) {
      node = createElement('span', { class: line.stream });
      this.#nodes.set(line, node);
      this.#text.append(node);
    }
    const time = this.#times.checked && line.time ? [createElement('time', {}, `${line.time} `)] : [];
    node.replaceChildren(...time, ...(this.#query ? markMatches(line.text, this.#query) : [line.text]));
  }

  #countMatches() {
    setText(this.#matches, this.#query ? formatCount(this.#nodes.size, 'line') : '');
  }

  // #download saves the whole output.
  async #download() {
    try {
      if (this.#stream) {
        await saveFile(`v1/tasks/${encodePath(this.task)}/log?follow=false&stream=${this.#stream}`, `${this.task}.${this.#stream}.txt`);
        return;
      }
      let text = '';
      await this.#read(false, undefined, (parts) => { text += parts.map(textOfPart).join(''); });
      saveText(text, `${this.task}.txt`);
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

// describeStored returns the note about output that is not read from the sandbox.
function describeStored(stored) {
  if (!stored) return '';
  const cause = stored.agent_unreachable ? 'The agent cannot be reached' : 'The sandbox is gone';
  const missing = stored.missing_bytes ? `its last ${formatBytes(stored.bytes)}, without ${formatBytes(stored.missing_bytes)} before` : 'all of it';
  return `${cause}: the output was stored when the task ended, ${missing}. `;
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
