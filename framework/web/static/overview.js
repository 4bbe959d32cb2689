// The start page: counts, usage over time, waiting jobs, and the map.
import { el, filter, number, plural, sync, text } from './dom.js';
import { isLive, keptBack, survey } from './cluster.js';
import { chart } from './chart.js';
import { legend, map } from './map.js';
import { path } from './api.js';

const shownWaiting = 5;

export function overview(store) {
  const counts = el('ul', { class: 'counts', 'aria-label': 'Counts' });
  const types = el('ul', { class: 'types', 'aria-label': 'GPUs by type' });
  const waiting = el('ul', { class: 'waits' });
  const more = el('p', {}, el('a', { href: '#/queue' }));
  const noneWait = el('p', { class: 'note' }, 'Nothing waits.');
  const agents = map();
  const note = el('p', { class: 'note' });
  const lines = chart();
  let wish = '';
  const update = () => {
    const s = survey(store);
    drawCounts(counts, s, store.noAgents && s.agents.length === 0);
    drawTypes(types, s.types);
    const shown = s.agents.filter((a) => !wish || `${a.hostname} ${a.types.join(' ')}`.toLowerCase().includes(wish));
    agents.update(shown);
    text(note, store.noAgents ? `The master does not tell its agents: ${store.noAgents}` : `${shown.length < s.agents.length ? `${number(shown.length)} of ` : ''}${plural(s.agents.length, 'agent')}`);
    const waits = drawWaiting(waiting, store);
    noneWait.hidden = waits > 0;
    more.hidden = waits <= shownWaiting;
    text(more.firstChild, `All ${number(waits)} in the queue`);
    lines.update();
  };
  const node = el('div', {},
    el('h2', { tabindex: -1 }, 'Overview'), counts,
    el('div', { class: 'columns' },
      el('section', {}, el('h3', {}, 'Use'), lines.node),
      el('section', {}, el('h3', {}, 'What waits'), noneWait, waiting, more)),
    el('section', {}, el('h3', {}, 'Cluster'), types, el('div', { class: 'tools' }, filter('Agent or type', (text) => { wish = text; update(); }), note), legend(), agents.node));
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
  sync(list, all, ([name]) => name, ([name]) => el('li', {}, el('b'), ' ', name), (item, [, n]) => text(item.firstChild, number(n)));
}

function drawTypes(list, types) {
  const all = [...types].sort(([, a], [, b]) => b.all - a.all);
  sync(list, all, ([name]) => name, ([name]) => el('li', {}, el('b', {}, name), ' ', el('span')),
    (item, [, n]) => text(item.lastChild, `${number(n.free)} free of ${number(n.all)}${keptBack(n) ? `, ${number(keptBack(n))} not offered` : ''}`));
}

// drawWaiting lists the first waiting jobs and returns the number of all.
function drawWaiting(list, store) {
  const waits = [...store.jobs.values()].filter((j) => isLive(j) && j.waits);
  sync(list, waits.slice(0, shownWaiting), (j) => j.spec.name,
    (j) => el('li', {}, el('a', { href: `#/jobs/${path(j.spec.name)}` }, j.spec.name), ' ', el('span')),
    (item, j) => text(item.lastChild, j.waits));
  return waits.length;
}
