// The start page: counts, usage over time, waiting jobs, and the map.
import { createElement, createFilter, formatNumber, formatCount, syncChildren, setText } from './dom.js';
import { isLive, describeWithheld, summarizeCluster } from './cluster.js';
import { createChart } from './chart.js';
import { createLegend, createMap } from './map.js';
import { encodePath } from './api.js';

const shownWaiting = 5;

export function renderOverview(store) {
  const counts = createElement('ul', { class: 'counts', 'aria-label': 'Counts' });
  const types = createElement('ul', { class: 'types', 'aria-label': 'GPUs by type' });
  const waiting = createElement('ul', { class: 'waits' });
  const more = createElement('p', {}, createElement('a', { href: '#/queue' }));
  const noneWait = createElement('p', { class: 'note' }, 'Nothing waits.');
  const agents = createMap();
  const note = createElement('p', { class: 'note' });
  const lines = createChart();
  let wish = '';
  const update = () => {
    const s = summarizeCluster(store);
    drawCounts(counts, s, store.noAgents && s.agents.length === 0);
    drawTypes(types, s.types);
    const shown = s.agents.filter((a) => !wish || `${a.hostname} ${a.types.join(' ')}`.toLowerCase().includes(wish));
    agents.update(shown);
    setText(note, store.noAgents ? `The master does not tell its agents: ${store.noAgents}` : `${shown.length < s.agents.length ? `${formatNumber(shown.length)} of ` : ''}${formatCount(s.agents.length, 'agent')}`);
    const waits = drawWaiting(waiting, store);
    noneWait.hidden = waits > 0;
    more.hidden = waits <= shownWaiting;
    setText(more.firstChild, `All ${formatNumber(waits)} in the queue`);
    lines.update();
  };
  const node = createElement('div', {},
    createElement('h2', { tabindex: -1 }, 'Overview'), counts,
    createElement('div', { class: 'columns' },
      createElement('section', {}, createElement('h3', {}, 'Use'), lines.node),
      createElement('section', {}, createElement('h3', {}, 'What waits'), noneWait, waiting, more)),
    createElement('section', {}, createElement('h3', {}, 'Cluster'), types, createElement('div', { class: 'tools' }, createFilter('Agent or type', (text) => { wish = text; update(); }), note), createLegend(), agents.node));
  return { title: 'Overview', node, update };
}

function drawCounts(list, { total, live, running, waiting, wanted }, jobsAlone) {
  const busy = total.used + total.other;
  const gpus = [
    ['GPUs', total.all], ['free', total.free], ['in use', busy], ['shared', total.shared], ['sick', total.sick], ['cordoned', total.cordoned],
    ...(total.withheld ? [['withheld', total.withheld]] : []),
  ];
  const all = [
    ...(jobsAlone ? [] : gpus), ['live jobs', live], ['running tasks', running], ['waiting tasks', waiting], ['GPUs wanted', wanted],
  ];
  syncChildren(list, all, ([name]) => name, ([name]) => createElement('li', {}, createElement('b'), ' ', name), (item, [, n]) => setText(item.firstChild, formatNumber(n)));
}

function drawTypes(list, types) {
  const all = [...types].sort(([, a], [, b]) => b.all - a.all);
  syncChildren(list, all, ([name]) => name, ([name]) => createElement('li', {}, createElement('b', {}, name), ' ', createElement('span')),
    (item, [, n]) => setText(item.lastChild, `${formatNumber(n.free)} free of ${formatNumber(n.all)}${describeWithheld(n) ? `, ${formatNumber(describeWithheld(n))} not offered` : ''}`));
}

// drawWaiting lists the first waiting jobs and returns the number of all.
function drawWaiting(list, store) {
  const waits = [...store.jobs.values()].filter((j) => isLive(j) && j.waits);
  syncChildren(list, waits.slice(0, shownWaiting), (j) => j.spec.name,
    (j) => createElement('li', {}, createElement('a', { href: `#/jobs/${encodePath(j.spec.name)}` }, j.spec.name), ' ', createElement('span')),
    (item, j) => setText(item.lastChild, j.waits));
  return waits.length;
}
