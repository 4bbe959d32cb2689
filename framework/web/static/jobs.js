// All jobs: the live ones, and the newest ended ones.
import { el, filter, number, plural, since, table, text } from './dom.js';
import { isLive, stateOf, tasksOf, wishOf } from './cluster.js';
import { path } from './api.js';

const shown = 300;

export function jobs(store) {
  const list = table({
    caption: 'Jobs, the newest first', empty: 'No job.', key: (j) => j.spec.name,
    columns: [
      { name: 'Job', text: (j) => j.spec.name, href: (j) => `#/jobs/${path(j.spec.name)}` },
      { name: 'State', text: stateOf, state: stateOf },
      { name: 'Tasks', text: tasksOf },
      { name: 'Role', text: (j) => j.spec.role || '*' },
      { name: 'Each wants', text: (j) => wishOf(j.spec) },
      { name: 'Submitted', text: (j) => `${since(j.submitted)} ago` },
      { name: 'Why it waits', class: 'wide', text: (j) => (isLive(j) && j.waits) || '' },
    ],
  });
  const note = el('p', { class: 'note', 'aria-live': 'polite' });
  let wish = '';
  let ended = true;
  let loads = 0;
  let told = false; // whether the ended jobs are loaded
  const update = () => {
    if (store.loads !== loads) {
      loads = store.loads;
      store.ended().then(() => { told = true; }).catch((err) => text(note, `The ended jobs: ${err.message}`));
    }
    const all = [...store.jobs.values()].filter((j) => (ended || isLive(j)) && matches(j, wish))
      .sort((a, b) => Date.parse(b.submitted) - Date.parse(a.submitted));
    list.update(all.slice(0, shown), told || !ended);
    text(note, all.length > shown ? `${shown} of ${number(all.length)}: type to see fewer` : told || all.length ? plural(all.length, 'job') : '');
  };
  const which = el('label', {}, el('input', { type: 'checkbox', checked: true, on: { change: (e) => { ended = e.target.checked; update(); } } }), ' ended ones too');
  const node = el('div', {}, el('h2', { tabindex: -1 }, 'Jobs'),
    el('div', { class: 'tools' }, filter('Name, state, role or type', (text) => { wish = text; update(); }), which, note), list.node);
  return { title: 'Jobs', node, update };
}

function matches(job, wish) {
  return !wish || `${job.spec.name} ${tasksOf(job)} ${job.spec.role || '*'} ${wishOf(job.spec)}`.toLowerCase().includes(wish);
}
