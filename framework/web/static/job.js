// The page of one job: its properties, its tasks, and the output of one task.
import { setAttribute, createElement, createFacts, formatNumber, formatCount, formatElapsed, formatSize, createTable, setText } from './dom.js';
import { currentTasks, isLive, jobState, formatRequest } from './cluster.js';
import { createLog } from './log.js';
import { renderJobUsage, createUsage } from './usage.js';
import { Problem, encodePath } from './api.js';
import { listCombinations } from './matrix.js';

const maxRows = 500;

export function renderJob(store, name, chosenTask) {
  const about = createFacts();
  const reasonNode = createElement('p', { class: 'reason' });
  const missingNote = createElement('p', { class: 'note' });
  const output = createLog();
  const taskLink = (task) => `#/jobs/${encodePath(name)}/tasks/${encodePath(task.id)}`;
  let valuesOf = () => undefined;
  const tasks = createTable({ caption: 'Tasks', empty: 'No task.', key: (task) => task.index, columns: taskColumns(taskLink, (task) => valuesOf(task.index)) });
  const note = createElement('p', { class: 'note' });
  const usage = createUsage((task) => ({ name: `Task ${task.index} on ${task.hostname}` }));
  const details = createElement('div', {}, tasks.node, note, createElement('div', { class: 'beside' }, output.node, usage.node));
  let wasShown = false;
  let matrix = null;
  let loadError = ''; // why the job could not be loaded
  let requestedLoad = -1; // value of store.loads at the last request
  const show = (job) => {
    wasShown = true;
    if (job.spec.matrix && JSON.stringify(job.spec.matrix) !== matrix) {
      matrix = JSON.stringify(job.spec.matrix);
      valuesOf = listCombinations(job.spec.matrix);
    }
    about.update(jobFacts(job));
    setText(reasonNode, (isLive(job) && job.waits) || '');
    const current = currentTasks(job);
    tasks.update(current.slice(0, maxRows));
    setText(note, current.length > maxRows ? `The first ${maxRows} of ${formatNumber(current.length)} tasks` : '');
    const id = chosenTask ?? pickTask(current, output.task);
    markChosen(tasks.node, current, id);
    output.show(id, job.tasks.find((task) => task.id === id)?.state ?? '');
    usage.update(renderJobUsage(job, id), store.health?.role);
  };
  const update = () => {
    const job = store.jobs.get(name);
    if (job) show(job);
    details.hidden = !wasShown;
    reasonNode.hidden = !reasonNode.textContent;
    setText(missingNote, job ? '' : wasShown ? 'The scheduler has removed this job.' : loadError || `Loading job ${name}.`);
    missingNote.hidden = !missingNote.textContent;
    if (job || requestedLoad === store.loads) return;
    requestedLoad = store.loads; // it has ended, or does not exist
    requestJob();
  };
  const requestJob = async () => {
    try {
      if (!await store.fetchJob(name)) loadError = `There is no job ${name}.`;
    } catch (err) {
      loadError = err instanceof Problem && err.status !== 401 ? err.message : ''; // the banner shows others
    }
    store.notifyListeners();
  };
  store.openJob = name; // keeps the job in the store after its end
  const node = createElement('div', {}, createElement('h2', { tabindex: -1 }, name), missingNote, reasonNode, about.node, details);
  const close = () => { store.openJob = ''; output.close(); usage.close(); };
  return { title: name, node, update, close, showsBeforeLoad: true };
}

// pickTask returns the task whose output is shown. It keeps the current one while
// it exists, and otherwise selects the task with the first state of the list.
function pickTask(tasks, current) {
  const states = ['FAILED', 'RUNNING', 'REFUSED', 'LOST', 'KILLED'];
  if (tasks.some((task) => task.id === current)) return current;
  const rank = (task) => (states.indexOf(task.state) + states.length + 1) % (states.length + 1);
  return tasks.reduce((best, task) => (rank(task) < rank(best) ? task : best), tasks[0])?.id;
}

function markChosen(node, tasks, id) {
  node.querySelectorAll('tbody tr').forEach((row, i) => setAttribute(row, 'aria-current', tasks[i]?.id === id));
}

function taskColumns(taskLink, valuesOf) {
  return [
    { name: 'Task', text: (task) => String(task.index) },
    { name: 'Matrix', optional: true, class: 'wide', text: (task) => formatPairs(valuesOf(task)) },
    { name: 'State', text: formatTaskState, state: (task) => task.state },
    { name: 'For', text: (task) => formatElapsed(task.changed) },
    { name: 'Attempt', text: formatAttempts },
    { name: 'Agent', text: (task) => task.hostname ?? '' },
    { name: 'GPUs', class: 'wide ids', text: formatDevices },
    { name: 'Message', class: 'wide', text: (task) => task.message ?? '' },
    { name: 'Output', text: () => 'show', href: taskLink },
  ];
}

function formatTaskState(task) {
  const health = task.healthy === false ? ', unhealthy' : '';
  return task.state + health + (task.kill_reason ? ` (${task.kill_reason})` : '');
}

// formatAttempts formats the number of the attempt: "3: 1 failed, 1 lost".
function formatAttempts(task) {
  const ended = [task.failures && `${task.failures} failed`, task.losses && `${task.losses} lost`].filter(Boolean).join(', ');
  return `${task.attempt ?? 1}${ended && `: ${ended}`}`;
}

function formatDevices(task) {
  const types = Object.entries(task.gpu_types ?? {}).map(([type, count]) => `${count} × ${type || 'GPU'}`);
  const shares = (task.parts ?? []).map((share) => `${formatSize(share.mem_mib)}${share.cores ? ` and ${share.cores} %` : ''} of a ${share.type || 'GPU'}`);
  return [...types, ...shares, ...(task.device_ids ?? [])].join('\n');
}

function jobFacts(job) {
  const { spec } = job;
  return [
    ['State', jobState(job), jobState(job)],
    ['Exit code', job.exit_code],
    ['Submitted', `${new Date(job.submitted).toLocaleString([], { dateStyle: 'short', timeStyle: 'short' })}, ${formatElapsed(job.submitted)} ago`],
    ['Role', spec.role || '*'],
    ['Priority', spec.priority ?? 0],
    ['Kind', [spec.service && 'service', spec.gang && 'gang', spec.preemptible && 'preemptible'].filter(Boolean).join(', ')],
    ['Each task wants', `${formatRequest(spec)}, ${formatCount(spec.cpus, 'CPU')}, ${formatSize(spec.mem_mib)}`],
    ['Topology', spec.request.topology && spec.request.topology !== 'any' ? spec.request.topology : ''],
    ['Image', spec.image],
    ['Command', (spec.command ?? []).map(quoteWord).join(' ')],
  ];
}

// quoteWord quotes a word for a shell, if necessary.
function quoteWord(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

// formatPairs formats matrix values by name, as on the command line: "lr=0.1 seed=2".
function formatPairs(values = {}) {
  return Object.keys(values).sort().map((name) => `${name}=${values[name]}`).join(' ');
}
