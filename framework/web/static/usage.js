// The present and recent usage of running tasks' GPUs. There are no events for
// usage: it is polled while it is shown.
import { fetchJSON } from './api.js';
import { setAttribute, createElement, formatNumber, formatCount, formatPercent, formatSize, syncChildren, setText } from './dom.js';
import { createSparkline } from './spark.js';
import { referenceOf } from './reference.js';

const minutes = 15;
const pollInterval = 10000; // milliseconds
const maxJobGPUs = 16; // with more GPUs of a job, only those of one task are shown
const maxCards = 64;

// createUsage creates a section of charts. cardHead(task) returns the name of a card
// and, optionally, its link.
export function createUsage(cardHead) {
  const list = createElement('ul', { class: 'gpus' });
  const note = createElement('p', { class: 'note' });
  const node = createElement('section', { class: 'usage card', hidden: true }, createElement('h3', {}, `GPUs in the last ${minutes} minutes`), note, list);
  let query = '';
  let closed = false;
  let controller = new AbortController();
  const poll = async (signal) => {
    try {
      const { tasks } = document.hidden && list.hasChildNodes() ? {} : await fetchJSON(`v1/usage?${query}&minutes=${minutes}`, signal);
      if (signal.aborted) return;
      if (tasks) setText(note, drawUsage(list, tasks, cardHead));
    } catch (err) {
      if (signal.aborted) return;
      setText(note, err.message);
    }
    setTimeout(() => { if (!signal.aborted) poll(signal); }, pollInterval);
  };
  // update selects the tasks by API parameters; null selects none. A standby would
  // redirect to another origin, which the page may not request.
  const update = (selection, role) => {
    node.hidden = !selection;
    const newQuery = selection && role && role !== 'standby' ? new URLSearchParams(selection).toString() : '';
    if (role === 'standby') setText(note, 'Only the leading scheduler reports usage.');
    if (newQuery === query || closed) return;
    query = newQuery;
    controller.abort();
    controller = new AbortController();
    if (query) poll(controller.signal);
  };
  return { node, update, close: () => { closed = true; controller.abort(); } };
}

// renderJobUsage returns the parameters for a job: all of its GPUs or, if they are many,
// those of the chosen task.
export function renderJobUsage(job, chosen) {
  const { gpus } = job.spec.request;
  const running = job.tasks.filter((task) => task.state === 'RUNNING');
  if (!gpus || running.length === 0) return null;
  return running.length * gpus > maxJobGPUs ? { job: referenceOf(job), task: chosen } : { job: referenceOf(job) };
}

// renderAgentUsage returns the parameters for the tasks on an agent.
export function renderAgentUsage(store, id) {
  const hasRunning = [...store.jobs.values()].some((job) => job.spec.request.gpus > 0 && job.tasks.some((task) => task.agent_id === id && task.state === 'RUNNING'));
  return hasRunning ? { agent: id } : null;
}

// drawUsage draws the cards and returns a note about the whole list.
function drawUsage(list, tasks, cardHead) {
  const cards = tasks.flatMap(listCards);
  const shown = cards.slice(0, maxCards);
  syncChildren(list, shown, (card) => card.key, (card) => makeCard(card, cardHead), drawCard);
  if (cards.length > maxCards) return `${maxCards} of ${formatNumber(cards.length)}`;
  return cards.length ? '' : 'The task has no GPU now.';
}

// listCards returns a card for each device, or one card with the reason if there are none.
function listCards(task) {
  const devices = task.devices.length ? task.devices : [{ uuid: '' }];
  return devices.map((device) => ({ key: `${task.task} ${device.uuid}`, task, device, past: task.past?.devices.find(({ uuid }) => uuid === device.uuid) }));
}

const cardElements = new WeakMap(); // by card: the elements that are updated

function makeCard({ task, device }, cardHead) {
  const { name, href } = cardHead(task);
  const duty = createSparkline(device.shared ? 'Duty of the whole GPU' : 'Duty');
  const memory = createSparkline('Memory');
  const details = createElement('p', { class: 'more' });
  const reason = createElement('p', { class: 'why' });
  const charts = createElement('div', {}, duty.node, memory.node, createElement('div', { class: 'axis', 'aria-hidden': 'true' }, createElement('span', {}, `${minutes} min ago`), createElement('span', {}, 'now')));
  const card = createElement('li', {}, createElement('div', { class: 'head' }, href ? createElement('a', { href }, name) : name), createElement('code', {}, device.uuid), reason, charts, details);
  cardElements.set(card, { charts, duty, memory, details, reason });
  return card;
}

function drawCard(card, { task, device, past }) {
  const { charts, duty, memory, details, reason } = cardElements.get(card);
  const fresh = !task.note;
  charts.hidden = !fresh && !past;
  const listPoints = (key, current) => {
    const all = (task.past?.ages_seconds ?? []).map((age, i) => ({ age, value: past?.[key][i] ?? null }));
    if (fresh && current !== undefined) all.push({ age: 0, value: current });
    return all;
  };
  const used = listPoints('mem_used_mib', device.mem_used_mib);
  const maximum = device.mem_mib ?? Math.max(0, ...used.map(({ value }) => value ?? 0));
  const memoryNow = fresh && device.mem_used_mib !== undefined ? formatSize(device.mem_used_mib) + (device.mem_mib ? ` of ${formatSize(device.mem_mib)}` : '') : 'not known';
  duty.update({ points: listPoints('duty', device.duty), maximum: 1, format: formatPercent, minutes, current: fresh && device.duty !== undefined ? formatPercent(device.duty) : 'not known' });
  memory.update({ points: used, maximum, format: (mib) => formatSize(Math.round(mib)), minutes, current: memoryNow });
  setText(reason, [task.simulated && 'simulated', task.note].filter(Boolean).join('; '));
  setText(details, fresh ? formatDetails(device) : '');
  setAttribute(details, 'data-state', device.health === 'failed' && 'FAILED');
}

// formatDetails formats further values: "312 W, 64 °C".
function formatDetails({ watts, celsius, health, throttled_seconds: throttled }) {
  return [
    watts !== undefined && `${Math.round(watts)} W`, celsius !== undefined && `${Math.round(celsius)} °C`, health && health !== 'healthy' && health,
    throttled > 0 && `held to its part for ${formatCount(Math.round(throttled), 'second')}`,
  ].filter(Boolean).join(', ');
}
