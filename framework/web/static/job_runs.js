// The runs of a job: each submission of its name.
import { createElement, formatTime, setAttribute } from './dom.js';
import { createTable } from './table.js';
import { currentTasks, jobState } from './cluster.js';
import { formatRunTime } from './job_times.js';
import { fetchJSON, encodePath } from './api.js';
import { formatReference, referenceOf } from './reference.js';

const shownRuns = 50;

// runNumber returns the number of a job's run.
export function runNumber(job) {
  return job.run || 1;
}

// createRuns creates a section with the runs of a job, hidden if there is only one.
export function createRuns(name) {
  const list = createTable({
    caption: 'Runs', empty: 'No run.', key: runNumber,
    columns: [
      { name: 'Run', phone: 'title', text: (job) => String(runNumber(job)), href: (job) => `#/jobs/${encodePath(formatReference(name, runNumber(job)))}` },
      { name: 'State', phone: 'state', text: jobState, state: jobState },
      { name: 'Submitted', text: (job) => formatTime(job.submitted) },
      { name: 'By', optional: true, text: (job) => job.spec.owner ?? '' },
      { name: 'Tasks', number: true, text: (job) => String(currentTasks(job).length) },
      { name: 'Run time', number: true, text: formatRunTime },
      { name: 'Exit code', number: true, text: (job) => String(job.exit_code ?? '') },
    ],
  });
  const node = createElement('section', { class: 'card', hidden: true }, list.node);
  let requested = ''; // the newest run and the state it had at the last request
  const update = async (newest, shown) => {
    const state = `${runNumber(newest)} ${newest.state}`;
    if (runNumber(newest) === 1 || state === requested) return;
    requested = state;
    try {
      const { jobs } = await fetchJSON(`v1/jobs/${encodePath(referenceOf(newest))}/runs?order=newest&limit=${shownRuns}`);
      list.update(jobs);
      list.node.querySelectorAll('tbody tr').forEach((row, i) => setAttribute(row, 'aria-current', runNumber(jobs[i]) === shown));
      node.hidden = jobs.length < 2;
    } catch {
      requested = ''; // the next change of the job repeats the request
    }
  };
  return { node, update };
}
