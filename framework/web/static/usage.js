// The present and recent usage of running tasks' GPUs. There are no events for
// usage: it is polled while it is shown.
import { get } from './api.js';
import { attribute, el, number, plural, size, sync, text } from './dom.js';
import { spark } from './spark.js';

const minutes = 15;
const every = 10000; // milliseconds
const many = 16; // GPUs of a job; with more, only one task's are shown
const most = 64; // cards that are shown

// usage creates a section of charts. headOf(task) returns the name of a card
// and, optionally, its link.
export function usage(headOf) {
  const list = el('ul', { class: 'gpus' });
  const note = el('p', { class: 'note' });
  const node = el('section', { class: 'usage', hidden: true }, el('h3', {}, `GPUs in the last ${minutes} minutes`), note, list);
  let query = '';
  let closed = false;
  let stop = new AbortController();
  const ask = async (signal) => {
    try {
      const { tasks } = document.hidden && list.hasChildNodes() ? {} : await get(`v1/usage?${query}&minutes=${minutes}`, signal);
      if (signal.aborted) return;
      if (tasks) text(note, draw(list, tasks, headOf));
    } catch (err) {
      if (signal.aborted) return;
      text(note, err.message);
    }
    setTimeout(() => { if (!signal.aborted) ask(signal); }, every);
  };
  // update selects the tasks by API parameters; null selects none. A standby would
  // redirect to another origin, which the page may not request.
  const update = (of, role) => {
    node.hidden = !of;
    const wanted = of && role && role !== 'standby' ? new URLSearchParams(of).toString() : '';
    if (role === 'standby') text(note, 'The scheduler that leads tells it.');
    if (wanted === query || closed) return;
    query = wanted;
    stop.abort();
    stop = new AbortController();
    if (query) ask(stop.signal);
  };
  return { node, update, close: () => { closed = true; stop.abort(); } };
}

// ofJob returns the parameters for a job: all of its GPUs or, if they are many,
// those of the chosen task.
export function ofJob(job, chosen) {
  const { gpus } = job.spec.request;
  const running = job.tasks.filter((t) => t.state === 'RUNNING');
  if (!gpus || running.length === 0) return null;
  return running.length * gpus > many ? { job: job.spec.name, task: chosen } : { job: job.spec.name };
}

// ofAgent returns the parameters for the tasks on an agent.
export function ofAgent(store, id) {
  const there = [...store.jobs.values()].some((j) => j.spec.request.gpus > 0 && j.tasks.some((t) => t.agent_id === id && t.state === 'RUNNING'));
  return there ? { agent: id } : null;
}

// draw draws the cards and returns a note about the whole list.
function draw(list, tasks, headOf) {
  const cards = tasks.flatMap(cardsOf);
  const shown = cards.slice(0, most);
  sync(list, shown, (c) => c.key, (c) => makeCard(c, headOf), drawCard);
  if (cards.length > most) return `${most} of ${number(cards.length)}`;
  return cards.length ? '' : 'The task has no GPU now.';
}

// cardsOf returns a card for each device, or one card with the reason if there are none.
function cardsOf(task) {
  const devices = task.devices.length ? task.devices : [{ uuid: '' }];
  return devices.map((device) => ({ key: `${task.task} ${device.uuid}`, task, device, past: task.past?.devices.find((d) => d.uuid === device.uuid) }));
}

const parts = new WeakMap(); // by card: the elements that are updated

function makeCard({ task, device }, headOf) {
  const { name, href } = headOf(task);
  const duty = spark(device.shared ? 'Duty of the whole GPU' : 'Duty');
  const memory = spark('Memory');
  const more = el('p', { class: 'more' });
  const why = el('p', { class: 'why' });
  const charts = el('div', {}, duty.node, memory.node, el('div', { class: 'axis', 'aria-hidden': 'true' }, el('span', {}, `${minutes} min ago`), el('span', {}, 'now')));
  const card = el('li', {}, el('div', { class: 'head' }, href ? el('a', { href }, name) : name), el('code', {}, device.uuid), why, charts, more);
  parts.set(card, { charts, duty, memory, more, why });
  return card;
}

function drawCard(card, { task, device, past }) {
  const { charts, duty, memory, more, why } = parts.get(card);
  const fresh = !task.note;
  charts.hidden = !fresh && !past;
  const points = (key, now) => {
    const all = (task.past?.ages_seconds ?? []).map((age, i) => ({ age, value: past?.[key][i] ?? null }));
    if (fresh && now !== undefined) all.push({ age: 0, value: now });
    return all;
  };
  const used = points('mem_used_mib', device.mem_used_mib);
  const top = device.mem_mib ?? Math.max(0, ...used.map((p) => p.value ?? 0));
  const memoryNow = fresh && device.mem_used_mib !== undefined ? size(device.mem_used_mib) + (device.mem_mib ? ` of ${size(device.mem_mib)}` : '') : 'not known';
  duty.update({ points: points('duty', device.duty), top: 1, write: percent, minutes, current: fresh && device.duty !== undefined ? percent(device.duty) : 'not known' });
  memory.update({ points: used, top, write: (mib) => size(Math.round(mib)), minutes, current: memoryNow });
  text(why, [task.simulated && 'simulated', task.note].filter(Boolean).join('; '));
  text(more, fresh ? moreOf(device) : '');
  attribute(more, 'data-state', device.health === 'failed' && 'FAILED');
}

function percent(part) {
  return `${Math.round(100 * part)} %`;
}

// moreOf formats further values: "312 W, 64 °C".
function moreOf({ watts, celsius, health, throttled_seconds: throttled }) {
  return [
    watts !== undefined && `${Math.round(watts)} W`, celsius !== undefined && `${Math.round(celsius)} °C`, health && health !== 'healthy' && health,
    throttled > 0 && `held to its part for ${plural(Math.round(throttled), 'second')}`,
  ].filter(Boolean).join(', ');
}
