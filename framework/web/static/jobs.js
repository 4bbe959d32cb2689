// All jobs: the live ones, and the newest ended ones.
import { createElement, createFilter, formatNumber, formatCount, formatElapsed, createTable, setText } from './dom.js';
import { isLive, jobState, formatTaskStates, formatRequest } from './cluster.js';
import { encodePath } from './api.js';

const maxRows = 300;

export function renderJobs(store) {
  const list = createTable({
    caption: 'Jobs, the newest first', empty: 'No job.', key: (job) => job.spec.name,
    columns: [
      { name: 'Job', text: (job) => job.spec.name, href: (job) => `#/jobs/${encodePath(job.spec.name)}` },
      { name: 'State', text: jobState, state: jobState },
      { name: 'Tasks', text: formatTaskStates },
      { name: 'Role', text: (job) => job.spec.role || '*' },
      { name: 'Each wants', text: (job) => formatRequest(job.spec) },
      { name: 'Submitted', text: (job) => `${formatElapsed(job.submitted)} ago` },
      { name: 'Why it waits', class: 'wide', text: (job) => (isLive(job) && job.waits) || '' },
    ],
  });
  const note = createElement('p', { class: 'note', 'aria-live': 'polite' });
  let filter = '';
  let showEnded = true;
  let lastLoad = 0; // value of store.loads when the ended jobs were requested
  let endedLoaded = false;
  const update = () => {
    if (store.loads !== lastLoad) {
      lastLoad = store.loads;
      store.fetchEndedJobs().then(() => { endedLoaded = true; }).catch((err) => setText(note, `Cannot load the ended jobs: ${err.message}`));
    }
    const matching = [...store.jobs.values()].filter((job) => (showEnded || isLive(job)) && matchesFilter(job, filter))
      .sort((a, b) => Date.parse(b.submitted) - Date.parse(a.submitted));
    list.update(matching.slice(0, maxRows), endedLoaded || !showEnded);
    setText(note, matching.length > maxRows ? `${maxRows} of ${formatNumber(matching.length)}: type to see fewer` : endedLoaded || matching.length ? formatCount(matching.length, 'job') : '');
  };
  const endedToggle = createElement('label', {}, createElement('input', { type: 'checkbox', checked: true, on: { change: (e) => { showEnded = e.target.checked; update(); } } }), ' with ended jobs');
  const node = createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Jobs'),
    createElement('div', { class: 'tools' }, createFilter('Name, state, role or type', (text) => { filter = text; update(); }), endedToggle, note), list.node);
  return { title: 'Jobs', node, update };
}

function matchesFilter(job, filter) {
  return !filter || `${job.spec.name} ${jobState(job)} ${formatTaskStates(job)} ${job.spec.role || '*'} ${formatRequest(job.spec)}`.toLowerCase().includes(filter);
}
