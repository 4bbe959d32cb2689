// What the GPUs of all running tasks do now, for lists and the map. It is polled while it is shown.
import { fetchJSON } from './api.js';

const pollInterval = 15 * 1000; // milliseconds
const maxLiveJobs = 2000; // with more live jobs the answer would be too large to be polled

// createUsageSnapshot creates a snapshot. update requests it when it is due; onChange is called
// after an answer.
export function createUsageSnapshot(onChange) {
  const controller = new AbortController();
  let requested = 0;
  let runs = new Map(); // duty and memory of the GPUs of each job's run
  let devices = new Map(); // duty by UUID
  const request = async () => {
    requested = Date.now();
    try {
      const { tasks } = await fetchJSON('v1/usage', controller.signal);
      runs = sumByRun(tasks);
      devices = new Map(tasks.filter(({ note }) => !note).flatMap((task) => task.devices.map(({ uuid, duty }) => [uuid, duty])));
      onChange();
    } catch {
      // The old values stay until the next answer.
    }
  };
  // Only the leader has the usage.
  const update = (store) => {
    if (store.loads === 0 || store.health?.role === 'standby' || document.hidden || store.jobs.size > maxLiveJobs) return;
    if (Date.now() - requested > pollInterval) request();
  };
  return { update, ofJob: (job) => runs.get(runOf(job.tasks[0]?.id ?? '')), dutyOf: (uuid) => devices.get(uuid), close: () => controller.abort() };
}

// runOf returns what the ids of a run's tasks, JOB.INDEX.ATTEMPT.UNIQUE, have in common.
function runOf(id) {
  const [unique, , , ...name] = id.split('.').reverse();
  return `${name.reverse().join('.')} ${unique}`;
}

// sumByRun returns the mean duty and the used fraction of the memory of each run's measured GPUs.
function sumByRun(tasks) {
  const sums = new Map();
  for (const { task, note, devices } of tasks) {
    if (note) continue; // its values are old
    const run = runOf(task);
    if (!sums.has(run)) sums.set(run, { gpus: 0, duty: 0, used: 0, all: 0 });
    const sum = sums.get(run);
    for (const { duty, mem_used_mib: used, mem_mib: all } of devices) {
      if (duty === undefined) continue;
      sum.gpus++;
      sum.duty += duty;
      sum.used += used ?? 0;
      sum.all += all ?? 0;
    }
  }
  const known = [...sums].filter(([, { gpus }]) => gpus > 0);
  return new Map(known.map(([run, { gpus, duty, used, all }]) => [run, { duty: duty / gpus, memory: all ? used / all : undefined }]));
}
