// The page of one job: its properties, what users can do with it, its tasks, their attempts
// over time, and the output of one task.
import { setAttribute, createElement, createFacts, createLink, drawBadge, formatNumber, formatElapsed, formatSize, setText, syncChildren } from './dom.js';
import { createTable } from './table.js';
import { currentTasks, isLive, jobState } from './cluster.js';
import { createLog } from './log.js';
import { renderJobUsage, createUsage } from './usage.js';
import { createUsageHistory } from './usage_history.js';
import { Problem, encodePath, fetchJSON } from './api.js';
import { listCombinations } from './matrix.js';
import { drawActions, listJobActions, listTaskActions } from './actions.js';
import { createSpecification, jobFacts } from './job_details.js';
import { createJobHistory } from './job_history.js';
import { createRuns, runNumber } from './job_runs.js';
import { parseRun } from './reference.js';
import { ownerOf } from './job_table.js';
import { createFiles } from './files.js';
import { attemptBar, createTimeline } from './timeline.js';

const maxRows = 500;

// renderJob renders a job by its name, or an earlier run of it by NAME@RUN.
export function renderJob(store, name, chosenTask) {
  const { job: jobName, run } = parseRun(name);
  const about = createFacts();
  const reasonNode = createElement('p', { class: 'reason' });
  const missingNote = createElement('p', { class: 'note' });
  const badge = createElement('span', { class: 'state' });
  const labels = createElement('ul', { class: 'chips', 'aria-label': 'Labels' });
  const buttons = createElement('div', { class: 'actions', hidden: true });
  const taskButtons = createElement('div', { class: 'actions', hidden: true });
  const output = createLog(taskButtons);
  const taskLink = (task) => `#/jobs/${encodePath(name)}/tasks/${encodePath(task.id)}`;
  let valuesOf = () => undefined;
  const tasks = createTable({ caption: 'Tasks', empty: 'No task.', key: (task) => task.index, columns: taskColumns(taskLink, (task) => valuesOf(task.index)) });
  const note = createElement('p', { class: 'note' });
  const usage = createUsage((task) => ({ name: `Task ${task.index} on ${task.hostname}` }));
  const history = createUsageHistory();
  const timeline = createTimeline('Attempts over time');
  const specification = createSpecification();
  const events = createJobHistory();
  const runs = createRuns(jobName);
  const files = createFiles();
  const details = createElement('div', {}, createElement('section', { class: 'card' }, tasks.node, note), timeline.node,
    createElement('div', { class: 'job-output' }, output.node, usage.node), history.node, runs.node, files.node, specification.node, events.node);
  let earlier; // the run NAME@RUN
  let owner; // of the shown job; undefined until the scheduler has said which job the name means
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
    drawActions(buttons, listJobActions(store, job, name));
    drawBadge(badge, jobState(job));
    drawLabels(labels, job.spec.labels ?? {});
    about.update(jobFacts(job));
    setText(reasonNode, (isLive(job) && job.waits) || '');
    const current = currentTasks(job);
    tasks.update(current.slice(0, maxRows));
    setText(note, current.length > maxRows ? `The first ${maxRows} of ${formatNumber(current.length)} tasks` : '');
    const id = chosenTask ?? pickTask(current, output.task);
    markChosen(tasks.node, current, id);
    const attempts = [...job.tasks, ...(job.attempts ?? [])];
    const shown = attempts.find((task) => task.id === id);
    files.show(shown);
    output.show(id, shown?.state ?? '', attempts.filter((task) => task.index === shown?.index).map((task) => ({ text: `attempt ${task.attempt ?? 1}`, href: taskLink(task), id: task.id })));
    drawActions(taskButtons, listTaskActions(store, job, shown));
    timeline.update(timelineRows(current, attempts));
    usage.update(renderJobUsage(job, id), store.health?.role);
    history.update(job, store.health?.role);
    specification.update(job);
    events.update(job);
  };
  const update = () => {
    const newest = findNewest();
    const job = run ? earlier : newest;
    if (job) show(job);
    if (job) runs.update(run ? newest ?? job : job, run || runNumber(job));
    details.hidden = !wasShown;
    buttons.hidden ||= !job;
    reasonNode.hidden = !reasonNode.textContent;
    setText(missingNote, job ? '' : wasShown ? 'The scheduler has removed this job.' : loadError || `Loading job ${name}.`);
    missingNote.hidden = !missingNote.textContent;
    if (requestedLoad === store.loads) return;
    requestedLoad = store.loads; // lists omit earlier attempts and jobs that have ended
    requestJob();
  };
  const findNewest = () => (owner === undefined ? store.jobs.find(jobName) : store.jobs.ofOwner(jobName, owner));
  // findSuccessor stores the newest run of the job of which a run is shown, and shows its page if that is the same.
  const findSuccessor = async (shown) => {
    const { jobs } = await fetchJSON(`v1/jobs/${encodePath(name)}/runs?order=newest&limit=1`);
    jobs.forEach((job) => store.jobs.store(job));
    if (jobs[0]?.run !== shown.run) return;
    const reference = store.jobs.referenceTo(findNewest());
    if (reference !== name) location.replace(`#/jobs/${encodePath(reference)}${chosenTask ? `/tasks/${encodePath(chosenTask)}` : ''}`);
  };
  const requestJob = async () => {
    try {
      const found = run ? await fetchJSON(`v1/jobs/${encodePath(name)}`) : await store.fetchJob(jobName);
      if (run) earlier = found;
      owner = found && ownerOf(found);
      if (!found) loadError = `There is no job ${jobName}.`;
      else if (run) await findSuccessor(found);
    } catch (err) {
      loadError = err instanceof Problem && err.status !== 401 ? err.message : ''; // the banner shows others
    }
    store.notifyListeners();
  };
  store.openJob = findNewest; // keeps the job in the store after its end
  const node = createElement('div', {}, createElement('div', { class: 'title' }, createElement('div', { class: 'heading' }, createElement('h2', { tabindex: -1 }, name), badge, labels, run > 0 && createLink(`#/jobs/${encodePath(jobName)}`, 'Newest run')), buttons), missingNote, reasonNode,
    createElement('section', { class: 'card', 'aria-label': 'Properties' }, about.node), details);
  const close = () => { store.openJob = () => undefined; output.close(); usage.close(); history.close(); files.close(); };
  return { title: name, node, update, close, showsBeforeLoad: true };
}

// drawLabels links each label to the jobs that have it.
function drawLabels(list, labels) {
  const pairs = Object.keys(labels).sort().map((name) => `${name}=${labels[name]}`);
  list.hidden = pairs.length === 0;
  syncChildren(list, pairs, String, (pair) => createElement('li', {}, createLink(`#/jobs?q=${encodePath(pair)}`, pair, { class: 'chip' })), () => {});
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
    { name: 'Task', phone: 'title', text: (task) => String(task.index), href: taskLink },
    { name: 'Matrix', optional: true, class: 'wide', text: (task) => formatPairs(valuesOf(task)) },
    { name: 'State', phone: 'state', text: formatTaskState, state: (task) => task.state },
    { name: 'For', number: true, text: (task) => formatElapsed(task.ended && task.started ? task.started : task.changed, task.ended) },
    { name: 'Attempt', number: true, text: formatAttempts },
    { name: 'Agent', draw: drawAgent },
    { name: 'GPUs', draw: drawDevices },
    { name: 'Ports', optional: true, text: (task) => (task.ports ?? []).join(), draw: drawPorts },
    { name: 'Message', class: 'wide', phone: 'wide', text: (task) => task.message ?? '' },
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

function drawAgent(cell, { agent_id: agent, hostname = '' }) {
  syncChildren(cell, agent ? [agent] : [], String, () => createLink(`#/agents/${encodePath(agent)}`, ''), (link) => setText(link, hostname));
  setAttribute(cell, 'data-empty', !agent);
}

// drawDevices shows types and shares, and the ids of the devices in the title.
function drawDevices(cell, task) {
  const types = Object.entries(task.gpu_types ?? {}).map(([type, count]) => `${count} × ${type || 'GPU'}`);
  const shares = (task.shares ?? []).map((share) => `${formatSize(share.mem_mib)}${share.cores ? ` and ${share.cores} %` : ''} of a ${share.type || 'GPU'}`);
  setText(cell, [...types, ...shares].join(', '));
  setAttribute(cell, 'title', task.device_ids?.join('\n') ?? null);
  setAttribute(cell, 'data-empty', !cell.textContent);
}

// drawPorts links to the ports of a running task.
function drawPorts(cell, { ports = [], hostname, addresses = [], state }) {
  syncChildren(cell, ports, String, (port) => createLink(`http://${addresses[0] ?? hostname}:${port}/`, String(port), { target: '_blank', rel: 'noreferrer' }), (link) => setAttribute(link, 'data-closed', state !== 'RUNNING'));
}

function timelineRows(tasks, attempts) {
  return tasks.map((task) => ({
    key: task.index, label: String(task.index),
    bars: attempts.filter(({ index }) => index === task.index).map((one) => attemptBar(one, `Attempt ${one.attempt ?? 1}${one.hostname ? ` on ${one.hostname}` : ''}`)).filter(Boolean).sort((a, b) => a.from - b.from),
  }));
}

// formatPairs formats matrix values by name, as on the command line: "lr=0.1 seed=2".
function formatPairs(values = {}) {
  return Object.keys(values).sort().map((name) => `${name}=${values[name]}`).join(' ');
}
