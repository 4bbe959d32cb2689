// Tables that keep their rows by key and can be sorted.
import { setAttribute, createElement, drawBadge, syncChildren, setText } from './dom.js';

const longText = 48; // characters; longer texts may break anywhere

// createTable creates a table that keeps its rows by key, a function of the item. A column
// has a name and text(item), and optionally href(item), state(item), which makes the text a
// label of that state, sortBy(item), and draw(cell, item), which draws the whole cell. An
// optional column is hidden while all of its texts are empty. The text for an empty table is
// shown only once the items are known. sort is the initial order, a column's name, with "-"
// before it for descending; onSort receives a new one. On a phone each row takes few lines: a
// column is its title, its state, one of its wide texts, hidden, or a short detail. ARIA
// roles keep the table structure for screen readers.
export function createTable({ caption, columns, key, empty, sort = '', onSort = () => {} }) {
  let order = parseOrder(sort, columns);
  let redraw = () => {};
  const select = (column) => {
    const descending = order.column === column ? !order.descending : Boolean(column.number);
    order = { column, descending };
    onSort((descending ? '-' : '') + column.name);
    redraw();
  };
  const headers = columns.map((column) => createHeader(column, () => select(column)));
  const head = createElement('tr', { role: 'row' }, ...headers);
  const body = createElement('tbody', { role: 'rowgroup' });
  const emptyNote = createElement('p', { class: 'note empty', hidden: true }, empty);
  const node = createElement('div', { class: 'table' },
    createElement('table', { role: 'table' }, createElement('caption', {}, caption), createElement('thead', { role: 'rowgroup' }, head), body), emptyNote);
  const createRow = () => createElement('tr', { role: 'row' }, ...columns.map(createCell));
  const update = (items, known = true) => {
    redraw = () => update(items, known);
    emptyNote.hidden = items.length > 0 || !known;
    body.parentNode.hidden = items.length === 0;
    headers.forEach((header, i) => setAttribute(header, 'aria-sort', columns[i] === order.column && (order.descending ? 'descending' : 'ascending')));
    syncChildren(body, sortItems(items, order), key, createRow, (row, item) => columns.forEach((column, i) => drawCell(row.children[i], column, item)));
    columns.forEach((column, i) => {
      if (!column.optional) return;
      const hidden = !items.some((item) => column.text(item));
      for (const row of [head, ...body.children]) row.children[i].hidden = hidden;
    });
  };
  return { node, update };
}

function createHeader(column, onClick) {
  const label = column.sortBy ? createElement('button', { type: 'button', class: 'sort', on: { click: onClick } }, column.name) : column.name;
  return createElement('th', { scope: 'col', role: 'columnheader', class: column.number && 'number' }, label);
}

function createCell(column) {
  return createElement('td', { role: 'cell', 'data-label': column.name, 'data-phone': column.phone ?? 'detail', class: [column.number && 'number', column.class].filter(Boolean).join(' ') || null });
}

function parseOrder(sort, columns) {
  const descending = sort.startsWith('-');
  return { column: columns.find(({ name, sortBy }) => sortBy && name === sort.replace(/^-/, '')), descending };
}

// sortItems returns the items in order; equal ones keep the order of the list.
function sortItems(items, { column, descending }) {
  if (!column) return items;
  const sign = descending ? -1 : 1;
  return items.map((item) => ({ item, value: column.sortBy(item) }))
    .sort((a, b) => sign * compareValues(a.value, b.value)).map(({ item }) => item);
}

function compareValues(a, b) {
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), 'en', { numeric: true });
}

function drawCell(cell, column, item) {
  if (column.draw) {
    column.draw(cell, item);
    return;
  }
  const value = column.text(item);
  setAttribute(cell, 'data-empty', value === '');
  if (column.state) {
    setAttribute(cell, 'data-state', column.state(item));
    drawBadge(cell, column.state(item), value);
    return;
  }
  let target = cell;
  if (column.href) {
    target = cell.firstChild ?? cell.appendChild(createElement('a'));
    setAttribute(target, 'href', column.href(item));
  }
  setText(target, value);
  setAttribute(cell, 'data-long', value.length > longText);
}
