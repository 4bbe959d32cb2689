// Creates and updates elements. Data becomes text nodes and attributes, never
// markup.

// createElement creates an element. Properties are attributes, except "on", which has
// listeners by event; null and false omit an attribute.
export function createElement(tag, attributes = {}, ...children) {
  return fillNode(document.createElement(tag), attributes, children);
}

const svgNS = 'http://www.w3.org/2000/svg';

// createSVG is createElement for SVG elements.
export function createSVG(tag, attributes = {}, ...children) {
  return fillNode(document.createElementNS(svgNS, tag), attributes, children);
}

function fillNode(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else {
      setAttribute(node, name, value);
    }
  }
  node.append(...children);
  return node;
}

// setAttribute sets an attribute if its value differs.
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
    return;
  }
  const text = value === true ? '' : String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

// setText sets a node's text if it differs, so that a selection in it is kept.
export function setText(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

const childrenByKey = new WeakMap(); // by parent: its children by key

// syncChildren makes parent's children match the items, in order. It calls
// createChild(item) for a new key and updateChild(child, item) for all keys. It does
// not move children that are in place, so that they keep focus and scroll position.
export function syncChildren(parent, items, keyOf, createChild, updateChild) {
  const previous = childrenByKey.get(parent) ?? new Map();
  const itemsByKey = new Map();
  for (const item of items) itemsByKey.set(keyOf(item), item);
  for (const [key, child] of previous) {
    if (!itemsByKey.has(key)) child.remove();
  }
  const current = new Map();
  let next = parent.firstChild;
  for (const [key, item] of itemsByKey) {
    const child = previous.get(key) ?? createChild(item);
    updateChild(child, item);
    if (child === next) next = next.nextSibling;
    else parent.insertBefore(child, next);
    current.set(key, child);
  }
  childrenByKey.set(parent, current);
}

// createTable creates a table that keeps its rows by key, a function of the item. A
// column has a name and text(item), and optionally href(item), state(item), which sets
// the color, and draw(cell, item), which draws the whole cell. An optional column is
// hidden while all of its texts are empty. The text for an empty table is shown only
// once the items are known. On narrow screens each row is a list of its columns; ARIA
// roles keep the table structure for screen readers.
export function createTable({ caption, columns, key, empty }) {
  const head = createElement('tr', { role: 'row' }, ...columns.map((column) => createElement('th', { scope: 'col', role: 'columnheader', class: column.number && 'number' }, column.name)));
  const body = createElement('tbody', { role: 'rowgroup' });
  const emptyNote = createElement('p', { class: 'note', hidden: true }, empty);
  const node = createElement('div', { class: 'table' },
    createElement('table', { role: 'table' }, createElement('caption', {}, caption), createElement('thead', { role: 'rowgroup' }, head), body), emptyNote);
  const createRow = () => createElement('tr', { role: 'row' }, ...columns.map((column) => createElement('td', { role: 'cell', 'data-label': column.name, class: [column.number && 'number', column.class].filter(Boolean).join(' ') || null })));
  const update = (items, known = true) => {
    emptyNote.hidden = items.length > 0 || !known;
    body.parentNode.hidden = items.length === 0;
    const listCells = (i) => [head, ...body.children].map((row) => row.children[i]);
    syncChildren(body, items, key, createRow, (row, item) => columns.forEach((column, i) => drawCell(row.children[i], column, item)));
    columns.forEach((column, i) => { if (column.optional) for (const cell of listCells(i)) cell.hidden = !items.some((item) => column.text(item)); });
  };
  return { node, update };
}

const longText = 48; // characters; longer texts may break anywhere

function drawCell(cell, column, item) {
  if (column.draw) {
    column.draw(cell, item);
    return;
  }
  let target = cell;
  if (column.href) {
    target = cell.firstChild ?? cell.appendChild(createElement('a'));
    setAttribute(target, 'href', column.href(item));
  }
  const value = column.text(item);
  setText(target, value);
  setAttribute(cell, 'data-long', value.length > longText);
  if (column.state) setAttribute(cell, 'data-state', column.state(item));
}

// createFacts creates a list of names and values that keeps its entries.
export function createFacts() {
  const node = createElement('dl', { class: 'facts' });
  const update = (pairs) => syncChildren(node, pairs.filter(([, value]) => value !== '' && value !== undefined && value !== null), ([name]) => name,
    ([name]) => createElement('div', {}, createElement('dt', {}, name), createElement('dd')),
    (entry, [name, value, state]) => {
      setAttribute(entry, 'class', name === 'Command' && 'command');
      setText(entry.lastChild, String(value));
      setAttribute(entry.lastChild, 'data-state', state);
    });
  return { node, update };
}

// createFilter creates a labelled input that calls onInput with its text, in lower case.
export function createFilter(label, onInput) {
  return createElement('label', { class: 'filter' }, label, ' ', createElement('input', { type: 'search', autocomplete: 'off', spellcheck: 'false', on: { input: (e) => onInput(e.target.value.trim().toLowerCase()) } }));
}

// formatCount formats a count: "1 GPU", "2 GPUs".
export function formatCount(count, noun) {
  return `${formatNumber(count)} ${noun}${count === 1 ? '' : 's'}`;
}

const numberFormat = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });

// formatNumber formats 8000 as 8,000.
export function formatNumber(number) {
  return numberFormat.format(number);
}

// formatSize formats MiB in a suitable unit.
export function formatSize(mib) {
  return mib >= 1024 ? `${formatNumber(Math.round(mib / 102.4) / 10)} GiB` : `${formatNumber(mib)} MiB`;
}

// formatDuration formats seconds in one or two units: "45 s", "3 min", "2 h 5 min", "4 d 3 h".
export function formatDuration(seconds) {
  const total = Math.max(0, Math.round(seconds));
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} min`;
  if (total < 86400) return `${Math.floor(total / 3600)} h ${Math.floor((total % 3600) / 60)} min`;
  return `${Math.floor(total / 86400)} d ${Math.floor((total % 86400) / 3600)} h`;
}

// formatElapsed formats the time from one API time to another, or to now; '' if unset.
export function formatElapsed(from, until) {
  if (!from) return '';
  return formatDuration(((until ? Date.parse(until) : Date.now()) - Date.parse(from)) / 1000);
}
