// The jobs with waiting tasks, in queue order.
import { createElement, createFilter, formatElapsed, setText } from './dom.js';
import { createTable } from './table.js';
import { readParameter, writeParameter } from './url_state.js';
import { currentTasks, formatRequest } from './cluster.js';
import { formatStart } from './start_estimate.js';
import { encodePath } from './api.js';
import { formatReference } from './reference.js';

export function renderQueue(store) {
  const jobs = createTable({
    caption: 'Jobs with tasks that wait, the next one first', empty: 'Nothing waits.', key: (entry) => formatReference(entry.name, entry.run),
    sort: readParameter('sort'), onSort: (order) => writeParameter('sort', order),
    columns: [
      { name: 'Position', number: true, phone: 'hide', text: (entry) => String(entry.position), sortBy: (entry) => entry.position },
      { name: 'Job', phone: 'title', sortBy: (entry) => entry.name, text: (entry) => entry.name, href: (entry) => `#/jobs/${encodePath(referenceTo(store, entry))}` },
      { name: 'Role', text: (entry) => entry.role || '*', sortBy: (entry) => entry.role || '*' },
      { name: 'Priority', number: true, text: (entry) => String(entry.priority ?? 0), sortBy: (entry) => entry.priority ?? 0 },
      { name: 'Waiting', number: true, text: (entry) => `${entry.waiting} of ${entry.tasks}`, sortBy: (entry) => entry.waiting },
      { name: 'Each wants', text: (entry) => entry.gpus },
      { name: 'Since', number: true, phone: 'state', text: (entry) => formatElapsed(entry.submitted), sortBy: (entry) => Date.parse(entry.submitted) },
      { name: 'Probably starts', optional: true, text: ({ start }) => formatStart(start), sortBy: ({ start }) => (start ? Date.parse(start.expected) : Infinity) },
      { name: 'Why', class: 'wide', phone: 'wide', text: (entry) => entry.reason ?? '' },
    ],
  });
  const note = createElement('p', { class: 'note' });
  const stopUpdates = store.lists.keepUpdated('queue');
  let filter = readParameter('q');
  const update = () => {
    const provided = store.lists.queue && !store.lists.unavailable.has('queue');
    setText(note, provided ? '' : 'Sorted by priority and age, because this scheduler does not provide its queue.');
    note.hidden = Boolean(provided) || !store.lists.isKnown('queue');
    const all = provided ? store.lists.queue : queueFromJobs(store.jobs);
    jobs.update(all.filter((entry) => `${entry.name} ${entry.role || '*'} ${entry.gpus} ${entry.reason ?? ''}`.toLowerCase().includes(filter.toLowerCase())), store.lists.isKnown('queue'));
  };
  return { title: 'Queue', node: createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Queue'), createElement('div', { class: 'tools' }, createFilter('Filter', (text) => { filter = text; writeParameter('q', text); update(); }, filter)), note, jobs.node), update, close: stopUpdates };
}

// referenceTo returns how the reader names the job of an entry.
function referenceTo(store, { name, run }) {
  const job = store.jobs.find(name, run);
  return job ? store.jobs.referenceTo(job) : formatReference(name, run);
}

// queueFromJobs derives an approximate queue from the jobs.
function queueFromJobs(jobs) {
  return [...jobs.values()].filter((job) => job.tasks.some(isWaiting))
    .sort((a, b) => (b.spec.priority ?? 0) - (a.spec.priority ?? 0) || Date.parse(a.submitted) - Date.parse(b.submitted))
    .map((job, i) => ({
      position: i + 1, name: job.spec.name, run: job.run, role: job.spec.role, priority: job.spec.priority, submitted: job.submitted,
      tasks: currentTasks(job).length, waiting: job.tasks.filter(isWaiting).length, gpus: formatRequest(job.spec), reason: job.waits,
    }));
}

function isWaiting(task) {
  return task.state === 'WAITING';
}
