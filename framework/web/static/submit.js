// Submits a job or a schedule: a form, or a job file in YAML. The scheduler validates it
// while it is typed.
import { createElement, createButton, createFacts, formatCount, formatSize, setAttribute, setText } from './dom.js';
import { createField } from './dialog.js';
import { formatRequest } from './cluster.js';
import { sendJobFile, encodePath } from './api.js';
import { hasPermissionOnAnyRole } from './permissions.js';
import { writeJobFile } from './job_file.js';
import { readParameter } from './url_state.js';

const validationDelay = 400; // milliseconds after the last input

export function renderSubmit(store) {
  const form = createForm(readParameter('schedule') === 'true');
  const file = createElement('textarea', { rows: 22, spellcheck: 'false', autocomplete: 'off', 'aria-describedby': 'validation' });
  const fileField = createElement('label', { class: 'field file', hidden: true }, createElement('span', {}, 'Job file'), file);
  const preview = createElement('pre', { class: 'preview', tabindex: 0, role: 'region', 'aria-label': 'Job file of this form' });
  const result = createElement('p', { id: 'validation', role: 'status' });
  const warnings = createElement('ul', { class: 'warnings' });
  const facts = createFacts();
  const note = createElement('p', { class: 'note' });
  const submit = createElement('button', { class: 'primary', disabled: true }, 'Submit');
  let editsFile = false;
  let validated = ''; // the job file that the scheduler has accepted
  let isSchedule = false; // whether it is a schedule
  let timer = 0;
  let controller = new AbortController();
  const readFile = () => (editsFile ? file.value : writeJobFile(readForm(form)));
  const onInput = () => {
    clearTimeout(timer);
    controller.abort();
    setText(preview, readFile());
    preview.hidden = editsFile || !preview.textContent.trim();
    submit.disabled = true;
    timer = setTimeout(validate, validationDelay);
  };
  const validate = async () => {
    const text = readFile();
    controller = new AbortController();
    const { signal } = controller;
    if (!text.trim() || (!editsFile && !form.elements.name.value)) return show('', 'Enter a name and a command.');
    try {
      const { spec, warnings: list } = await sendJobFile('v1/validate', text, signal);
      validated = text;
      isSchedule = Boolean(spec.schedule);
      submit.disabled = false;
      show('good', isSchedule ? 'The schedule is valid.' : 'The job is valid.', list, spec);
    } catch (err) {
      if (!signal.aborted) show('bad', err.message);
    }
    return undefined;
  };
  const show = (state, text, list = [], spec = null) => {
    setAttribute(result, 'data-result', state);
    setText(result, text);
    warnings.replaceChildren(...list.map((warning) => createElement('li', {}, warning)));
    facts.update(spec ? describeSpec(spec) : []);
  };
  const send = async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    submit.disabled = true;
    try {
      const answer = await sendJobFile(isSchedule ? 'v1/schedules' : 'v1/jobs', validated);
      location.hash = isSchedule ? '#/schedules' : `#/jobs/${encodePath(answer.spec.name)}`;
    } catch (err) {
      show('bad', err.message);
    }
  };
  const switchTo = (toFile) => {
    if (toFile && !editsFile) file.value = readFile();
    editsFile = toFile;
    fileField.hidden = !toFile;
    form.fields.hidden = toFile;
    preview.hidden = toFile || !preview.textContent.trim();
    for (const element of form.elements) element.disabled = toFile && form.fields.contains(element); // hidden fields are not checked
    onInput();
  };
  const tabs = createElement('div', { class: 'chips', role: 'group', 'aria-label': 'Input' }, ...[['Form', false], ['YAML', true]].map(([label, toFile]) => createElement('label', { class: 'chip' },
    createElement('input', { type: 'radio', name: 'input', checked: !toFile, on: { change: () => switchTo(toFile) } }), ' ', label)));
  form.append(createElement('div', { class: 'buttons' }, submit, createButton('Clear', () => { form.reset(); file.value = ''; onInput(); })));
  form.prepend(fileField);
  form.addEventListener('input', onInput);
  form.addEventListener('submit', send);
  const body = createElement('div', { class: 'columns' }, createElement('section', { class: 'card' }, tabs, form), createElement('section', { class: 'card' }, createElement('h3', {}, 'Result'), result, warnings, facts.node, preview));
  const update = () => {
    const mayNot = !store.canAct ? 'Jobs are submitted to the leading scheduler.' : !hasPermissionOnAnyRole(store.identity, 'submit') ? 'You may not submit jobs: this needs the permission submit on a role.' : '';
    body.hidden = mayNot !== '';
    setText(note, mayNot);
  };
  preview.hidden = true;
  setText(result, 'Enter a name and a command.');
  return { title: 'Submit', node: createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Submit a job'), note, body), update, close: () => { clearTimeout(timer); controller.abort(); } };
}

// createForm creates the fields of a job. form.fields contains them.
function createForm(withSchedule) {
  const text = { autocomplete: 'off', spellcheck: 'false' };
  const area = (name, label, hint, rows = 3) => createElement('label', { class: 'field wide' }, createElement('span', {}, label), createElement('textarea', { name, rows, spellcheck: 'false' }), createElement('small', {}, hint));
  const fields = createElement('div', { class: 'fields' },
    createField({ name: 'name', label: 'Name', wide: true, maxlength: 63, ...text }),
    createField({ name: 'image', label: 'Image', wide: true, placeholder: 'pytorch/pytorch', hint: 'Empty: the agent\'s own files', ...text }),
    area('command', 'Command', 'A shell runs it.', 4),
    createField({ name: 'gpus', label: 'GPUs of each task', type: 'number', min: 0, value: 1 }),
    createField({ name: 'gpu_type', label: 'GPU type', placeholder: 'any', ...text }),
    createField({ name: 'tasks', label: 'Tasks', type: 'number', min: 1, value: 1 }),
    createField({ name: 'cpus', label: 'CPUs', type: 'number', min: 0, step: 'any' }),
    createField({ name: 'mem', label: 'Memory', placeholder: '8GiB', ...text }),
    createField({ name: 'timeout', label: 'Timeout', placeholder: '2h', ...text }),
    createField({ name: 'role', label: 'Role', ...text }),
    createField({ name: 'priority', label: 'Priority', type: 'number' }),
    createField({ name: 'gang', label: 'Start all tasks together (gang)', type: 'checkbox' }),
    createField({ name: 'preemptible', label: 'May be preempted', type: 'checkbox' }),
    area('env', 'Environment', 'NAME=VALUE, one a line'),
    area('labels', 'Labels', 'NAME=VALUE, one a line', 2),
    createElement('fieldset', {}, createElement('legend', {}, 'Schedule'),
      createField({ name: 'cron', label: 'Cron', placeholder: withSchedule ? '0 3 * * *' : 'empty: submit now', ...text }), createField({ name: 'time_zone', label: 'Time zone', placeholder: 'UTC', ...text })));
  const form = createElement('form', { class: 'submit' }, fields);
  form.fields = fields;
  return form;
}

function readForm(form) {
  const fields = Object.fromEntries(new FormData(form));
  for (const name of ['gang', 'preemptible']) fields[name] = form.elements[name].checked;
  return fields;
}

function describeSpec(spec) {
  return [
    ['Role', spec.role || '*'], ['Tasks', spec.tasks], ['Each task', `${formatRequest(spec)}, ${formatCount(spec.cpus, 'CPU')}, ${formatSize(spec.mem_mib)}`],
    ['Image', spec.image], ['Schedule', spec.schedule && `${spec.schedule.cron} ${spec.schedule.time_zone ?? 'UTC'}`],
  ];
}
