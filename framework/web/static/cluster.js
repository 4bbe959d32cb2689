// Derives the state of each GPU and the counts from the jobs and the lists of
// agents and GPUs. It changes none of them.

const placed = new Set(['LAUNCHING', 'STAGING', 'STARTING', 'RUNNING', 'UNREACHABLE', 'KILLING']);

// isPlaced reports whether the task holds its GPUs.
export function isPlaced(task) {
  return placed.has(task.state);
}

// isLive reports whether the job has not ended.
export function isLive(job) {
  return !job.terminal;
}

// stateRanks orders states as the scheduler does: the ends, the worst one last, then the
// live states, the most active one last.
const stateRanks = ['FINISHED', 'KILLED', 'LOST', 'REFUSED', 'FAILED', 'WAITING', 'LAUNCHING', 'STAGING', 'STARTING', 'KILLING', 'UNREACHABLE', 'RUNNING'];

// currentTasks returns a job's tasks without those by which a service was scaled down.
export function currentTasks(job) {
  return job.tasks.filter(({ state, kill_reason: reason }) => reason !== 'scale' || stateRanks.indexOf(state) >= stateRanks.indexOf('WAITING'));
}

// jobState returns a job's state, with later events: that of its highest-ranked task.
export function jobState(job) {
  const ranks = currentTasks(job).map(({ state }) => stateRanks.indexOf(state));
  return ranks.length ? stateRanks[ranks.reduce((a, b) => Math.max(a, b))] : job.state;
}

// stateLabels are the labels of cell states.
export const stateLabels = {
  free: 'free',
  used: 'used',
  shared: 'shared',
  other: 'used by another framework',
  sick: 'sick',
  cordoned: 'cordoned',
  withheld: 'not offered: sick or cordoned',
};

// countWithheld counts the GPUs that their agents do not offer.
export function countWithheld(count) {
  return count.sick + count.cordoned + count.withheld;
}

// countTasks counts a job's current tasks by state, the most active state first.
export function countTasks(job) {
  const count = new Map();
  for (const state of stateRanks.toReversed()) {
    const number = currentTasks(job).filter((task) => task.state === state).length;
    if (number) count.set(state, number);
  }
  return count;
}

// formatTypes formats the accepted types: "A100 or H100", or "any type".
export function formatTypes(request) {
  const { include = [], exclude = [] } = request.types ?? {};
  const accepted = include.length ? include.join(' or ') : 'any type';
  return exclude.length ? `${accepted} but ${exclude.join(', ')}` : accepted;
}

// formatRequest formats the request of one task: "2 × A100", "30 % of V100".
export function formatRequest({ request }) {
  if (!request.gpus) return 'no GPU';
  const fraction = request.share?.cores ? `${request.share.cores} % of ` : request.share ? 'part of ' : '';
  return `${request.gpus} × ${fraction}${formatTypes(request)}`;
}

// milliGPUs returns the GPUs that a task holds, in thousandths.
function milliGPUs(task) {
  let milli = 1000 * Object.values(task.gpu_types ?? {}).reduce((sum, count) => sum + count, 0);
  for (const share of task.shares ?? []) milli += share.milli ?? 0;
  return milli;
}

// indexTasks returns the placed tasks by device and by agent.
function indexTasks(jobs) {
  const byDevice = new Map();
  const byAgent = new Map();
  const add = (index, key, task) => {
    const tasks = index.get(key);
    if (tasks) tasks.push(task);
    else index.set(key, [task]);
  };
  for (const job of jobs.values()) {
    for (const task of job.tasks) {
      if (!isPlaced(task)) continue;
      add(byAgent, task.agent_id, task);
      for (const id of task.device_ids ?? []) add(byDevice, id, task);
    }
  }
  return { byDevice, byAgent };
}

// countUnnamed returns how many GPUs without a device id the tasks hold.
function countUnnamed(tasks) {
  let unnamed = 0;
  for (const task of tasks) if (!task.shares) unnamed += Math.max(0, milliGPUs(task) / 1000 - (task.device_ids?.length ?? 0));
  return unnamed;
}

// describeCell returns the cell of a GPU. The list of GPUs is older than the jobs:
// for tasks of known jobs the jobs are used, for other tasks the list.
function describeCell(gpu, tasks, jobs) {
  const cell = { uuid: gpu.uuid, type: gpu.type, model: gpu.model, mem: gpu.mem_mib, named: gpu.state !== undefined, tasks, roles: tasks.map((task) => jobs.find(task.job, task.run)?.spec.role || '*'), state: 'free', fraction: 0, note: '' };
  if (gpu.state === 'withheld') {
    const hasReason = gpu.reason === 'sick' || gpu.reason === 'cordoned';
    cell.state = hasReason ? gpu.reason : 'withheld';
    if (hasReason) cell.note = gpu.note ?? '';
  } else if (gpu.shared) {
    cell.state = 'shared';
    cell.fraction = sharedFraction(gpu, tasks);
  } else if (tasks.length > 0) {
    cell.state = 'used';
  } else if (gpu.state === 'held' && !jobs.find(jobName(gpu.task ?? ''))) {
    cell.state = gpu.task ? 'used' : 'other';
  }
  return cell;
}

// jobName returns the part JOB of a task id, JOB.INDEX.ATTEMPT.UNIQUE.
function jobName(id) {
  return id.split('.').slice(0, -3).join('.');
}

const unknownUse = new WeakMap(); // by listed GPU: what tasks of unknown jobs held when it was listed

// sharedFraction returns the allocated fraction of a shared device, 0 to 1: the larger
// one of memory and cores.
function sharedFraction(gpu, tasks) {
  const { shared } = gpu;
  const own = sumShares(gpu.uuid, tasks);
  if (!unknownUse.has(gpu)) {
    const subtract = (all, free, held) => Math.max(0, all - free - held);
    unknownUse.set(gpu, { mem: subtract(shared.mem_mib, shared.mem_free_mib, own.mem), cores: subtract(shared.cores, shared.cores_free, own.cores) });
  }
  const { mem, cores } = unknownUse.get(gpu);
  return Math.min(1, Math.max((own.mem + mem) / shared.mem_mib, (own.cores + cores) / shared.cores));
}

function sumShares(uuid, tasks) {
  const sum = { mem: 0, cores: 0 };
  for (const share of tasks.flatMap((task) => task.shares ?? [])) {
    if (share.uuid !== uuid) continue;
    sum.mem += share.mem_mib;
    sum.cores += share.cores ?? 0;
  }
  return sum;
}

// markUnnamed marks as many cells as GPUs are held, on an agent that offers
// GPUs by count.
function markUnnamed(cells, agent, own) {
  const unnamed = cells.filter((cell) => !cell.named);
  const heldCount = Math.max(own, agent.gpus - agent.gpus_free);
  unnamed.slice(0, heldCount).forEach((cell, i) => { cell.state = i < own ? 'used' : 'other'; });
}

// describeStrays returns which tasks an agent may run that no job owns, '' for none.
export function describeStrays(agent) {
  const [first, ...others] = agent.strays ?? [];
  if (!first) return '';
  const more = others.length > 0 ? `, and ${others.length} more` : '';
  return `no job owns task ${first.task}, which ${first.runs ? 'is being ended' : 'may run'}${more}`;
}

// agentNote returns why an agent takes no tasks, '' if it does.
export function agentNote(agent) {
  if (agent.draining) return 'draining';
  return agent.cordoned ? `cordoned: ${agent.cordoned}` : '';
}

// isIdle reports whether no task holds any part of the GPU.
function isIdle(cell) {
  return cell.state === 'free' || (cell.state === 'shared' && cell.fraction === 0);
}

// summarizeCluster returns all agents with their cells, and the counts.
export function summarizeCluster(store) {
  const { byDevice, byAgent } = indexTasks(store.jobs);
  const gpusByAgent = groupByAgent(store.loads > 0 ? store.gpus : []);
  const total = newCount();
  const types = new Map();
  const agents = store.agents.map((agent) => {
    const summary = summarizeAgent(agent, gpusByAgent.get(agent.id) ?? none, byAgent.get(agent.id) ?? none, byDevice, store.jobs);
    addCount(total, summary.count);
    for (const [type, count] of summary.countByType) {
      if (!types.has(type)) types.set(type, newCount());
      addCount(types.get(type), count);
    }
    return summary;
  });
  return { agents, total, types, ...countDemand(store.jobs) };
}

const none = [];
const knownGroups = new WeakMap(); // by list of GPUs: the GPUs by agent

function groupByAgent(gpus) {
  const known = knownGroups.get(gpus);
  if (known) return known;
  const groups = new Map();
  for (const gpu of gpus) groups.set(gpu.agent, [...(groups.get(gpu.agent) ?? none), gpu]);
  knownGroups.set(gpus, groups);
  return groups;
}

const knownAgents = new WeakMap(); // by listed agent: its last summary, and what that depends on

// summarizeAgent returns an agent with its cells and counts: the last summary if neither its GPUs
// nor its tasks have changed, because most agents of a large cluster do not change.
function summarizeAgent(agent, gpus, tasks, byDevice, jobs) {
  const known = knownAgents.get(agent);
  if (known && known.gpus === gpus && sameElements(known.tasks, tasks)) return known.summary;
  const cells = gpus.map((gpu) => describeCell(gpu, byDevice.get(gpu.uuid) ?? none, jobs));
  if (cells.some((cell) => !cell.named)) markUnnamed(cells, agent, countUnnamed(tasks));
  if (agentNote(agent)) cells.filter(isIdle).forEach((cell) => { cell.state = 'cordoned'; cell.note = agent.draining ? 'its agent is draining' : `its agent is ${agentNote(agent)}`; });
  const count = newCount();
  const countByType = new Map();
  for (const cell of cells) {
    const type = cell.type || 'GPU';
    if (!countByType.has(type)) countByType.set(type, newCount());
    addCell(count, cell);
    addCell(countByType.get(type), cell);
  }
  const summary = { ...agent, cells, count, countByType };
  const dependsOnJobs = gpus.some((gpu) => gpu.state === 'held' && gpu.task && !byDevice.has(gpu.uuid));
  if (!dependsOnJobs) knownAgents.set(agent, { gpus, tasks, summary });
  return summary;
}

function sameElements(a, b) {
  return a.length === b.length && a.every((one, i) => one === b[i]);
}

const countedStates = Object.keys(newCount());

function addCount(sum, count) {
  for (const state of countedStates) sum[state] += count[state];
}

function newCount() {
  return { all: 0, free: 0, used: 0, shared: 0, other: 0, sick: 0, cordoned: 0, withheld: 0 };
}

function addCell(count, cell) {
  count.all++;
  count[cell.state]++;
}

// countDemand counts live jobs, tasks by state, and the GPUs that waiting tasks request.
function countDemand(jobs) {
  const demand = { live: 0, running: 0, waiting: 0, gpus: 0 };
  for (const job of jobs.values()) {
    if (isLive(job)) demand.live++;
    for (const task of job.tasks) {
      if (task.state === 'RUNNING') demand.running++;
      if (task.state !== 'WAITING') continue;
      demand.waiting++;
      demand.gpus += job.spec.request.gpus;
    }
  }
  return demand;
}

// countHeldByRole returns the GPUs that each role's tasks hold, by type. It replaces
// the list of roles of a scheduler that does not provide one.
export function countHeldByRole(jobs) {
  const roles = new Map();
  for (const job of jobs.values()) {
    const name = job.spec.role || '*';
    if (!roles.has(name)) roles.set(name, { name, quota: {}, held: {}, waiting: 0 });
    const role = roles.get(name);
    for (const task of job.tasks) {
      if (task.state === 'WAITING') role.waiting++;
      if (isPlaced(task)) addHeld(role.held, task);
    }
  }
  return [...roles.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

// countHolders returns the GPUs that the jobs of each role and owner hold, by type, and wait
// for, the largest holder first.
export function countHolders(jobs) {
  const holders = new Map();
  for (const { spec, tasks, terminal } of jobs.values()) {
    if (terminal) continue;
    const role = spec.role || '*';
    const key = `${role} ${spec.owner ?? ''}`;
    if (!holders.has(key)) holders.set(key, { role, owner: spec.owner ?? '', gpus: 0, waiting: 0, held: {} });
    const holder = holders.get(key);
    for (const task of tasks) {
      if (isPlaced(task)) addHeld(holder.held, task);
      if (task.state === 'WAITING') holder.waiting += spec.request.gpus;
    }
  }
  for (const holder of holders.values()) holder.gpus = holder.held['*'] ?? 0;
  return [...holders.values()].sort((a, b) => b.gpus - a.gpus);
}

function addHeld(held, task) {
  const add = (type, count) => {
    held[type] = (held[type] ?? 0) + count;
    held['*'] = (held['*'] ?? 0) + count;
  };
  for (const [type, count] of Object.entries(task.gpu_types ?? {})) add(type || 'unknown', count);
  for (const share of task.shares ?? []) add(share.type || 'unknown', (share.milli ?? 0) / 1000);
}
