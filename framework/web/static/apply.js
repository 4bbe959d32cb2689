// Gives a service another specification: its job file, and what would change.
import { createButton, createElement, createLink, setText } from './dom.js';
import { createDiff } from './line_diff.js';
import { createValidation } from './validation.js';
import { fetchResponse, sendJobFile, encodePath } from './api.js';
import { canChange } from './permissions.js';
import { parseRun } from './reference.js';

export function renderApply(store, name) {
  const path = `v1/jobs/${encodePath(name)}`;
  const { job: jobName, run } = parseRun(name);
  const file = createElement('textarea', { name: 'file', rows: 24, spellcheck: 'false', autocomplete: 'off', 'aria-describedby': 'validation' });
  const apply = createElement('button', { class: 'primary', disabled: true }, 'Apply');
  const diff = createDiff('Changes');
  const note = createElement('p', { class: 'note' });
  const controller = new AbortController();
  let current = ''; // the job file of the service
  let tag = ''; // its ETag: the change is rejected if another user has changed the service since
  let valid = ''; // the job file that the scheduler has accepted
  let requestedLoad = -1; // value of store.loads at the last request
  const validation = createValidation({
    path: `${path}/validate`, hint: 'Edit the job file.', readFile: () => file.value,
    onValid: (text, checked) => {
      const differs = diff.update(current, checked.file);
      valid = text;
      apply.disabled = !differs;
      if (!differs) validation.show('', 'Nothing would change.');
    },
  });
  const load = async () => {
    try {
      const response = await fetchResponse(`${path}/file`, controller.signal);
      current = await response.text();
      tag = response.headers.get('ETag');
      file.value = current;
      diff.update(current, current);
      validation.show('', 'Edit the job file.');
    } catch (err) {
      if (!controller.signal.aborted) validation.show('bad', err.message);
    }
  };
  const send = async (event) => {
    event.preventDefault();
    if (apply.disabled) return;
    apply.disabled = true;
    try {
      await sendJobFile('PUT', path, valid, { headers: { 'If-Match': tag } });
      await store.fetchJob(name);
      location.hash = `#/jobs/${encodePath(name)}`;
    } catch (err) {
      validation.show('bad', err.message);
    }
  };
  file.addEventListener('input', () => {
    apply.disabled = true;
    validation.onInput();
  });
  const form = createElement('form', { class: 'submit', on: { submit: send } }, createElement('label', { class: 'field file' }, createElement('span', {}, 'Job file'), file),
    createElement('div', { class: 'buttons' }, apply, createButton('Load again', load), createLink(`#/jobs/${encodePath(name)}`, 'Cancel', { class: 'button' })));
  const body = createElement('div', { class: 'columns' }, createElement('section', { class: 'card' }, form), createElement('section', { class: 'card result' }, createElement('h3', {}, 'Changes'), ...validation.nodes, diff.node));
  const update = () => {
    const job = store.jobs.find(jobName, run);
    setText(note, describeObstacle(store, name, job));
    body.hidden = note.textContent !== '';
    if (requestedLoad === store.loads || store.loads === 0) return;
    requestedLoad = store.loads;
    if (!job) store.fetchJob(name).catch(() => {}); // the banner shows why
    if (current === '') load();
  };
  store.openJob = () => store.jobs.find(jobName, run);
  const node = createElement('div', {}, createElement('h2', { tabindex: -1 }, `Apply ${name}`),
    createElement('p', { class: 'note' }, 'Tasks that differ are replaced step by step, while the others run. A new number of tasks alone replaces none.'), note, body);
  return { title: `Apply ${name}`, node, update, close: () => { store.openJob = () => undefined; controller.abort(); validation.close(); } };
}

// describeObstacle returns why the user cannot change the service, '' if the user can.
function describeObstacle(store, name, job) {
  if (!job) return `There is no job ${name}.`;
  if (!store.canAct) return 'Services are changed on the leading scheduler.';
  if (!job.spec.service || job.terminal) return `${name} is no service that runs.`;
  return canChange(store.identity, job.spec) ? '' : `You may not change ${name}: this needs the permission operate on its role.`;
}
