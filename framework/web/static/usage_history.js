// The duty and memory of a job's GPUs over its whole run, as the scheduler has recorded them.
import { createElement, formatPercent, formatSize, formatNumber, setText } from './dom.js';
import { fetchJSON, encodePath } from './api.js';
import { createTimeChart } from './chart.js';
import { referenceOf } from './reference.js';

const pollInterval = 60 * 1000; // milliseconds

// createUsageHistory creates a section that is hidden for jobs without GPUs or records.
export function createUsageHistory() {
  const duty = createTimeChart({ label: 'Duty of the GPUs', format: formatPercent });
  const memory = createTimeChart({ label: 'Memory of the GPUs', format: (mib) => formatSize(Math.round(mib)) });
  const summary = createElement('p', { class: 'note' });
  const node = createElement('section', { class: 'card', hidden: true }, createElement('h3', {}, 'GPUs over the whole run'), summary, createElement('div', { class: 'columns' }, duty.node, memory.node));
  const controller = new AbortController();
  let requested = 0;
  const request = async (job) => {
    requested = Date.now();
    try {
      draw(await fetchJSON(`v1/jobs/${encodePath(referenceOf(job))}/usage`, controller.signal));
    } catch {
      // There are no records: the section stays as it is.
    }
  };
  const draw = ({ times: seconds, duty: duties, duty_max: highest, mem_used_mib: used, mem_mib: total, gpu_hours: hours }) => {
    node.hidden = seconds.length === 0;
    if (node.hidden) return;
    const times = seconds.map((time) => 1000 * time);
    const range = { times, start: times[0], end: Math.max(times.at(-1), times[0] + 60000) };
    duty.update({ ...range, maximum: 1, series: [{ name: 'mean duty', class: 'area used', values: duties, stacked: true }, { name: 'busiest GPU', class: 'wanted', values: highest }] });
    memory.update({ ...range, maximum: total || undefined, series: [{ name: 'mean memory', class: 'area used', values: used, stacked: true }] });
    setText(summary, `${formatNumber(Math.round(100 * hours) / 100)} GPU hours`);
  };
  const update = (job, role) => {
    if (!job.spec.request.gpus || role === undefined || role === 'standby' || document.hidden) return;
    if (Date.now() - requested > (job.terminal && requested ? 10 * pollInterval : pollInterval)) request(job);
  };
  return { node, update, close: () => controller.abort() };
}
