// References to jobs and runs: NAME@RUN is a run of any owner; NAME is what the scheduler finds for the user.

// formatReference returns NAME@RUN, or NAME if the run is not known.
export function formatReference(name, run) {
  return run ? `${name}@${run}` : name;
}

// referenceOf returns the reference to the run that a job is.
export function referenceOf(job) {
  return formatReference(job.spec.name, job.run);
}

// parseRun splits NAME@RUN; the run is 0 for the newest one.
export function parseRun(name) {
  const [, job, run] = /^(.*)@(\d+)$/.exec(name) ?? [null, name, 0];
  return { job, run: Number(run) };
}
