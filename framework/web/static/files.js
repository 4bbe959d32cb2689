// The files of a task: its sandbox, until Mesos removes it, and the artifacts that the scheduler
// has copied from it.
import { createButton, createElement, createCard, formatBytes, formatTime, setAttribute, setText, syncChildren } from './dom.js';
import { createTable } from './table.js';
import { fetchJSON, fetchResponse, encodePath, readStart } from './api.js';
import { saveFile } from './download.js';
import { formatReference } from './reference.js';

const previewBytes = 64 << 10; // how much of a file is shown

// createFiles creates a section that requests the files when it is opened. show switches to the
// sandbox of another task of the job.
export function createFiles() {
  const path = createElement('ol', { class: 'crumbs', 'aria-label': 'Folder' });
  const note = createElement('p', { class: 'note', 'aria-live': 'polite' });
  const list = createFileTable('Files in the sandbox', (file) => (file.folder ? open(join(folder, file.name)) : preview.open(join(folder, file.name))));
  const artifacts = createFileTable('Artifacts in the store of the scheduler', (file) => preview.open(file.path));
  const preview = createPreview(() => task);
  const artifactsNode = createElement('div', { hidden: true }, artifacts.node);
  const node = createElement('details', { class: 'card files', hidden: true, on: { toggle: () => { if (node.open) open('.'); } } }, createElement('summary', {}, 'Files'), path, note, list.node, artifactsNode, preview.node);
  let task = null; // the task whose files are shown
  let folder = '.';
  let controller = new AbortController();
  const open = async (next) => {
    controller.abort();
    controller = new AbortController();
    const { signal } = controller;
    folder = next;
    preview.close();
    drawPath(path, folder, open);
    if (list.node.contains(document.activeElement)) path.lastChild.firstChild.focus(); // the row is replaced
    requestArtifacts(signal);
    try {
      const { files } = await fetchJSON(`v1/tasks/${encodePath(task.id)}/files?${new URLSearchParams({ path: folder })}`, signal);
      list.update(files.sort((a, b) => Boolean(b.folder) - Boolean(a.folder) || (a.name < b.name ? -1 : 1)));
      setText(note, '');
    } catch (err) {
      if (signal.aborted) return;
      list.update([], false);
      setText(note, err.message);
    }
  };
  const requestArtifacts = async (signal) => {
    const answer = await fetchJSON(`v1/jobs/${encodePath(formatReference(task.job, task.run))}/artifacts`, signal).catch(() => ({ tasks: [] })); // a standby has none
    if (signal.aborted) return;
    const files = answer.tasks.find(({ index }) => index === task.index)?.files ?? [];
    artifactsNode.hidden = files.length === 0;
    artifacts.update(files.map((file) => ({ ...file, name: file.path })));
  };
  const show = (next) => {
    node.hidden = !next?.agent_id;
    if (next?.id === task?.id) return;
    task = next;
    if (node.open && !node.hidden) open('.');
  };
  return { node, show, close: () => controller.abort() };
}

function createFileTable(caption, onOpen) {
  return createTable({
    caption, empty: 'The folder is empty.', key: ({ name }) => name,
    columns: [
      { name: 'Name', phone: 'title', text: ({ name }) => name, draw: (cell, file) => drawName(cell, file, onOpen) },
      { name: 'Size', number: true, text: ({ folder, bytes }) => (folder ? '' : formatBytes(bytes)) },
      { name: 'Modified', optional: true, text: ({ modified }) => (modified ? formatTime(modified) : '') },
      { name: 'Mode', optional: true, phone: 'hide', text: ({ mode = '' }) => mode },
    ],
  });
}

// drawName draws a button that opens the file; sockets, pipes and devices cannot be read.
function drawName(cell, { name, folder, special }, onOpen) {
  const label = folder ? `${name}/` : name;
  if (special) {
    setText(cell, label);
    return;
  }
  syncChildren(cell, [label], String, () => createButton(label, () => onOpen({ name, path: name, folder }), { class: 'link' }), () => {});
}

// drawPath draws a button for each folder from the sandbox to the shown one.
function drawPath(list, folder, onOpen) {
  const parts = folder === '.' ? [] : folder.split('/');
  const folders = [{ path: '.', label: 'sandbox' }, ...parts.map((label, i) => ({ path: parts.slice(0, i + 1).join('/'), label }))];
  syncChildren(list, folders, ({ path }) => path, ({ path, label }) => createElement('li', {}, createButton(label, () => onOpen(path), { class: 'link' })),
    (item, { path }) => setAttribute(item.firstChild, 'aria-current', path === folder && 'true'));
}

function join(folder, name) {
  return folder === '.' ? name : `${folder}/${name}`;
}

// createPreview creates a region with the start of a file and a button that saves the file.
function createPreview(currentTask) {
  const title = createElement('h4');
  const note = createElement('p', { class: 'note', 'aria-live': 'polite' });
  const text = createElement('pre', { class: 'preview', tabindex: 0, role: 'region', 'aria-label': 'Start of the file' });
  const save = createButton('Download', () => saveFile(filePath(), shown.split('/').at(-1)).catch((err) => setText(note, `Not downloaded: ${err.message}`)), { class: 'small' });
  const node = createElement('div', { hidden: true }, createElement('div', { class: 'title' }, title, save), note, text);
  let shown = ''; // path of the file
  let controller = new AbortController();
  const filePath = () => `v1/tasks/${encodePath(currentTask().id)}/file?${new URLSearchParams({ path: shown })}`;
  const close = () => {
    controller.abort();
    node.hidden = true;
  };
  const open = async (path) => {
    controller.abort();
    controller = new AbortController();
    const { signal } = controller;
    shown = path;
    node.hidden = false;
    setText(title, path);
    setText(text, '');
    setText(note, 'Loading…');
    try {
      const { bytes, complete } = await readStart(await fetchResponse(filePath(), signal), previewBytes);
      const binary = bytes.includes(0);
      text.hidden = binary || bytes.length === 0;
      setText(text, binary ? '' : new TextDecoder().decode(bytes));
      setText(note, describePreview(bytes, complete, binary));
      save.focus();
    } catch (err) {
      if (!signal.aborted) setText(note, err.message);
    }
  };
  return { node, open, close };
}

function describePreview(bytes, complete, binary) {
  if (bytes.length === 0) return 'The file is empty.';
  if (binary) return 'The file is no text.';
  return complete ? '' : `The first ${formatBytes(bytes.length)}`;
}
