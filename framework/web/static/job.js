// The page of one job: its properties, its tasks, and the output of one task.
import { setAttribute, createElement, createFacts, formatNumber, formatCount, formatElapsed, formatSize, createTable, setText } from './dom.js';
import { isLive, jobState, formatRequest } from './cluster.js';
import { createLog } from './log.js';
import { renderJobUsage, createUsage } from './usage.js';
import { Problem, encodePath } from './api.js';
import { listCombinations } from './matrix.js';

const shown = 500;

export function renderJob(store, name, chosen) {
  const about = createFacts();
  const waits = createElement('p', { class: 'reason' });
  const gone = createElement('p', { class: 'note' });
  const output = createLog();
  const at = (task) => `#/jobs/${encodePath(name)}/tasks/${encodePath(task.id)}`;
  let valuesOf = () => undefined;
  const tasks = createTable({ caption: 'Tasks', empty: 'No task.', key: (t) => t.index, columns: taskColumns(at, (t) => valuesOf(t.index)) });
  const note = createElement('p', { class: 'note' });
  const gpus = createUsage((t) => ({ name: `Task ${t.index} on ${t.hostname}` }));
  const rest = createElement('div', {}, tasks.node, note, createElement('div', { class: 'beside' }, output.node, gpus.node));
  let known = false;
  let matrix = null;
  let absent = ''; // why the job is not shown
  let asked = -1; // value of store.loads at the last request
  const show = (j) => {
    known = true;
    if (j.spec.matrix && JSON.stringify(j.spec.matrix) !== matrix) {
      matrix = JSON.stringify(j.spec.matrix);
      valuesOf = listCombinations(j.spec.matrix);
    }
    about.update(jobFacts(j));
    setText(waits, (isLive(j) && j.waits) || '');
    tasks.update(j.tasks.slice(0, shown));
    setText(note, j.tasks.length > shown ? `The first ${shown} of ${formatNumber(j.tasks.length)} tasks` : '');
    const id = chosen ?? pickTask(j, output.task);
    markChosen(tasks.node, j, id);
    output.show(id, j.tasks.find((t) => t.id === id)?.state ?? '');
    gpus.update(renderJobUsage(j, id), store.health?.role);
  };
  const update = () => {
    const j = store.jobs.get(name);
    if (j) show(j);
    rest.hidden = !known;
    waits.hidden = !waits.textContent;
    setText(gone, j ? '' : known ? 'The scheduler has forgotten this job.' : absent || `Looking for the job ${name}.`);
    gone.hidden = !gone.textContent;
    if (j || asked === store.loads) return;
    asked = store.loads; // it has ended, or does not exist
    ask();
  };
  const ask = async () => {
    try {
      if (!await store.fetchJob(name)) absent = `There is no job ${name}.`;
    } catch (err) {
      absent = err instanceof Problem && err.status !== 401 ? err.message : ''; // the banner shows others
    }
    store.notifyListeners();
  };
  store.focus = name; // keeps the job in the store after its end
  const node = createElement('div', {}, createElement('h2', { tabindex: -1 }, name), gone, waits, about.node, rest);
  const close = () => { store.focus = ''; output.close(); gpus.close(); };
  return { title: name, node, update, close, early: true };
}

// pickTask returns the task whose output is shown. It keeps the present one while
// it exists, and otherwise selects the one with the most interesting state.
function pickTask(j, before) {
  const order = ['FAILED', 'RUNNING', 'REFUSED', 'LOST', 'KILLED'];
  if (j.tasks.some((t) => t.id === before)) return before;
  const rank = (t) => (order.indexOf(t.state) + order.length + 1) % (order.length + 1);
  return j.tasks.reduce((best, t) => (rank(t) < rank(best) ? t : best), j.tasks[0])?.id;
}

function markChosen(node, j, id) {
  node.querySelectorAll('tbody tr').forEach((row, i) => setAttribute(row, 'aria-current', j.tasks[i]?.id === id));
}

function taskColumns(at, valuesOf) {
  return [
    { name: 'Task', text: (t) => String(t.index) },
    { name: 'Matrix', optional: true, class: 'wide', text: (t) => formatPairs(valuesOf(t)) },
    { name: 'State', text: formatTaskState, state: (t) => t.state },
    { name: 'For', text: (t) => formatElapsed(t.changed) },
    { name: 'Attempt', text: formatAttempts },
    { name: 'Agent', text: (t) => t.hostname ?? '' },
    { name: 'GPUs', class: 'wide ids', text: formatDevices },
    { name: 'Message', class: 'wide', text: (t) => t.message ?? '' },
    { name: 'Output', text: () => 'show', href: at },
  ];
}

function formatTaskState(t) {
  const health = t.healthy === false ? ', unhealthy' : '';
  return t.state + health + (t.kill_reason ? ` (${t.kill_reason})` : '');
}

// formatAttempts formats the number of the attempt: "3: 1 failed, 1 lost".
function formatAttempts(t) {
  const before = [t.failures && `${t.failures} failed`, t.losses && `${t.losses} lost`].filter(Boolean).join(', ');
  return `${t.attempt ?? 1}${before && `: ${before}`}`;
}

function formatDevices(t) {
  const types = Object.entries(t.gpu_types ?? {}).map(([type, n]) => `${n} × ${type || 'GPU'}`);
  const parts = (t.parts ?? []).map((p) => `${formatSize(p.mem_mib)}${p.cores ? ` and ${p.cores} %` : ''} of a ${p.type || 'GPU'}`);
  return [...types, ...parts, ...(t.device_ids ?? [])].join('\n');
}

function jobFacts(j) {
  const { spec } = j;
  return [
    ['State', jobState(j), jobState(j)],
    ['Exit code', j.exit_code],
    ['Submitted', `${new Date(j.submitted).toLocaleString([], { dateStyle: 'short', timeStyle: 'short' })}, ${formatElapsed(j.submitted)} ago`],
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
