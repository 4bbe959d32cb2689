// All jobs: the live ones, and the newest ended ones.
import { createElement, createFilter, formatNumber, formatCount, formatElapsed, createTable, setText } from './dom.js';
import { isLive, jobState, listTasks, formatRequest } from './cluster.js';
import { encodePath } from './api.js';

const shown = 300;

export function renderJobs(store) {
  const list = createTable({
    caption: 'Jobs, the newest first', empty: 'No job.', key: (j) => j.spec.name,
    columns: [
      { name: 'Job', text: (j) => j.spec.name, href: (j) => `#/jobs/${encodePath(j.spec.name)}` },
      { name: 'State', text: jobState, state: jobState },
      { name: 'Tasks', text: listTasks },
      { name: 'Role', text: (j) => j.spec.role || '*' },
      { name: 'Each wants', text: (j) => formatRequest(j.spec) },
      { name: 'Submitted', text: (j) => `${formatElapsed(j.submitted)} ago` },
      { name: 'Why it waits', class: 'wide', text: (j) => (isLive(j) && j.waits) || '' },
    ],
  });
  const note = createElement('p', { class: 'note', 'aria-live': 'polite' });
  let wish = '';
  let ended = true;
  let loads = 0;
  let told = false; // whether the ended jobs are loaded
  const update = () => {
    if (store.loads !== loads) {
      loads = store.loads;
      store.fetchEndedJobs().then(() => { told = true; }).catch((err) => setText(note, `The ended jobs: ${err.message}`));
    }
    const all = [...store.jobs.values()].filter((j) => (ended || isLive(j)) && matchesFilter(j, wish))
      .sort((a, b) => Date.parse(b.submitted) - Date.parse(a.submitted));
    list.update(all.slice(0, shown), told || !ended);
    setText(note, all.length > shown ? `${shown} of ${formatNumber(all.length)}: type to see fewer` : told || all.length ? formatCount(all.length, 'job') : '');
  };
  const which = createElement('label', {}, createElement('input', { type: 'checkbox', checked: true, on: { change: (e) => { ended = e.target.checked; update(); } } }), ' ended ones too');
  const node = createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Jobs'),
    createElement('div', { class: 'tools' }, createFilter('Name, state, role or type', (text) => { wish = text; update(); }), which, note), list.node);
  return { title: 'Jobs', node, update };
}

function matchesFilter(job, wish) {
  return !wish || `${job.spec.name} ${listTasks(job)} ${job.spec.role || '*'} ${formatRequest(job.spec)}`.toLowerCase().includes(wish);
}
