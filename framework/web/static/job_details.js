// The properties of a job: a summary, and everything else of its specification.
import { createElement, createFacts, createLink, formatCount, formatDuration, formatElapsed, formatSize, formatTime, syncChildren } from './dom.js';
import { formatRequest } from './cluster.js';
import { formatRunTime, jobTimes } from './job_times.js';
import { describeStart } from './start_estimate.js';
import { encodePath } from './api.js';

// jobFacts returns the most important properties, as createFacts takes them.
export function jobFacts(job) {
  const { spec } = job;
  const { started } = jobTimes(job);
  return [
    ['Exit code', job.exit_code],
    ['Held', job.hold ? [job.hold.by && `by ${job.hold.by}`, job.hold.reason].filter(Boolean).join(': ') || 'yes' : ''],
    ['Submitted', `${formatTime(job.submitted)}, ${formatElapsed(job.submitted)} ago`],
    ['Waited', started === null ? '' : formatDuration((started - Date.parse(job.submitted)) / 1000)],
    ['Run time', formatRunTime(job)],
    ['Probably starts', job.terminal ? '' : describeStart(job.start, job.warnings)],
    ['Owner', spec.owner ? createLink(`#/jobs?owner=${encodePath(spec.owner)}`, spec.owner) : ''],
    ['Role', spec.role || '*'],
    ['Priority', spec.priority ?? 0],
    ['Run', job.run > 1 ? job.run : ''],
    ['Kind', [spec.service && 'service', spec.gang && 'gang', spec.preemptible && 'preemptible'].filter(Boolean).join(', ')],
    ['Each task wants', `${formatRequest(spec)}, ${formatCount(spec.cpus, 'CPU')}, ${formatSize(spec.mem_mib)}`],
    ['Topology', spec.request.topology && spec.request.topology !== 'any' ? spec.request.topology : ''],
    ['Image', spec.image],
    ['Command', (spec.command ?? []).map(quoteWord).join(' ')],
  ];
}

// createSpecification creates a section that can be opened, with the rest of the specification.
export function createSpecification() {
  const env = createPairs('Environment');
  const labels = createPairs('Labels');
  const facts = createFacts();
  const node = createElement('details', { class: 'card' }, createElement('summary', {}, 'Environment, labels, ports and limits'), facts.node, labels.node, env.node);
  const update = ({ spec }) => {
    facts.update(specificationFacts(spec));
    labels.update(spec.labels ?? {});
    env.update({ ...spec.env, ...Object.fromEntries(Object.entries(spec.secrets ?? {}).map(([name, key]) => [name, `secret ${key}`])) });
  };
  return { node, update };
}

function specificationFacts(spec) {
  const list = (values, format) => (values ?? []).map(format).join(', ');
  const seconds = (nanoseconds) => (nanoseconds ? formatDuration(nanoseconds / 1e9) : '');
  return [
    ['Ports', list(spec.ports, (port) => [port.name, port.container].filter(Boolean).join(' ') || 'any')],
    ['Network', spec.network],
    ['Volumes', list(spec.volumes, (volume) => `${volume.source}:${volume.target}${volume.read_only ? ' (read-only)' : ''}`)],
    ['Health check', describeCheck(spec.health_check)],
    ['User', spec.user],
    ['Retries', spec.retries],
    ['Timeout', seconds(spec.timeout)],
    ['Grace period', seconds(spec.kill_grace)],
    ['After', list(spec.after, (one) => one.job)],
    ['Parallel tasks', spec.max_parallel],
  ];
}

function describeCheck(check) {
  if (!check) return '';
  if (check.http) return `HTTP ${check.http.path ?? '/'}`;
  return check.tcp ? 'TCP' : 'command';
}

// createPairs creates a titled list of names and values, hidden while it is empty.
function createPairs(title) {
  const list = createElement('dl', { class: 'pairs' });
  const node = createElement('div', {}, createElement('h4', {}, title), list);
  const update = (values) => {
    const names = Object.keys(values).sort();
    node.hidden = names.length === 0;
    syncChildren(list, names, String, (name) => createElement('div', {}, createElement('dt', {}, name), createElement('dd')), (entry, name) => { entry.lastChild.textContent = values[name]; });
  };
  return { node, update };
}

// quoteWord quotes a word for a shell, if necessary.
function quoteWord(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
