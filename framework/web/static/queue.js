// The jobs with waiting tasks, in queue order.
import { el, since, table, text } from './dom.js';
import { wishOf } from './cluster.js';
import { path } from './api.js';

export function queue(store) {
  const jobs = table({
    caption: 'Jobs with tasks that wait, the next one first', empty: 'Nothing waits.', key: (q) => q.name,
    columns: [
      { name: 'Position', number: true, text: (q) => String(q.position) },
      { name: 'Job', text: (q) => q.name, href: (q) => `#/jobs/${path(q.name)}` },
      { name: 'Role', text: (q) => q.role || '*' },
      { name: 'Priority', number: true, text: (q) => String(q.priority ?? 0) },
      { name: 'Waiting', number: true, text: (q) => `${q.waiting} of ${q.tasks}` },
      { name: 'Each wants', text: (q) => q.gpus },
      { name: 'Since', text: (q) => since(q.submitted) },
      { name: 'Why', class: 'wide', text: (q) => q.reason ?? '' },
    ],
  });
  const note = el('p', { class: 'note' });
  const stop = store.want('queue');
  const update = () => {
    const told = store.queue && !store.missing.has('queue');
    text(note, told ? '' : 'By priority and age: this scheduler does not tell the order in which it chooses.');
    note.hidden = Boolean(told) || (store.queue === null && !store.missing.has('queue'));
    jobs.update(told ? store.queue : fromJobs(store.jobs), store.queue !== null || store.missing.has('queue'));
  };
  return { title: 'Queue', node: el('div', {}, el('h2', { tabindex: -1 }, 'Queue'), note, jobs.node), update, close: stop };
}

// fromJobs derives the queue from the jobs, as far as possible.
function fromJobs(jobs) {
  return [...jobs.values()].filter((j) => j.tasks.some((t) => t.state === 'WAITING'))
    .sort((a, b) => (b.spec.priority ?? 0) - (a.spec.priority ?? 0) || Date.parse(a.submitted) - Date.parse(b.submitted))
    .map((j, i) => ({
      position: i + 1, name: j.spec.name, role: j.spec.role, priority: j.spec.priority, submitted: j.submitted,
      tasks: j.tasks.length, waiting: j.tasks.filter((t) => t.state === 'WAITING').length, gpus: wishOf(j.spec), reason: j.waits,
    }));
}
