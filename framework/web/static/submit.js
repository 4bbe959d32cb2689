// Submits a job or a schedule: a form, or a job file in YAML. The scheduler validates it
// while it is typed.
import { createElement, createButton, setText } from './dom.js';
import { createField } from './dialog.js';
import { createValidation } from './validation.js';
import { sendJobFile, encodePath } from './api.js';
import { hasPermissionOnAnyRole } from './permissions.js';
import { writeJobFile } from './job_file.js';
import { readParameter } from './url_state.js';

export function renderSubmit(store) {
  const form = createForm(readParameter('schedule') === 'true');
  const file = createElement('textarea', { rows: 22, spellcheck: 'false', autocomplete: 'off', 'aria-describedby': 'validation' });
  const fileField = createElement('label', { class: 'field file', hidden: true }, createElement('span', {}, 'Job file'), file);
  const preview = createElement('pre', { class: 'preview', tabindex: 0, role: 'region', 'aria-label': 'Job file of this form' });
  const note = createElement('p', { class: 'note' });
  const submit = createElement('button', { class: 'primary', disabled: true }, 'Submit');
  let editsFile = false;
  let validated = ''; // the job file that the scheduler has accepted
  let isSchedule = false; // whether it is a schedule
  const readFile = () => (editsFile ? file.value : writeJobFile(readForm(form)));
  const validation = createValidation({
    path: 'v1/validate', estimate: 'v1/validate?when=true', hint: 'Enter a name and a command.', readFile: () => (editsFile || form.elements.name.value ? readFile() : ''),
    onValid: (text, { spec }) => {
      validated = text;
      isSchedule = Boolean(spec.schedule);
      submit.disabled = false;
    },
  });
  const onInput = () => {
    setText(preview, readFile());
    preview.hidden = editsFile || !preview.textContent.trim();
    submit.disabled = true;
    validation.onInput();
  };
  const send = async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    submit.disabled = true;
    try {
      const answer = await sendJobFile('POST', isSchedule ? 'v1/schedules' : 'v1/jobs', validated);
      location.hash = isSchedule ? '#/schedules' : `#/jobs/${encodePath(answer.spec.name)}`;
    } catch (err) {
      validation.show('bad', err.message);
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
  const body = createElement('div', { class: 'columns' }, createElement('section', { class: 'card' }, tabs, form), createElement('section', { class: 'card result' }, createElement('h3', {}, 'Result'), ...validation.nodes, preview));
  const update = () => {
    const mayNot = !store.canAct ? 'Jobs are submitted to the leading scheduler.' : !hasPermissionOnAnyRole(store.identity, 'submit') ? 'You may not submit jobs: this needs the permission submit on a role.' : '';
    body.hidden = mayNot !== '';
    setText(note, mayNot);
  };
  preview.hidden = true;
  return { title: 'Submit', node: createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Submit a job'), note, body), update, close: validation.close };
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
    createElement('div', { class: 'checks' }, createField({ name: 'gang', label: 'Start all tasks together (gang)', type: 'checkbox' }),
      createField({ name: 'preemptible', label: 'May be preempted', type: 'checkbox' })),
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
