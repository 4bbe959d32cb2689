// The jobs with waiting tasks, in queue order.
import { createElement, formatElapsed, createTable, setText } from './dom.js';
import { currentTasks, formatRequest } from './cluster.js';
import { encodePath } from './api.js';

export function renderQueue(store) {
  const jobs = createTable({
    caption: 'Jobs with tasks that wait, the next one first', empty: 'Nothing waits.', key: (entry) => entry.name,
    columns: [
      { name: 'Position', number: true, text: (entry) => String(entry.position) },
      { name: 'Job', text: (entry) => entry.name, href: (entry) => `#/jobs/${encodePath(entry.name)}` },
      { name: 'Role', text: (entry) => entry.role || '*' },
      { name: 'Priority', number: true, text: (entry) => String(entry.priority ?? 0) },
      { name: 'Waiting', number: true, text: (entry) => `${entry.waiting} of ${entry.tasks}` },
      { name: 'Each wants', text: (entry) => entry.gpus },
      { name: 'Since', text: (entry) => formatElapsed(entry.submitted) },
      { name: 'Why', class: 'wide', text: (entry) => entry.reason ?? '' },
    ],
  });
  const note = createElement('p', { class: 'note' });
  const stopUpdates = store.keepUpdated('queue');
  const update = () => {
    const provided = store.queue && !store.unavailableLists.has('queue');
    setText(note, provided ? '' : 'Sorted by priority and age, because this scheduler does not provide its queue.');
    note.hidden = Boolean(provided) || (store.queue === null && !store.unavailableLists.has('queue'));
    jobs.update(provided ? store.queue : queueFromJobs(store.jobs), store.queue !== null || store.unavailableLists.has('queue'));
  };
  return { title: 'Queue', node: createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Queue'), note, jobs.node), update, close: stopUpdates };
}

// queueFromJobs derives an approximate queue from the jobs.
function queueFromJobs(jobs) {
  return [...jobs.values()].filter((job) => job.tasks.some(isWaiting))
    .sort((a, b) => (b.spec.priority ?? 0) - (a.spec.priority ?? 0) || Date.parse(a.submitted) - Date.parse(b.submitted))
    .map((job, i) => ({
      position: i + 1, name: job.spec.name, role: job.spec.role, priority: job.spec.priority, submitted: job.submitted,
      tasks: currentTasks(job).length, waiting: job.tasks.filter(isWaiting).length, gpus: formatRequest(job.spec), reason: job.waits,
    }));
}

function isWaiting(task) {
  return task.state === 'WAITING';
}
