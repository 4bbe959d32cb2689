// Validates a job file by the scheduler while it is typed.
import { createElement, createFacts, formatCount, formatSize, setAttribute, setText } from './dom.js';
import { formatRequest } from './cluster.js';
import { sendJobFile } from './api.js';
import { describeStart } from './start_estimate.js';

const validationDelay = 400; // milliseconds after the last input
const estimateDelay = 1500; // milliseconds after the validation; an estimate takes time with a long queue

// createValidation creates the result of the validation by a path of the API. readFile returns the
// job file, '' if there is nothing to validate; onValid receives it and the answer once it is valid.
// estimate is the path that also estimates when the job would start, '' for none.
export function createValidation({ path, estimate = '', hint, readFile, onValid }) {
  const result = createElement('p', { id: 'validation', role: 'status' }, hint);
  const warnings = createElement('ul', { class: 'warnings' });
  const facts = createFacts();
  let timer = 0;
  let controller = new AbortController();
  const show = (state, text, checked = {}) => {
    setAttribute(result, 'data-result', state);
    setText(result, text);
    warnings.replaceChildren(...(checked.warnings ?? []).map((warning) => createElement('li', {}, warning)));
    facts.update(checked.spec ? describeSpec(checked) : []);
  };
  const close = () => {
    clearTimeout(timer);
    controller.abort();
  };
  const onInput = () => {
    close();
    timer = setTimeout(validate, validationDelay);
  };
  const validate = async () => {
    const file = readFile();
    controller = new AbortController();
    const { signal } = controller;
    if (!file.trim()) {
      show('', hint);
      return;
    }
    try {
      const checked = await sendJobFile('POST', path, file, { signal });
      show('good', checked.spec.schedule ? 'The schedule is valid.' : 'The job is valid.', checked);
      onValid(file, checked);
      if (estimate && !checked.spec.schedule) timer = setTimeout(() => estimateStart(file, signal), estimateDelay);
    } catch (err) {
      if (!signal.aborted) show('bad', err.message);
    }
  };
  const estimateStart = async (file, signal) => {
    const checked = await sendJobFile('POST', estimate, file, { signal }).catch(() => null); // it is no condition of a submission
    if (checked && !signal.aborted) facts.update(describeSpec(checked));
  };
  return { nodes: [result, warnings, facts.node], onInput, show, close };
}

function describeSpec({ spec, start, warnings }) {
  return [
    ['Would start', describeStart(start, warnings)],
    ['Role', spec.role || '*'], ['Tasks', spec.tasks], ['Each task', `${formatRequest(spec)}, ${formatCount(spec.cpus, 'CPU')}, ${formatSize(spec.mem_mib)}`],
    ['Image', spec.image], ['Schedule', spec.schedule && `${spec.schedule.cron} ${spec.schedule.time_zone ?? 'UTC'}`],
  ];
}
