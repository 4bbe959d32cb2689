// All jobs: the live ones, and the newest ended ones.
import { createElement, createFilter, formatNumber, formatCount, formatElapsed, formatPercent, setAttribute, createButton, syncChildren, setText } from './dom.js';
import { createTable } from './table.js';
import { countTasks, currentTasks, isLive, jobState, formatRequest } from './cluster.js';
import { formatRunTime, runSeconds } from './job_times.js';
import { encodePath } from './api.js';
import { readParameter, writeParameter } from './url_state.js';
import { createUsageSnapshot } from './usage_snapshot.js';
import { ownerOf } from './job_table.js';

const maxRows = 300;

// groups are the choices of the state filter; the states are those of jobs.
const groups = {
  all: () => true,
  live: (job) => isLive(job),
  running: (job) => jobState(job) === 'RUNNING',
  waiting: (job) => isLive(job) && jobState(job) === 'WAITING',
  failed: (job) => ['FAILED', 'LOST', 'REFUSED'].includes(jobState(job)),
  finished: (job) => jobState(job) === 'FINISHED',
};

export function renderJobs(store) {
  const filters = { q: readParameter('q'), state: readParameter('state', 'all'), role: readParameter('role'), owner: readParameter('owner') };
  const usage = createUsageSnapshot(() => store.notifyListeners());
  const list = createTable({
    caption: 'Jobs', empty: 'No job.', key: (job) => `${ownerOf(job)}/${job.spec.name}`, sort: readParameter('sort', '-Submitted'), onSort: (order) => writeParameter('sort', order === '-Submitted' ? '' : order),
    columns: [
      { name: 'Job', phone: 'title', text: (job) => job.spec.name, href: (job) => `#/jobs/${encodePath(store.jobs.referenceTo(job))}`, sortBy: (job) => job.spec.name },
      { name: 'State', phone: 'state', text: jobState, state: jobState, sortBy: jobState },
      { name: 'Tasks', phone: 'hide', draw: drawProgress, sortBy: (job) => currentTasks(job).length, number: true },
      { name: 'Each wants', text: (job) => formatRequest(job.spec), sortBy: (job) => job.spec.request.gpus, number: false },
      { name: 'Duty', number: true, optional: true, phone: 'hide', text: (job) => formatDuty(usage.ofJob(job)), draw: (cell, job) => drawDuty(cell, usage.ofJob(job)), sortBy: (job) => usage.ofJob(job)?.duty ?? -1 },
      { name: 'Role', text: (job) => job.spec.role || '*', href: (job) => `#/jobs?role=${encodePath(job.spec.role || '*')}`, sortBy: (job) => job.spec.role || '*' },
      { name: 'Owner', optional: true, phone: 'hide', text: (job) => job.spec.owner ?? '', sortBy: (job) => job.spec.owner ?? '' },
      { name: 'Submitted', number: true, text: (job) => `${formatElapsed(job.submitted)} ago`, sortBy: (job) => Date.parse(job.submitted) },
      { name: 'Run time', number: true, phone: 'hide', text: formatRunTime, sortBy: (job) => runSeconds(job) ?? -1 },
      { name: 'Reason', class: 'wide', phone: 'wide', text: describeReason },
    ],
  });
  const note = createElement('p', { class: 'note', 'aria-live': 'polite' });
  let lastLoad = 0; // value of store.loads when the ended jobs were requested
  let endedLoaded = false;
  const setFilter = (name, value) => {
    filters[name] = value;
    writeParameter(name, name === 'state' && value === 'all' ? '' : value);
    update();
  };
  const chips = createElement('div', { class: 'chips', role: 'group', 'aria-label': 'States' });
  const chosen = createElement('div', { class: 'chips' });
  const update = () => {
    usage.update(store);
    if (store.loads !== lastLoad) {
      lastLoad = store.loads;
      store.fetchEndedJobs().then(() => { endedLoaded = true; store.notifyListeners(); }).catch((err) => setText(note, `Cannot load the ended jobs: ${err.message}`));
    }
    const candidates = [...store.jobs.values()].filter((job) => matchesFilters(job, filters));
    const matching = candidates.filter((job) => matchesState(job, filters.state)).sort((a, b) => Date.parse(b.submitted) - Date.parse(a.submitted));
    drawChips(chips, candidates, filters.state, (state) => setFilter('state', state));
    drawChosen(chosen, filters, setFilter);
    list.update(matching.slice(0, maxRows), endedLoaded || filters.state === 'live');
    setText(note, matching.length > maxRows ? `${maxRows} of ${formatNumber(matching.length)}: type to see fewer` : endedLoaded || matching.length ? formatCount(matching.length, 'job') : '');
  };
  const node = createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Jobs'),
    createElement('div', { class: 'tools' }, createFilter('Filter', (text) => setFilter('q', text), filters.q), chips, chosen, note), list.node);
  return { title: 'Jobs', node, update, close: usage.close };
}

// drawChips draws the states as exclusive filters with counts.
function drawChips(parent, jobs, state, onChoose) {
  const names = Object.keys(groups).includes(state) ? Object.keys(groups) : [...Object.keys(groups), state];
  syncChildren(parent, names, String, (name) => createButton('', () => onChoose(name), { class: 'chip' }), (chip, name) => {
    setAttribute(chip, 'aria-pressed', String(name === state));
    setText(chip, `${name} ${formatNumber(jobs.filter((job) => matchesState(job, name)).length)}`);
  });
}

// drawChosen draws the filters that links have set, each with a button that removes it.
function drawChosen(parent, filters, setFilter) {
  const names = ['role', 'owner'].filter((name) => filters[name]);
  syncChildren(parent, names, String, (name) => createButton('', () => setFilter(name, ''), { class: 'chip' }), (chip, name) => {
    setAttribute(chip, 'aria-label', `Remove the filter ${name} ${filters[name]}`);
    setText(chip, `${name}: ${filters[name]} ✕`);
  });
  parent.hidden = names.length === 0;
}

function matchesState(job, state) {
  return groups[state] ? groups[state](job) : state.split(',').includes(jobState(job));
}

function matchesFilters(job, { q, role, owner }) {
  const jobRole = job.spec.role || '*';
  if (role && jobRole !== role && !jobRole.startsWith(`${role}/`)) return false;
  if (owner && job.spec.owner !== owner) return false;
  const labels = Object.entries(job.spec.labels ?? {}).map(([name, value]) => `${name}=${value}`).join(' ');
  return !q || `${job.spec.name} ${jobState(job)} ${jobRole} ${job.spec.owner ?? ''} ${formatRequest(job.spec)} ${labels}`.toLowerCase().includes(q.toLowerCase());
}

// drawProgress draws the job's tasks by state: a bar and the number that ended well or run.
function drawProgress(cell, job) {
  if (!cell.firstChild) cell.append(createElement('span'), createElement('div', { class: 'stack', 'aria-hidden': 'true' }));
  const count = countTasks(job);
  const all = [...count.values()].reduce((sum, number) => sum + number, 0);
  setText(cell.firstChild, all === 1 ? '1' : [...count].map(([state, number]) => `${number} ${state.toLowerCase()}`).join(', '));
  cell.lastChild.hidden = all === 1;
  syncChildren(cell.lastChild, [...count], ([state]) => state, ([state]) => createElement('i', { 'data-state': state }), (part, [, number]) => part.style.setProperty('width', `${100 * number / all}%`));
}

function formatDuty(usage) {
  return usage ? formatPercent(usage.duty) : '';
}

// drawDuty draws the mean duty of the job's GPUs, with their memory in the title.
function drawDuty(cell, usage) {
  if (!cell.firstChild) cell.append(createElement('span'), createElement('div', { class: 'stack', 'aria-hidden': 'true' }, createElement('i', { class: 'used' })));
  setText(cell.firstChild, formatDuty(usage));
  setAttribute(cell, 'data-empty', !usage);
  setAttribute(cell, 'title', usage?.memory === undefined ? null : `${formatPercent(usage.memory)} of the GPUs' memory in use`);
  cell.lastChild.hidden = !usage;
  cell.lastChild.firstChild.style.setProperty('width', formatDuty(usage).replace(' ', ''));
}

function describeReason(job) {
  if (isLive(job)) return job.waits ?? '';
  return job.tasks.find((task) => task.state === jobState(job) && task.message)?.message ?? '';
}
