// Makes and changes elements. Text from elsewhere becomes text nodes and
// attributes, never markup.

// el makes an element. Properties are attributes, but for "on", which has
// listeners by event; null and false leave an attribute out.
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

const svgNS = 'http://www.w3.org/2000/svg';

// svg is el for drawings.
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(svgNS, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else {
      attribute(node, name, value);
    }
  }
  node.append(...children);
  return node;
}

// attribute sets one if it differs.
export function attribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
    return;
  }
  const text = value === true ? '' : String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

// text sets a node's text if it differs: a selection in it stays.
export function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}

const rows = new WeakMap(); // by parent: its children by key

// sync makes parent's children those of the items, in their order, and leaves
// those that stay in place: focus and scrolling too.
export function sync(parent, items, key, make, update) {
  const old = rows.get(parent) ?? new Map();
  const now = new Map();
  for (const item of items) now.set(key(item), item);
  for (const [k, child] of old) {
    if (!now.has(k)) child.remove();
  }
  const kept = new Map();
  let at = parent.firstChild;
  for (const [k, item] of now) {
    const child = old.get(k) ?? make(item);
    update(child, item);
    if (child === at) at = at.nextSibling;
    else parent.insertBefore(child, at);
    kept.set(k, child);
  }
  rows.set(parent, kept);
}

// table makes a table that keeps its rows by key. A column has a name and
// text(item), and may have href(item), state(item), which colours it, and
// draw(cell, item), which does it all; an optional one is hidden while it says
// nothing. Where not all is known yet, none is not said to be there. At phone width each row is a list of
// its columns; the roles keep it a table for those who hear it.
export function table({ caption, columns, key, empty }) {
  const head = el('tr', { role: 'row' }, ...columns.map((c) => el('th', { scope: 'col', role: 'columnheader', class: c.number && 'number' }, c.name)));
  const body = el('tbody', { role: 'rowgroup' });
  const none = el('p', { class: 'note', hidden: true }, empty);
  const node = el('div', { class: 'table' },
    el('table', { role: 'table' }, el('caption', {}, caption), el('thead', { role: 'rowgroup' }, head), body), none);
  const make = () => el('tr', { role: 'row' }, ...columns.map((c) => el('td', { role: 'cell', 'data-label': c.name, class: [c.number && 'number', c.class].filter(Boolean).join(' ') || null })));
  const update = (items, known = true) => {
    none.hidden = items.length > 0 || !known;
    body.parentNode.hidden = items.length === 0;
    const cells = (i) => [head, ...body.children].map((row) => row.children[i]);
    sync(body, items, key, make, (row, item) => columns.forEach((c, i) => drawCell(row.children[i], c, item)));
    columns.forEach((c, i) => { if (c.optional) for (const cell of cells(i)) cell.hidden = !items.some((item) => c.text(item)); });
  };
  return { node, update };
}

const long = 48; // characters from which on a text may break anywhere

function drawCell(cell, column, item) {
  if (column.draw) {
    column.draw(cell, item);
    return;
  }
  let target = cell;
  if (column.href) {
    target = cell.firstChild ?? cell.appendChild(el('a'));
    attribute(target, 'href', column.href(item));
  }
  const value = column.text(item);
  text(target, value);
  attribute(cell, 'data-long', value.length > long);
  if (column.state) attribute(cell, 'data-state', column.state(item));
}

// facts is a list of names and values that keeps its entries.
export function facts() {
  const node = el('dl', { class: 'facts' });
  const update = (pairs) => sync(node, pairs.filter(([, value]) => value !== '' && value !== undefined && value !== null), ([name]) => name,
    ([name]) => el('div', {}, el('dt', {}, name), el('dd')),
    (entry, [name, value, state]) => {
      attribute(entry, 'class', name === 'Command' && 'command');
      text(entry.lastChild, String(value));
      attribute(entry.lastChild, 'data-state', state);
    });
  return { node, update };
}

// filter is a labelled box that calls each with what is typed.
export function filter(label, each) {
  return el('label', { class: 'filter' }, label, ' ', el('input', { type: 'search', autocomplete: 'off', spellcheck: 'false', on: { input: (e) => each(e.target.value.trim().toLowerCase()) } }));
}

// plural reads "1 GPU", "2 GPUs".
export function plural(n, word) {
  return `${number(n)} ${word}${n === 1 ? '' : 's'}`;
}

const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });

// number writes 8000 as 8,000.
export function number(n) {
  return grouped.format(n);
}

// size writes MiB in a unit that fits.
export function size(mib) {
  return mib >= 1024 ? `${number(Math.round(mib / 102.4) / 10)} GiB` : `${number(mib)} MiB`;
}

// span writes seconds with one unit or two: "45 s", "3 min", "2 h 5 min", "4 d 3 h".
export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// since is the span from a time of the API's until another, or now; '' of no time.
export function since(from, until) {
  if (!from) return '';
  return span(((until ? Date.parse(until) : Date.now()) - Date.parse(from)) / 1000);
}
