// What the GPUs of all running tasks do now, for lists and the map. It is polled while it is shown.
import { fetchJSON } from './api.js';

const pollInterval = 15 * 1000; // milliseconds
const maxLiveJobs = 2000; // with more live jobs the answer would be too large to be polled

// createUsageSnapshot creates a snapshot. update requests it when it is due; onChange is called
// after an answer.
export function createUsageSnapshot(onChange) {
  const controller = new AbortController();
  let requested = 0;
  let jobs = new Map(); // duty and memory of the GPUs of each job
  let devices = new Map(); // duty by UUID
  const request = async () => {
    requested = Date.now();
    try {
      const { tasks } = await fetchJSON('v1/usage', controller.signal);
      jobs = sumByJob(tasks);
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
  return { update, ofJob: (name) => jobs.get(name), dutyOf: (uuid) => devices.get(uuid), close: () => controller.abort() };
}

// sumByJob returns the mean duty and the used fraction of the memory of each job's measured GPUs.
function sumByJob(tasks) {
  const sums = new Map();
  for (const { job, note, devices } of tasks) {
    if (note) continue; // its values are old
    if (!sums.has(job)) sums.set(job, { gpus: 0, duty: 0, used: 0, all: 0 });
    const sum = sums.get(job);
    for (const { duty, mem_used_mib: used, mem_mib: all } of devices) {
      if (duty === undefined) continue;
      sum.gpus++;
      sum.duty += duty;
      sum.used += used ?? 0;
      sum.all += all ?? 0;
    }
  }
  const known = [...sums].filter(([, { gpus }]) => gpus > 0);
  return new Map(known.map(([job, { gpus, duty, used, all }]) => [job, { duty: duty / gpus, memory: all ? used / all : undefined }]));
}
