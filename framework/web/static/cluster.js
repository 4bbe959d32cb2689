// What follows from the jobs and the lists of agents and GPUs: which GPU is
// free, used, shared or kept back, and the counts. It changes nothing.

const placed = new Set(['LAUNCHING', 'STAGING', 'STARTING', 'RUNNING', 'UNREACHABLE', 'KILLING']);

// isPlaced: the task holds its GPUs.
export function isPlaced(task) {
  return placed.has(task.state);
}

// isLive: the job may still run.
export function isLive(job) {
  return !job.terminal;
}

// stateOf is a job's state: the API's, until an event has told of a newer one.
export function stateOf(job) {
  return job.tasks.length === 1 ? job.tasks[0].state : job.state;
}

// words say what a cell's state means.
export const words = {
  free: 'free',
  used: 'used',
  shared: 'shared',
  other: 'used by another framework',
  sick: 'sick',
  cordoned: 'cordoned',
  withheld: 'not offered: sick or cordoned',
};

// keptBack counts the GPUs that their agents do not offer.
export function keptBack(count) {
  return count.sick + count.cordoned + count.withheld;
}

// tasksOf counts a job's tasks by what they do: "2 RUNNING, 1 WAITING".
export function tasksOf(job) {
  const count = new Map();
  for (const t of job.tasks) count.set(t.state, (count.get(t.state) ?? 0) + 1);
  return [...count].map(([state, n]) => `${n} ${state}`).join(', ');
}

// typesOf reads "A100 or H100", "any type" where all will do.
export function typesOf(request) {
  const { include = [], exclude = [] } = request.types ?? {};
  const wish = include.length ? include.join(' or ') : 'any type';
  return exclude.length ? `${wish} but ${exclude.join(', ')}` : wish;
}

// wishOf reads what one task asks for: "2 × A100", "30 % of V100".
export function wishOf({ request }) {
  if (!request.gpus) return 'no GPU';
  const part = request.share?.cores ? `${request.share.cores} % of ` : request.share ? 'part of ' : '';
  return `${request.gpus} × ${part}${typesOf(request)}`;
}

// milliOf is what a task counts for, in thousandths of GPUs.
function milliOf(task) {
  let milli = 1000 * Object.values(task.gpu_types ?? {}).reduce((a, b) => a + b, 0);
  for (const p of task.parts ?? []) milli += p.milli ?? 0;
  return milli;
}

// holdings are the live tasks by the devices that they hold, and the GPUs held
// without a name by agent.
function holdings(jobs) {
  const byDevice = new Map();
  const byAgent = new Map();
  for (const job of jobs.values()) {
    for (const task of job.tasks) {
      if (!isPlaced(task)) continue;
      for (const id of task.device_ids ?? []) {
        if (!byDevice.has(id)) byDevice.set(id, []);
        byDevice.get(id).push(task);
      }
      const unnamed = milliOf(task) / 1000 - (task.device_ids?.length ?? 0);
      if (unnamed > 0 && !task.parts) byAgent.set(task.agent_id, (byAgent.get(task.agent_id) ?? 0) + unnamed);
    }
  }
  return { byDevice, byAgent };
}

// cellOf is one GPU as the map shows it. The list of GPUs is older than the
// jobs: of the tasks of known jobs the jobs are believed, of others the list.
function cellOf(gpu, tasks, jobs) {
  const cell = { uuid: gpu.uuid, type: gpu.type, model: gpu.model, mem: gpu.mem_mib, named: gpu.state !== undefined, tasks, state: 'free', part: 0, note: '' };
  if (gpu.state === 'withheld') {
    const told = gpu.reason === 'sick' || gpu.reason === 'cordoned';
    cell.state = told ? gpu.reason : 'withheld';
    if (told) cell.note = gpu.note ?? '';
  } else if (gpu.shared) {
    cell.state = 'shared';
    cell.part = partOf(gpu, tasks);
  } else if (tasks.length > 0) {
    cell.state = 'used';
  } else if (gpu.state === 'held' && !jobs.has(jobOf(gpu.task ?? ''))) {
    cell.state = gpu.task ? 'used' : 'other';
  }
  return cell;
}

// jobOf is the part JOB of a task's id, JOB.INDEX.ATTEMPT.UNIQUE.
function jobOf(id) {
  return id.split('.').slice(0, -3).join('.');
}

const others = new WeakMap(); // by GPU as listed: what tasks that we do not know had of it

// partOf is how much of a shared device is taken: the larger of memory and
// cores.
function partOf(gpu, tasks) {
  const { shared } = gpu;
  const ours = partsOf(gpu.uuid, tasks);
  if (!others.has(gpu)) {
    const had = (all, free, own) => Math.max(0, all - free - own);
    others.set(gpu, { mem: had(shared.mem_mib, shared.mem_free_mib, ours.mem), cores: had(shared.cores, shared.cores_free, ours.cores) });
  }
  const { mem, cores } = others.get(gpu);
  return Math.min(1, Math.max((ours.mem + mem) / shared.mem_mib, (ours.cores + cores) / shared.cores));
}

function partsOf(uuid, tasks) {
  const sum = { mem: 0, cores: 0 };
  for (const p of tasks.flatMap((t) => t.parts ?? [])) {
    if (p.uuid !== uuid) continue;
    sum.mem += p.mem_mib;
    sum.cores += p.cores ?? 0;
  }
  return sum;
}

// markUnnamed colours so many of the GPUs that an agent hands out by count as
// are held.
function markUnnamed(cells, agent, ours) {
  const unnamed = cells.filter((c) => !c.named);
  const taken = Math.max(ours, agent.gpus - agent.gpus_free);
  unnamed.slice(0, taken).forEach((c, i) => { c.state = i < ours ? 'used' : 'other'; });
}

// noteOf says why an agent takes no tasks, '' if it does.
export function noteOf(agent) {
  if (agent.draining) return 'draining';
  return agent.cordoned ? `cordoned: ${agent.cordoned}` : '';
}

// isIdle: nobody has anything of it.
function isIdle(cell) {
  return cell.state === 'free' || (cell.state === 'shared' && cell.part === 0);
}

// survey is all agents with their cells, and the counts.
export function survey(store) {
  const { byDevice, byAgent } = holdings(store.jobs);
  const cellsBy = new Map();
  for (const gpu of store.loads > 0 ? store.gpus : []) {
    if (!cellsBy.has(gpu.agent)) cellsBy.set(gpu.agent, []);
    cellsBy.get(gpu.agent).push(cellOf(gpu, byDevice.get(gpu.uuid) ?? [], store.jobs));
  }
  const total = emptyCount();
  const types = new Map();
  const agents = store.agents.map((agent) => {
    const cells = cellsBy.get(agent.id) ?? [];
    if (cells.some((c) => !c.named)) markUnnamed(cells, agent, byAgent.get(agent.id) ?? 0);
    if (noteOf(agent)) cells.filter(isIdle).forEach((c) => { c.state = 'cordoned'; c.note = agent.draining ? 'its agent is draining' : `its agent is ${noteOf(agent)}`; });
    const count = emptyCount();
    for (const c of cells) {
      const type = c.type || 'GPU';
      if (!types.has(type)) types.set(type, emptyCount());
      for (const n of [count, total, types.get(type)]) add(n, c);
    }
    return { ...agent, cells, count };
  });
  return { agents, total, types, ...demand(store.jobs) };
}

function emptyCount() {
  return { all: 0, free: 0, used: 0, shared: 0, other: 0, sick: 0, cordoned: 0, withheld: 0 };
}

function add(count, cell) {
  count.all++;
  count[cell.state]++;
}

// demand counts tasks and the GPUs that waiting ones want.
function demand(jobs) {
  const d = { live: 0, running: 0, waiting: 0, wanted: 0 };
  for (const job of jobs.values()) {
    if (isLive(job)) d.live++;
    for (const task of job.tasks) {
      if (task.state === 'RUNNING') d.running++;
      if (task.state !== 'WAITING') continue;
      d.waiting++;
      d.wanted += job.spec.request.gpus;
    }
  }
  return d;
}

// heldByRole is what each role's tasks hold of each type, in GPUs, for a
// scheduler that does not tell.
export function heldByRole(jobs) {
  const roles = new Map();
  for (const job of jobs.values()) {
    const name = job.spec.role || '*';
    if (!roles.has(name)) roles.set(name, { name, quota: {}, held: {}, waiting: 0 });
    const role = roles.get(name);
    for (const task of job.tasks) {
      if (task.state === 'WAITING') role.waiting++;
      if (isPlaced(task)) hold(role.held, task);
    }
  }
  return [...roles.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function hold(held, task) {
  const add = (type, n) => {
    held[type] = (held[type] ?? 0) + n;
    held['*'] = (held['*'] ?? 0) + n;
  };
  for (const [type, n] of Object.entries(task.gpu_types ?? {})) add(type || 'unknown', n);
  for (const p of task.parts ?? []) add(p.type || 'unknown', (p.milli ?? 0) / 1000);
}
