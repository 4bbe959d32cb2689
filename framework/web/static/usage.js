// The present and recent usage of running tasks' GPUs. There are no events for
// usage: it is polled while it is shown.
import { fetchJSON } from './api.js';
import { setAttribute, createElement, formatNumber, formatCount, formatSize, syncChildren, setText } from './dom.js';
import { createSparkline } from './spark.js';

const minutes = 15;
const every = 10000; // milliseconds
const many = 16; // GPUs of a job; with more, only one task's are shown
const most = 64; // cards that are shown

// createUsage creates a section of charts. headOf(task) returns the name of a card
// and, optionally, its link.
export function createUsage(headOf) {
  const list = createElement('ul', { class: 'gpus' });
  const note = createElement('p', { class: 'note' });
  const node = createElement('section', { class: 'usage', hidden: true }, createElement('h3', {}, `GPUs in the last ${minutes} minutes`), note, list);
  let query = '';
  let closed = false;
  let stop = new AbortController();
  const ask = async (signal) => {
    try {
      const { tasks } = document.hidden && list.hasChildNodes() ? {} : await fetchJSON(`v1/usage?${query}&minutes=${minutes}`, signal);
      if (signal.aborted) return;
      if (tasks) setText(note, drawUsage(list, tasks, headOf));
    } catch (err) {
      if (signal.aborted) return;
      setText(note, err.message);
    }
    setTimeout(() => { if (!signal.aborted) ask(signal); }, every);
  };
  // update selects the tasks by API parameters; null selects none. A standby would
  // redirect to another origin, which the page may not request.
  const update = (of, role) => {
    node.hidden = !of;
    const wanted = of && role && role !== 'standby' ? new URLSearchParams(of).toString() : '';
    if (role === 'standby') setText(note, 'The scheduler that leads tells it.');
    if (wanted === query || closed) return;
    query = wanted;
    stop.abort();
    stop = new AbortController();
    if (query) ask(stop.signal);
  };
  return { node, update, close: () => { closed = true; stop.abort(); } };
}

// renderJobUsage returns the parameters for a job: all of its GPUs or, if they are many,
// those of the chosen task.
export function renderJobUsage(job, chosen) {
  const { gpus } = job.spec.request;
  const running = job.tasks.filter((t) => t.state === 'RUNNING');
  if (!gpus || running.length === 0) return null;
  return running.length * gpus > many ? { job: job.spec.name, task: chosen } : { job: job.spec.name };
}

// renderAgentUsage returns the parameters for the tasks on an agent.
export function renderAgentUsage(store, id) {
  const there = [...store.jobs.values()].some((j) => j.spec.request.gpus > 0 && j.tasks.some((t) => t.agent_id === id && t.state === 'RUNNING'));
  return there ? { agent: id } : null;
}

// drawUsage draws the cards and returns a note about the whole list.
function drawUsage(list, tasks, headOf) {
  const cards = tasks.flatMap(listCards);
  const shown = cards.slice(0, most);
  syncChildren(list, shown, (c) => c.key, (c) => makeCard(c, headOf), drawCard);
  if (cards.length > most) return `${most} of ${formatNumber(cards.length)}`;
  return cards.length ? '' : 'The task has no GPU now.';
}

// listCards returns a card for each device, or one card with the reason if there are none.
function listCards(task) {
  const devices = task.devices.length ? task.devices : [{ uuid: '' }];
  return devices.map((device) => ({ key: `${task.task} ${device.uuid}`, task, device, past: task.past?.devices.find((d) => d.uuid === device.uuid) }));
}

const parts = new WeakMap(); // by card: the elements that are updated

function makeCard({ task, device }, headOf) {
  const { name, href } = headOf(task);
  const duty = createSparkline(device.shared ? 'Duty of the whole GPU' : 'Duty');
  const memory = createSparkline('Memory');
  const more = createElement('p', { class: 'more' });
  const why = createElement('p', { class: 'why' });
  const charts = createElement('div', {}, duty.node, memory.node, createElement('div', { class: 'axis', 'aria-hidden': 'true' }, createElement('span', {}, `${minutes} min ago`), createElement('span', {}, 'now')));
  const card = createElement('li', {}, createElement('div', { class: 'head' }, href ? createElement('a', { href }, name) : name), createElement('code', {}, device.uuid), why, charts, more);
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
  const memoryNow = fresh && device.mem_used_mib !== undefined ? formatSize(device.mem_used_mib) + (device.mem_mib ? ` of ${formatSize(device.mem_mib)}` : '') : 'not known';
  duty.update({ points: points('duty', device.duty), top: 1, write: formatPercent, minutes, current: fresh && device.duty !== undefined ? formatPercent(device.duty) : 'not known' });
  memory.update({ points: used, top, write: (mib) => formatSize(Math.round(mib)), minutes, current: memoryNow });
  setText(why, [task.simulated && 'simulated', task.note].filter(Boolean).join('; '));
  setText(more, fresh ? formatDetails(device) : '');
  setAttribute(more, 'data-state', device.health === 'failed' && 'FAILED');
}

function formatPercent(part) {
  return `${Math.round(100 * part)} %`;
}

// formatDetails formats further values: "312 W, 64 °C".
function formatDetails({ watts, celsius, health, throttled_seconds: throttled }) {
  return [
    watts !== undefined && `${Math.round(watts)} W`, celsius !== undefined && `${Math.round(celsius)} °C`, health && health !== 'healthy' && health,
    throttled > 0 && `held to its part for ${formatCount(Math.round(throttled), 'second')}`,
  ].filter(Boolean).join(', ');
}
