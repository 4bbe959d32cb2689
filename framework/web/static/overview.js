// The start page: counts, usage over time, waiting jobs, and the map.
import { createElement, createFilter, formatNumber, formatCount, syncChildren, setText } from './dom.js';
import { isLive, countWithheld, summarizeCluster } from './cluster.js';
import { createChart } from './chart.js';
import { createLegend, createMap } from './map.js';
import { encodePath } from './api.js';

const shownWaiting = 5;

export function renderOverview(store) {
  const counts = createElement('ul', { class: 'counts', 'aria-label': 'Counts' });
  const types = createElement('ul', { class: 'types', 'aria-label': 'GPUs by type' });
  const waiting = createElement('ul', { class: 'waits' });
  const more = createElement('p', {}, createElement('a', { href: '#/queue' }));
  const emptyNote = createElement('p', { class: 'note' }, 'Nothing waits.');
  const agents = createMap();
  const note = createElement('p', { class: 'note' });
  const chart = createChart();
  let filter = '';
  const update = () => {
    const summary = summarizeCluster(store);
    drawCounts(counts, summary, store.agentsError && summary.agents.length === 0);
    drawTypes(types, summary.types);
    const shown = summary.agents.filter((agent) => !filter || `${agent.hostname} ${agent.types.join(' ')}`.toLowerCase().includes(filter));
    agents.update(shown);
    setText(note, store.agentsError ? `The master does not list its agents: ${store.agentsError}` : `${shown.length < summary.agents.length ? `${formatNumber(shown.length)} of ` : ''}${formatCount(summary.agents.length, 'agent')}`);
    const waitingCount = drawWaiting(waiting, store);
    emptyNote.hidden = waitingCount > 0;
    more.hidden = waitingCount <= shownWaiting;
    setText(more.firstChild, `All ${formatNumber(waitingCount)} in the queue`);
    chart.update();
  };
  const node = createElement('div', {},
    createElement('h2', { tabindex: -1 }, 'Overview'), counts,
    createElement('div', { class: 'columns' },
      createElement('section', {}, createElement('h3', {}, 'Use'), chart.node),
      createElement('section', {}, createElement('h3', {}, 'What waits'), emptyNote, waiting, more)),
    createElement('section', {}, createElement('h3', {}, 'Cluster'), types, createElement('div', { class: 'tools' }, createFilter('Agent or type', (text) => { filter = text; update(); }), note), createLegend(), agents.node));
  return { title: 'Overview', node, update };
}

function drawCounts(list, { total, live, running, waiting, gpus: requested }, hideGPUs) {
  const busy = total.used + total.other;
  const gpus = [
    ['GPUs', total.all], ['free', total.free], ['in use', busy], ['shared', total.shared], ['sick', total.sick], ['cordoned', total.cordoned],
    ...(total.withheld ? [['withheld', total.withheld]] : []),
  ];
  const all = [
    ...(hideGPUs ? [] : gpus), ['live jobs', live], ['running tasks', running], ['waiting tasks', waiting], ['GPUs wanted', requested],
  ];
  syncChildren(list, all, ([name]) => name, ([name]) => createElement('li', {}, createElement('b'), ' ', name), (item, [, count]) => setText(item.firstChild, formatNumber(count)));
}

function drawTypes(list, types) {
  const all = [...types].sort(([, a], [, b]) => b.all - a.all);
  syncChildren(list, all, ([name]) => name, ([name]) => createElement('li', {}, createElement('b', {}, name), ' ', createElement('span')),
    (item, [, count]) => setText(item.lastChild, `${formatNumber(count.free)} free of ${formatNumber(count.all)}${countWithheld(count) ? `, ${formatNumber(countWithheld(count))} not offered` : ''}`));
}

// drawWaiting lists the first waiting jobs and returns the number of all.
function drawWaiting(list, store) {
  const pending = [...store.jobs.values()].filter((job) => isLive(job) && job.waits);
  syncChildren(list, pending.slice(0, shownWaiting), (job) => job.spec.name,
    (job) => createElement('li', {}, createElement('a', { href: `#/jobs/${encodePath(job.spec.name)}` }, job.spec.name), ' ', createElement('span')),
    (item, job) => setText(item.lastChild, job.waits));
  return pending.length;
}
