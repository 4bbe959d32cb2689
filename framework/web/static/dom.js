// Creates and updates elements. Data becomes text nodes and attributes, never
// markup.

// createElement creates an element. Properties are attributes, except "on", which has
// listeners by event; null and false omit an attribute, undefined and false a child.
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
  node.append(...children.filter((child) => child !== undefined && child !== false));
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

// setStyle sets a property of a node's style if its value differs.
export function setStyle(node, name, value) {
  const text = String(value);
  if (node.style.getPropertyValue(name) !== text) node.style.setProperty(name, text);
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

// createFacts creates a list of names and values that keeps its entries.
export function createFacts() {
  const node = createElement('dl', { class: 'facts' });
  const update = (pairs) => syncChildren(node, pairs.filter(([, value]) => value !== '' && value !== undefined && value !== null), ([name]) => name,
    ([name]) => createElement('div', {}, createElement('dt', {}, name), createElement('dd')),
    (entry, [name, value, state]) => {
      setAttribute(entry, 'class', name === 'Command' ? 'command' : (name === 'Image' || name === 'Address') && 'double');
      if (value instanceof Node) {
        if (entry.lastChild.firstChild !== value) entry.lastChild.replaceChildren(value);
      } else if (state) {
        drawBadge(entry.lastChild, state, String(value));
      } else {
        setText(entry.lastChild, String(value));
      }
    });
  return { node, update };
}

// createFilter creates a labelled input that calls onInput with its text.
export function createFilter(label, onInput, value = '') {
  return createElement('label', { class: 'filter' }, createElement('span', {}, label), ' ', createElement('input', { type: 'search', autocomplete: 'off', spellcheck: 'false', value, on: { input: (e) => onInput(e.target.value.trim()) } }));
}

// createButton creates a button that does not submit a form.
export function createButton(label, onClick, attributes = {}) {
  return createElement('button', { type: 'button', ...attributes, on: { click: onClick } }, label);
}

// createCard creates a titled section. Its children may follow later.
export function createCard(title, ...children) {
  return createElement('section', { class: 'card' }, createElement('h3', {}, title), ...children);
}

// createLink creates a link.
export function createLink(href, text, attributes = {}) {
  return createElement('a', { href, ...attributes }, text);
}

// drawBadge shows a state as a colored label.
export function drawBadge(parent, state, text = state) {
  const badge = parent.firstElementChild ?? parent.appendChild(createElement('span', { class: 'badge' }));
  setAttribute(badge, 'data-state', state);
  setText(badge, text);
}

// createCopyButton creates a button that copies the text of readText to the clipboard.
export function createCopyButton(readText) {
  const button = createButton('Copy', async () => {
    await navigator.clipboard.writeText(readText()).then(() => setText(button, 'Copied'), () => setText(button, 'Not permitted'));
    setTimeout(() => setText(button, 'Copy'), 1500);
  }, { class: 'small' });
  return button;
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

// formatBytes formats a number of bytes in a suitable unit.
export function formatBytes(bytes) {
  if (bytes < 1024) return formatCount(bytes, 'byte');
  return bytes < 1 << 20 ? `${formatNumber(Math.round(bytes / 102.4) / 10)} KiB` : formatSize(Math.round(bytes / 104857.6) / 10);
}

// formatDuration formats seconds in one or two units: "45 s", "3 min", "2 h", "2 h 5 min", "4 d 3 h".
export function formatDuration(seconds) {
  const total = Math.max(0, Math.round(seconds));
  if (total < 60) return `${total} s`;
  if (total < 3600) return `${Math.floor(total / 60)} min`;
  if (total < 86400) return joinUnits(Math.floor(total / 3600), 'h', Math.floor((total % 3600) / 60), 'min');
  return joinUnits(Math.floor(total / 86400), 'd', Math.floor((total % 86400) / 3600), 'h');
}

function joinUnits(large, largeUnit, small, smallUnit) {
  return `${large} ${largeUnit}${small ? ` ${small} ${smallUnit}` : ''}`;
}

// formatElapsed formats the time from one API time to another, or to now; '' if unset.
export function formatElapsed(from, until) {
  if (!from) return '';
  return formatDuration(((until ? Date.parse(until) : Date.now()) - Date.parse(from)) / 1000);
}

const timeParts = { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
const timeFormat = new Intl.DateTimeFormat('en', timeParts);
const yearFormat = new Intl.DateTimeFormat('en', { year: 'numeric', ...timeParts });
const clockFormat = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });

// formatTime formats an API time in the browser's time zone: "Nov 24, 15:13".
export function formatTime(time) {
  const date = new Date(time);
  return (date.getFullYear() === new Date().getFullYear() ? timeFormat : yearFormat).format(date);
}

// formatClock formats a time of day with seconds.
export function formatClock(time) {
  return clockFormat.format(new Date(time));
}

// formatPercent formats a fraction.
export function formatPercent(fraction) {
  return `${Math.round(100 * fraction)} %`;
}
