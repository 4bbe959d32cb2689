// Asks for confirmation before a change is requested, and shows why it was rejected.
import { createElement, createButton, createCopyButton, setText } from './dom.js';

// openDialog shows a form in a modal dialog. fields are inputs with a label; run receives
// their values by name and sends the request. The dialog closes once it has succeeded, and
// otherwise shows the error. command is what does the same on the command line.
export function openDialog({ title, text = '', fields = [], confirmLabel, danger = false, command = '', run }) {
  const error = createElement('p', { class: 'error', role: 'alert' });
  const confirm = createElement('button', { class: danger ? 'danger' : 'primary' }, confirmLabel);
  const form = createElement('form', { method: 'dialog' },
    createElement('h2', { id: 'dialog-title' }, title), text && createElement('p', {}, text),
    ...fields.map(createField), error,
    createElement('div', { class: 'buttons' }, createButton('Cancel', () => dialog.close()), confirm),
    command && createElement('div', { class: 'command-hint' }, createElement('span', { class: 'note' }, 'On the command line: '), createElement('code', {}, command), createCopyButton(() => command)));
  const dialog = createElement('dialog', { 'aria-labelledby': 'dialog-title', on: { close: () => dialog.remove() } }, form);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    setText(error, '');
    try {
      await run(Object.fromEntries(new FormData(form)));
      dialog.close();
    } catch (err) {
      setText(error, err.message);
    }
    confirm.disabled = false;
  });
  document.body.append(dialog);
  dialog.showModal();
}

// createField creates an input with its label. A field has a name, a label and the
// attributes of an input; a checkbox has its label behind it, and a wide one takes a row.
export function createField({ label, hint, wide = false, ...attributes }) {
  const input = createElement('input', attributes);
  if (attributes.type === 'checkbox') return createElement('label', { class: 'check' }, input, ' ', label);
  return createElement('label', { class: wide ? 'field wide' : 'field' }, createElement('span', {}, label), input, hint && createElement('small', {}, hint));
}
