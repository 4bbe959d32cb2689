// When jobs started and ended.
import { formatDuration } from './dom.js';

// jobTimes returns when the first task of a job started and when the last one ended, in
// milliseconds; null if none did.
export function jobTimes(job) {
  const times = job.tasks.map((task) => Date.parse(task.started)).filter((time) => time > 0);
  const ended = job.terminal ? Math.max(...job.tasks.map((task) => Date.parse(task.ended ?? task.changed))) : null;
  return { started: times.length ? Math.min(...times) : null, ended };
}

// runSeconds returns how long a job has run, in seconds; null if it has not started.
export function runSeconds(job) {
  const { started, ended } = jobTimes(job);
  return started === null ? null : ((ended ?? Date.now()) - started) / 1000;
}

// formatRunTime formats how long a job has run, '' if it has not started.
export function formatRunTime(job) {
  const seconds = runSeconds(job);
  return seconds === null ? '' : formatDuration(seconds);
}
