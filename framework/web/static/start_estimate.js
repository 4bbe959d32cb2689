// Estimated starts of waiting jobs, as the scheduler predicts them.
import { formatDuration, formatTime } from './dom.js';

// formatStart returns when a job probably starts, with the bounds of 90 %: "in 2 h (1 h 5 min to 5 h)";
// '' without an estimate.
export function formatStart(start) {
  return start ? `${formatUntil(start.expected)} (${formatRange(start.within_90)})` : '';
}

// describeStart returns the time of an estimate, with the agents and both bounds. warnings are why the job cannot start on
// the present agents.
export function describeStart(start, warnings = []) {
  if (!start) {
    return warnings.length ? 'not with the present agents' : '';
  }
  const hosts = start.agents ? `, on ${start.agents.join(', ')}` : '';
  return `${formatUntil(start.expected)}, at ${formatTime(start.expected)}${hosts}: 50 % after ${formatRange(start.within_50)}, 90 % after ${formatRange(start.within_90)}`;
}

function secondsUntil(time) {
  return Math.max(0, (Date.parse(time) - Date.now()) / 1000);
}

function formatUntil(time) {
  const seconds = secondsUntil(time);
  return seconds < 1 ? 'now' : `in ${formatDuration(seconds)}`;
}

function formatRange({ from, to }) {
  return `${formatDuration(secondsUntil(from))} to ${formatDuration(secondsUntil(to))}`;
}
