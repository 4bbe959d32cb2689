// The jobs with waiting tasks, in queue order.
import { createElement, formatElapsed, createTable, setText } from './dom.js';
import { formatRequest } from './cluster.js';
import { encodePath } from './api.js';

export function renderQueue(store) {
  const jobs = createTable({
    caption: 'Jobs with tasks that wait, the next one first', empty: 'Nothing waits.', key: (q) => q.name,
    columns: [
      { name: 'Position', number: true, text: (q) => String(q.position) },
      { name: 'Job', text: (q) => q.name, href: (q) => `#/jobs/${encodePath(q.name)}` },
      { name: 'Role', text: (q) => q.role || '*' },
      { name: 'Priority', number: true, text: (q) => String(q.priority ?? 0) },
      { name: 'Waiting', number: true, text: (q) => `${q.waiting} of ${q.tasks}` },
      { name: 'Each wants', text: (q) => q.gpus },
      { name: 'Since', text: (q) => formatElapsed(q.submitted) },
      { name: 'Why', class: 'wide', text: (q) => q.reason ?? '' },
    ],
  });
  const note = createElement('p', { class: 'note' });
  const stop = store.keepUpdated('queue');
  const update = () => {
    const told = store.queue && !store.missing.has('queue');
    setText(note, told ? '' : 'By priority and age: this scheduler does not tell the order in which it chooses.');
    note.hidden = Boolean(told) || (store.queue === null && !store.missing.has('queue'));
    jobs.update(told ? store.queue : queueFromJobs(store.jobs), store.queue !== null || store.missing.has('queue'));
  };
  return { title: 'Queue', node: createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Queue'), note, jobs.node), update, close: stop };
}

// queueFromJobs derives the queue from the jobs, as far as possible.
function queueFromJobs(jobs) {
  return [...jobs.values()].filter((j) => j.tasks.some((t) => t.state === 'WAITING'))
    .sort((a, b) => (b.spec.priority ?? 0) - (a.spec.priority ?? 0) || Date.parse(a.submitted) - Date.parse(b.submitted))
    .map((j, i) => ({
      position: i + 1, name: j.spec.name, role: j.spec.role, priority: j.spec.priority, submitted: j.submitted,
      tasks: j.tasks.length, waiting: j.tasks.filter((t) => t.state === 'WAITING').length, gpus: formatRequest(j.spec), reason: j.waits,
    }));
}
