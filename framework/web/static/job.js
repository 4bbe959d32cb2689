// The page of one job: its properties, its tasks, and the output of one task.
import { attribute, el, facts, number, plural, since, size, table, text } from './dom.js';
import { isLive, stateOf, wishOf } from './cluster.js';
import { log } from './log.js';
import { ofJob, usage } from './usage.js';
import { Problem, path } from './api.js';
import { combinations } from './matrix.js';

const shown = 500;

export function job(store, name, chosen) {
  const about = facts();
  const waits = el('p', { class: 'reason' });
  const gone = el('p', { class: 'note' });
  const output = log();
  const at = (task) => `#/jobs/${path(name)}/tasks/${path(task.id)}`;
  let valuesOf = () => undefined;
  const tasks = table({ caption: 'Tasks', empty: 'No task.', key: (t) => t.index, columns: columnsOf(at, (t) => valuesOf(t.index)) });
  const note = el('p', { class: 'note' });
  const gpus = usage((t) => ({ name: `Task ${t.index} on ${t.hostname}` }));
  const rest = el('div', {}, tasks.node, note, el('div', { class: 'beside' }, output.node, gpus.node));
  let known = false;
  let matrix = null;
  let absent = ''; // why the job is not shown
  let asked = -1; // value of store.loads at the last request
  const show = (j) => {
    known = true;
    if (j.spec.matrix && JSON.stringify(j.spec.matrix) !== matrix) {
      matrix = JSON.stringify(j.spec.matrix);
      valuesOf = combinations(j.spec.matrix);
    }
    about.update(factsOf(j));
    text(waits, (isLive(j) && j.waits) || '');
    tasks.update(j.tasks.slice(0, shown));
    text(note, j.tasks.length > shown ? `The first ${shown} of ${number(j.tasks.length)} tasks` : '');
    const id = chosen ?? pick(j, output.task);
    markChosen(tasks.node, j, id);
    output.show(id, j.tasks.find((t) => t.id === id)?.state ?? '');
    gpus.update(ofJob(j, id), store.health?.role);
  };
  const update = () => {
    const j = store.jobs.get(name);
    if (j) show(j);
    rest.hidden = !known;
    waits.hidden = !waits.textContent;
    text(gone, j ? '' : known ? 'The scheduler has forgotten this job.' : absent || `Looking for the job ${name}.`);
    gone.hidden = !gone.textContent;
    if (j || asked === store.loads) return;
    asked = store.loads; // it has ended, or does not exist
    ask();
  };
  const ask = async () => {
    try {
      if (!await store.job(name)) absent = `There is no job ${name}.`;
    } catch (err) {
      absent = err instanceof Problem && err.status !== 401 ? err.message : ''; // the banner shows others
    }
    store.changed();
  };
  store.focus = name; // keeps the job in the store after its end
  const node = el('div', {}, el('h2', { tabindex: -1 }, name), gone, waits, about.node, rest);
  const close = () => { store.focus = ''; output.close(); gpus.close(); };
  return { title: name, node, update, close, early: true };
}

// pick returns the task whose output is shown. It keeps the present one while
// it exists, and otherwise selects the one with the most interesting state.
function pick(j, before) {
  const order = ['FAILED', 'RUNNING', 'REFUSED', 'LOST', 'KILLED'];
  if (j.tasks.some((t) => t.id === before)) return before;
  const rank = (t) => (order.indexOf(t.state) + order.length + 1) % (order.length + 1);
  return j.tasks.reduce((best, t) => (rank(t) < rank(best) ? t : best), j.tasks[0])?.id;
}

function markChosen(node, j, id) {
  node.querySelectorAll('tbody tr').forEach((row, i) => attribute(row, 'aria-current', j.tasks[i]?.id === id));
}

function columnsOf(at, valuesOf) {
  return [
    { name: 'Task', text: (t) => String(t.index) },
    { name: 'Matrix', optional: true, class: 'wide', text: (t) => pairs(valuesOf(t)) },
    { name: 'State', text: stateText, state: (t) => t.state },
    { name: 'For', text: (t) => since(t.changed) },
    { name: 'Attempt', text: attempts },
    { name: 'Agent', text: (t) => t.hostname ?? '' },
    { name: 'GPUs', class: 'wide ids', text: devices },
    { name: 'Message', class: 'wide', text: (t) => t.message ?? '' },
    { name: 'Output', text: () => 'show', href: at },
  ];
}

function stateText(t) {
  const health = t.healthy === false ? ', unhealthy' : '';
  return t.state + health + (t.kill_reason ? ` (${t.kill_reason})` : '');
}

// attempts formats the number of the attempt: "3: 1 failed, 1 lost".
function attempts(t) {
  const before = [t.failures && `${t.failures} failed`, t.losses && `${t.losses} lost`].filter(Boolean).join(', ');
  return `${t.attempt ?? 1}${before && `: ${before}`}`;
}

function devices(t) {
  const types = Object.entries(t.gpu_types ?? {}).map(([type, n]) => `${n} × ${type || 'GPU'}`);
  const parts = (t.parts ?? []).map((p) => `${size(p.mem_mib)}${p.cores ? ` and ${p.cores} %` : ''} of a ${p.type || 'GPU'}`);
  return [...types, ...parts, ...(t.device_ids ?? [])].join('\n');
}

function factsOf(j) {
  const { spec } = j;
  return [
    ['State', stateOf(j), stateOf(j)],
    ['Exit code', j.exit_code],
    ['Submitted', `${new Date(j.submitted).toLocaleString([], { dateStyle: 'short', timeStyle: 'short' })}, ${since(j.submitted)} ago`],
    ['Role', spec.role || '*'],
    ['Priority', spec.priority ?? 0],
    ['Kind', [spec.service && 'service', spec.gang && 'gang', spec.preemptible && 'preemptible'].filter(Boolean).join(', ')],
    ['Each task wants', `${wishOf(spec)}, ${plural(spec.cpus, 'CPU')}, ${size(spec.mem_mib)}`],
    ['Topology', spec.request.topology && spec.request.topology !== 'any' ? spec.request.topology : ''],
    ['Image', spec.image],
    ['Command', (spec.command ?? []).map(quoted).join(' ')],
  ];
}

// quoted quotes a word for a shell, if necessary.
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

// pairs formats matrix values by name, as on the command line: "lr=0.1 seed=2".
function pairs(values = {}) {
  return Object.keys(values).sort().map((name) => `${name}=${values[name]}`).join(' ');
}
