// The start page: the most important numbers, use over time and by type, what waits, what
// failed, who uses what, and the map.
import { createCard, createElement, createFilter, createLink, drawBadge, formatDuration, formatElapsed, formatNumber, formatCount, formatPercent, setAttribute, setStyle, syncChildren, setText } from './dom.js';
import { countHolders, countWithheld, isLive, summarizeCluster } from './cluster.js';
import { createClusterHistory } from './history.js';
import { createLegend, createMap, colorings } from './map.js';
import { listTypeHues } from './color.js';
import { createUsageSnapshot } from './usage_snapshot.js';
import { encodePath } from './api.js';
import { readParameter, writeParameter } from './url_state.js';

const shownRows = 5;
const day = 86400; // seconds

export function renderOverview(store) {
  const numbers = createElement('ul', { class: 'numbers', 'aria-label': 'The cluster in numbers' });
  const types = createElement('ul', { class: 'types', 'aria-label': 'GPUs by type' });
  const history = createClusterHistory();
  const waiting = createRowList('Nothing waits.', '#/queue');
  const failed = createRowList('No job has failed in the last 24 hours.', '#/jobs?state=FAILED');
  const holders = createHolders();
  const agents = createMap();
  const usage = createUsageSnapshot(() => store.notifyListeners());
  const note = createElement('p', { class: 'note' });
  const coloring = createElement('select', { on: { change: () => { writeParameter('color', coloring.value === 'state' ? '' : coloring.value); update(); } } },
    ...Object.entries(colorings).map(([value, label]) => createElement('option', { value, selected: value === readParameter('color', 'state') }, label)));
  let filter = '';
  let lastLoad = 0; // value of store.loads when the failed jobs were requested
  const update = () => {
    if (store.loads !== lastLoad) {
      lastLoad = store.loads;
      store.fetchEndedJobs('FAILED', 20).catch(() => {}); // the stream reports why
    }
    const summary = summarizeCluster(store);
    const failures = listFailures(store);
    drawNumbers(numbers, store, summary, history.latest(), failures);
    const hues = listTypeHues(summary.types.keys());
    drawTypes(types, summary.types, history.latest(), hues);
    history.update(store, hues);
    const shown = summary.agents.filter((agent) => !filter || `${agent.hostname} ${agent.types.join(' ')}`.toLowerCase().includes(filter));
    if (coloring.value === 'duty') usage.update(store);
    agents.update(shown, coloring.value, usage.dutyOf);
    setText(note, store.agentsError ? `The master does not list its agents: ${store.agentsError}` : `${shown.length < summary.agents.length ? `${formatNumber(shown.length)} of ` : ''}${formatCount(summary.agents.length, 'agent')}`);
    drawWaiting(waiting, store);
    drawFailures(failed, failures, store);
    holders.update(store.jobs, hues);
  };
  const node = createElement('div', {},
    createElement('h2', { tabindex: -1 }, 'Overview'), numbers,
    createElement('div', { class: 'columns wide-first' }, createCard('GPU use', history.node), createElement('div', { class: 'stacked' }, createCard('GPUs by type', types), createCard('Who uses what', holders.node))),
    createElement('div', { class: 'columns' }, createCard('Queue', waiting.node), createCard('Recent failures', failed.node)),
    createCard('Agents', createElement('div', { class: 'tools' }, createFilter('Agent or type', (text) => { filter = text.toLowerCase(); update(); }), createElement('label', {}, 'Color by ', coloring), note), createLegend(), agents.node));
  return { title: 'Overview', node, update, close: () => { history.close(); usage.close(); } };
}

// drawNumbers draws the cards at the top: each has a number, what it counts, and details.
function drawNumbers(list, store, { total, live, running, waiting, gpus: requested, agents }, latest, failures) {
  const used = total.used + total.other + total.shared;
  const unavailable = countWithheld(total);
  const hideGPUs = store.agentsError && agents.length === 0;
  const failed = failures.length;
  const closed = agents.filter((agent) => agent.cordoned || agent.draining).length;
  const cards = [
    ...(hideGPUs ? [] : [
      { name: 'GPUs in use', value: formatNumber(used), of: `of ${formatNumber(total.all)}`, part: total.all && used / total.all, details: [`${formatNumber(total.free)} free`, total.shared && `${formatNumber(total.shared)} shared`, total.other && `${formatNumber(total.other)} by other frameworks`], href: '#/agents' },
      { name: 'Duty of GPUs in use', value: latest?.duty === undefined ? '–' : formatPercent(latest.duty), part: latest?.duty ?? 0, details: [latest?.duty === undefined && 'not measured yet'], href: '#/agents' },
      { name: 'GPUs not offered', value: formatNumber(unavailable), details: [total.sick && `${formatNumber(total.sick)} sick`, total.cordoned && `${formatNumber(total.cordoned)} cordoned`, total.withheld && `${formatNumber(total.withheld)} sick or cordoned`, closed && `${formatCount(closed, 'agent')} closed`], href: '#/agents', alert: total.sick > 0 },
    ]),
    { name: 'Live jobs', value: formatNumber(live), details: [`${formatCount(running, 'task')} running`], href: '#/jobs?state=live' },
    { name: 'Waiting tasks', value: formatNumber(waiting), details: [requested && `${formatCount(requested, 'GPU')} wanted`, waiting > 0 && oldestWait(store)], href: '#/queue' },
    { name: 'Failed in 24 hours', value: formatNumber(failed), details: [failed > 0 && 'jobs'], href: '#/jobs?state=FAILED', alert: failed > 0 },
  ];
  syncChildren(list, cards, ({ name }) => name, ({ href }) => createElement('li', {}, createElement('a', { href },
    createElement('span', { class: 'name' }), createElement('span', { class: 'value' }, createElement('b'), ' ', createElement('span')), createElement('div', { class: 'stack', 'aria-hidden': 'true' }, createElement('i', { class: 'used' })), createElement('span', { class: 'details' }))), drawNumber);
}

function drawNumber(item, { name, value, of = '', part, details, alert }) {
  const [label, number, bar, more] = item.firstChild.children;
  setText(label, name);
  setText(number.firstChild, value);
  setText(number.lastChild, of);
  bar.hidden = part === undefined;
  setStyle(bar.firstChild, 'width', `${100 * (part ?? 0)}%`);
  setText(more, details.filter(Boolean).join(' · '));
  setAttribute(item, 'data-alert', Boolean(alert));
}

function oldestWait(store) {
  const times = [...store.jobs.values()].filter((job) => isLive(job) && job.waits).map((job) => Date.parse(job.submitted));
  return times.length ? `oldest ${formatDuration((Date.now() - Math.min(...times)) / 1000)}` : '';
}

// drawTypes draws a bar for each type: in use, shared, used by others, not offered, and free.
function drawTypes(list, types, latest, hues) {
  const all = [...types].sort(([, a], [, b]) => b.all - a.all);
  syncChildren(list, all, ([name]) => name, makeType, (item, [name, count]) => {
    const [head, bar] = item.children;
    const duty = latest?.types[name];
    setText(head.children[1], `${formatNumber(count.free)} free of ${formatNumber(count.all)}${countWithheld(count) ? `, ${formatNumber(countWithheld(count))} not offered` : ''}`);
    setText(head.children[2], duty === undefined ? '' : `duty ${formatPercent(duty)}`);
    setStyle(item, '--hue', hues.get(name));
    const parts = { used: count.used, shared: count.shared, other: count.other, closed: countWithheld(count) };
    Object.values(parts).forEach((number, i) => setStyle(bar.children[i], 'width', `${100 * number / count.all}%`));
  });
}

function makeType([name]) {
  return createElement('li', {}, createElement('div', { class: 'head' }, createElement('b', {}, name), createElement('span'), createElement('span', { class: 'duty' })),
    createElement('div', { class: 'stack', 'aria-hidden': 'true' }, ...['used typed', 'shared', 'other', 'closed'].map((part) => createElement('i', { class: part }))));
}

// createRowList creates a short list with a link to all entries.
function createRowList(empty, href) {
  const list = createElement('ul', { class: 'rows' });
  const emptyNote = createElement('p', { class: 'note empty' }, empty);
  const more = createElement('p', { class: 'more' }, createLink(href, ''));
  return { node: createElement('div', {}, emptyNote, list, more), list, emptyNote, more };
}

function drawRows({ list, emptyNote, more }, all, describe, moreText) {
  const rows = all.slice(0, shownRows).map(describe);
  emptyNote.hidden = rows.length > 0;
  more.hidden = all.length <= shownRows;
  setText(more.firstChild, moreText);
  syncChildren(list, rows, ({ reference }) => reference,
    ({ name, reference }) => createElement('li', {}, createElement('div', { class: 'head' }, createLink(`#/jobs/${encodePath(reference)}`, name), createElement('span')), createElement('p')),
    (item, { state, label, text }) => {
      drawBadge(item.firstChild.lastChild, state, label);
      setText(item.lastChild, text);
    });
}

function drawWaiting(rows, store) {
  const pending = [...store.jobs.values()].filter((job) => isLive(job) && job.waits);
  drawRows(rows, pending, (job) => ({ name: job.spec.name, reference: store.jobs.referenceTo(job), state: 'WAITING', label: formatElapsed(job.submitted), text: job.waits }), `All ${formatNumber(pending.length)} in the queue`);
}

// listFailures returns the jobs that failed in the last 24 hours, the newest first.
function listFailures(store) {
  const ended = (job) => Math.max(...job.tasks.map((task) => Date.parse(task.changed)));
  return [...store.jobs.values()].filter((job) => job.terminal && job.state === 'FAILED').map((job) => ({ job, ended: ended(job) }))
    .filter((failure) => Date.now() - failure.ended < 1000 * day).sort((a, b) => b.ended - a.ended);
}

function drawFailures(rows, failures, store) {
  drawRows(rows, failures, ({ job, ended }) => ({
    name: job.spec.name, reference: store.jobs.referenceTo(job), state: 'FAILED', label: `${formatDuration((Date.now() - ended) / 1000)} ago`, text: job.tasks.find((task) => task.state === 'FAILED')?.message ?? '',
  }), `All ${formatNumber(failures.length)} failed jobs`);
}

// createHolders creates the bars of the roles and users that hold the most GPUs.
function createHolders() {
  const list = createElement('ul', { class: 'holders' });
  const emptyNote = createElement('p', { class: 'note empty' }, 'No job holds a GPU.');
  const update = (jobs, hues) => {
    const all = countHolders(jobs).filter(({ gpus }) => gpus > 0);
    const most = Math.max(1, ...all.map(({ gpus }) => gpus));
    emptyNote.hidden = all.length > 0;
    syncChildren(list, all.slice(0, 2 * shownRows), ({ role, owner }) => `${role} ${owner}`,
      ({ role, owner }) => createElement('li', {}, createLink(`#/jobs?role=${encodePath(role)}${owner && `&owner=${encodePath(owner)}`}`, owner ? `${owner} (${role})` : role), createElement('span'), createElement('div', { class: 'stack', 'aria-hidden': 'true' })),
      (item, { gpus, waiting, held }) => {
        const types = Object.entries(held).filter(([type]) => type !== '*').sort();
        setText(item.children[1], `${types.map(([type, count]) => `${formatNumber(count)} ${type}`).join(', ')}${waiting ? `, ${formatNumber(waiting)} wanted` : ''}`);
        syncChildren(item.lastChild, types, ([type]) => type, () => createElement('i', { class: 'typed' }), (part, [type, count]) => {
          setStyle(part, '--hue', hues.get(type) ?? 0);
          setStyle(part, 'width', `${100 * count / most}%`);
        });
      });
  };
  return { node: createElement('div', {}, emptyNote, list), update };
}
