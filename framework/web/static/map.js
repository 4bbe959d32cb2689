// Draws the cluster map: a tile for each agent, a cell for each of its GPUs.
import { attribute, el, plural, sync, text } from './dom.js';
import { noteOf, words } from './cluster.js';
import { path } from './api.js';

const many = 200; // agents; with more, tiles are small

// map creates a map that keeps its tiles. Tab focuses one tile, and the arrow
// keys move the focus.
export function map() {
  const list = el('ul', { class: 'map', 'aria-label': 'Agents and their GPUs', on: { keydown, focusin } });
  const about = el('ul', { class: 'about', id: 'about', hidden: true });
  const known = new Map();
  const tell = () => {
    const tile = list.querySelector('a:focus-visible')?.parentNode;
    about.hidden = !tile;
    if (tile) sync(about, known.get(tile)?.cells.map((c, i) => [i, c]) ?? [], ([i]) => i, () => el('li', {}, el('i'), ' ', el('span')), drawFact);
  };
  list.addEventListener('focusin', tell);
  list.addEventListener('focusout', () => { about.hidden = true; });
  list.addEventListener('keydown', (e) => { if (e.key === 'Escape') about.hidden = true; });
  const update = (agents) => {
    attribute(list, 'data-dense', agents.length > many);
    const domain = domainOf(agents);
    sync(list, agents, (a) => a.id, makeTile, (tile, agent) => { known.set(tile, agent); drawTile(tile, agent, domain); });
    for (const tile of known.keys()) if (!tile.isConnected) known.delete(tile);
    if (!about.hidden) tell();
    if (!list.querySelector('a[tabindex="0"]')) attribute(list.querySelector('a'), 'tabindex', 0);
  };
  return { node: el('div', {}, list, about), update: (agents) => (agents.length ? update(agents) : sync(list, [], String)) };
}

function makeTile(agent) {
  return el('li', {}, el('a', { href: `#/agents/${path(agent.id)}`, tabindex: -1, 'aria-describedby': 'about' }, el('span', { class: 'host' }, el('span'), el('b')), el('span', { class: 'cells', 'aria-hidden': 'true' })));
}

// domainOf returns the common domain of all host names, '' if they differ.
function domainOf(agents) {
  const [first = ''] = agents.map((a) => a.hostname);
  const domain = first.slice(first.indexOf('.'));
  const common = /^\.[a-z]/i.test(domain) && agents.every((a) => a.hostname.endsWith(domain) && a.hostname.indexOf('.') === a.hostname.length - domain.length);
  return common ? domain : '';
}

const drawn = new WeakMap(); // by tile: signature of its content

function drawTile(tile, agent, domain) {
  const signature = `${agent.hostname} ${domain} ${noteOf(agent)} ${agent.cells.map(signatureOf).join()}`;
  if (drawn.get(tile) === signature) return;
  drawn.set(tile, signature);
  const [host, cells] = tile.firstChild.children;
  text(host.firstChild, agent.hostname.slice(0, agent.hostname.length - domain.length));
  text(host.lastChild, noteOf(agent).replace(/:.*/s, ''));
  attribute(tile.firstChild, 'aria-label', labelOf(agent));
  attribute(tile.firstChild, 'data-closed', noteOf(agent) !== '');
  agent.cells.forEach((cell, i) => drawCell(cells.children[i] ?? cells.appendChild(el('i')), cell));
  while (cells.children.length > agent.cells.length) cells.lastChild.remove();
}

function signatureOf(cell) {
  return cell.uuid + cell.state + cell.note + cell.part + cell.tasks.map((t) => t.id).join();
}

// drawCell draws a GPU; lists of devices use it too.
export function drawCell(node, cell) {
  attribute(node, 'class', `cell ${cell.state}`);
  attribute(node, 'title', titleOf(cell));
  if (cell.state === 'shared') node.style.setProperty('--part', `${Math.round(100 * cell.part)}%`);
}

// drawFact describes a GPU in text, as the cell's title does for the pointer.
function drawFact(item, [, cell]) {
  drawCell(item.firstChild, cell);
  text(item.lastChild, titleOf(cell));
}

function titleOf(cell) {
  const who = cell.tasks.map((t) => t.id).join(', ');
  return [cell.type || 'GPU', stateText(cell), who && `by ${who}`, cell.uuid].filter(Boolean).join(' · ');
}

// stateText formats a state: "free", "shared, 40 % taken", "GPU is sick: XID 79".
export function stateText(cell) {
  if (cell.note) return cell.note;
  return cell.state === 'shared' ? `shared, ${Math.round(100 * cell.part)} % taken` : words[cell.state];
}

function labelOf(agent) {
  const { count, types } = agent;
  const parts = [`${agent.hostname}: ${plural(count.all, 'GPU')} ${types.join(', ')}`];
  for (const state of ['free', 'shared', 'sick', 'cordoned', 'withheld']) {
    if (count[state]) parts.push(`${count[state]} ${words[state]}`);
  }
  return [...parts, noteOf(agent)].filter(Boolean).join(', ');
}

// legend creates the legend of the cells.
export function legend() {
  return el('ul', { class: 'legend', 'aria-label': 'What the cells mean' },
    ...Object.entries(words).map(([state, word]) => {
      const cell = el('i', { class: `cell ${state}` });
      if (state === 'shared') cell.style.setProperty('--part', '50%');
      return el('li', {}, cell, ' ', state === 'cordoned' ? 'cordoned or draining' : word);
    }));
}

function focusin({ target, currentTarget }) {
  const before = currentTarget.querySelector('a[tabindex="0"]');
  if (before !== target) attribute(before, 'tabindex', -1);
  attribute(target, 'tabindex', 0);
}

function keydown(event) {
  const tile = event.target.closest('li');
  if (!tile || event.ctrlKey || event.altKey || event.metaKey) return;
  const next = step(event.key, tile, event.currentTarget);
  if (!next) return;
  event.preventDefault();
  next.firstChild.focus();
}

function step(key, tile, list) {
  const tiles = list.children;
  switch (key) {
    case 'ArrowLeft': return tile.previousElementSibling;
    case 'ArrowRight': return tile.nextElementSibling;
    case 'Home': return tiles[0];
    case 'End': return tiles[tiles.length - 1];
    case 'ArrowUp': return tiles[[...tiles].indexOf(tile) - columns(tiles)];
    case 'ArrowDown': return tiles[[...tiles].indexOf(tile) + columns(tiles)];
    default: return undefined;
  }
}

// columns returns the number of tiles in the first row.
function columns(tiles) {
  const line = [...tiles].findIndex((t) => t.offsetTop !== tiles[0].offsetTop);
  return line < 0 ? tiles.length : line;
}
