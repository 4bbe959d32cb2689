// Jobs by name, in a Map. Of the jobs of a name of several owners it has the one that has not ended, or else the newest.

// storeJob stores a job, unless another owner's one has the name, or a newer run is known: answers may arrive late.
export function storeJob(jobs, job) {
  const known = jobs.get(job.spec.name);
  const isOther = known && known.spec.owner !== job.spec.owner;
  const isOlder = known && known.run > job.run;
  if (isOther ? job.terminal && (!known.terminal || isOlder) : isOlder) return;
  jobs.set(job.spec.name, job);
}

// storeLiveJobs stores all live jobs and returns the stored ones that are no longer live.
export function storeLiveJobs(jobs, live) {
  const names = new Set(live.map((job) => job.spec.name));
  const ended = [...jobs.values()].filter((job) => !job.terminal && !names.has(job.spec.name));
  for (const job of live) jobs.set(job.spec.name, job);
  return ended;
}
