// Draws the cluster map: a tile for each agent, a cell for each of its GPUs.
import { setAttribute, createElement, formatCount, formatPercent, syncChildren, setText } from './dom.js';
import { agentNote, stateLabels } from './cluster.js';
import { encodePath } from './api.js';
import { hueOf } from './color.js';

// colorings are what the colors of used GPUs can stand for.
export const colorings = { state: 'state', job: 'job', role: 'role', duty: 'duty' };

const sparseThreshold = 24; // with at most so many agents, the tiles are large
const denseThreshold = 200; // with more agents, the tiles are small

// createMap creates a map that keeps its tiles. Tab focuses one tile, and the arrow
// keys move the focus.
export function createMap() {
  const list = createElement('ul', { class: 'map', 'aria-label': 'Agents and their GPUs', on: { keydown: onKeyDown, focusin: onFocusIn } });
  const description = createElement('ul', { class: 'about', id: 'about', hidden: true });
  const agentsByTile = new Map();
  const describeFocused = () => {
    const tile = list.querySelector('a:focus-visible')?.parentNode;
    description.hidden = !tile;
    if (tile) syncChildren(description, agentsByTile.get(tile)?.cells.map((cell, i) => [i, cell]) ?? [], ([i]) => i, () => createElement('li', {}, createElement('i'), ' ', createElement('span')), drawFact);
  };
  list.addEventListener('focusin', describeFocused);
  list.addEventListener('focusout', () => { description.hidden = true; });
  list.addEventListener('keydown', (e) => { if (e.key === 'Escape') description.hidden = true; });
  const update = (agents, coloring, dutyOf) => {
    setAttribute(list, 'data-coloring', coloring);
    setAttribute(list, 'data-dense', agents.length > denseThreshold);
    setAttribute(list, 'data-sparse', agents.length <= sparseThreshold);
    const domain = findDomain(agents);
    syncChildren(list, agents, (agent) => agent.id, makeTile, (tile, agent) => { agentsByTile.set(tile, agent); drawTile(tile, agent, domain, coloring, dutyOf); });
    for (const tile of agentsByTile.keys()) if (!tile.isConnected) agentsByTile.delete(tile);
    if (!description.hidden) describeFocused();
    if (!list.querySelector('a[tabindex="0"]')) setAttribute(list.querySelector('a'), 'tabindex', 0);
  };
  return { node: createElement('div', {}, list, description), update: (agents, coloring = 'state', dutyOf = () => undefined) => (agents.length ? update(agents, coloring, dutyOf) : syncChildren(list, [], String)) };
}

function makeTile(agent) {
  return createElement('li', {}, createElement('a', { href: `#/agents/${encodePath(agent.id)}`, tabindex: -1, 'aria-describedby': 'about' }, createElement('span', { class: 'host' }, createElement('span'), createElement('b')), createElement('span', { class: 'cells', 'aria-hidden': 'true' })));
}

// findDomain returns the common domain of all host names, '' if they differ.
function findDomain(agents) {
  const [firstHost = ''] = agents.map((agent) => agent.hostname);
  const domain = firstHost.slice(firstHost.indexOf('.'));
  const common = /^\.[a-z]/i.test(domain) && agents.every((agent) => agent.hostname.endsWith(domain) && agent.hostname.indexOf('.') === agent.hostname.length - domain.length);
  return common ? domain : '';
}

const drawnContents = new WeakMap(); // by tile: what it shows

function drawTile(tile, agent, domain, coloring, dutyOf) {
  const drawn = drawnContents.get(tile);
  if (coloring !== 'duty' && drawn?.agent === agent && drawn.coloring === coloring && drawn.domain === domain) return;
  const duties = coloring === 'duty' ? agent.cells.map(({ uuid }) => dutyOf(uuid)) : [];
  const signature = `${coloring} ${agent.hostname} ${domain} ${agentNote(agent)} ${agent.cells.map(cellSignature).join()} ${duties.join()}`;
  drawnContents.set(tile, { agent, coloring, domain, signature });
  if (drawn?.signature === signature) return;
  const [host, cells] = tile.firstChild.children;
  setText(host.firstChild, agent.hostname.slice(0, agent.hostname.length - domain.length));
  setAttribute(host.lastChild, 'data-note', agentNote(agent).replace(/:.*/s, '')); // shown by the style sheet: the label has the whole note
  setAttribute(tile.firstChild, 'aria-label', agentLabel(agent));
  setAttribute(tile.firstChild, 'data-closed', agentNote(agent) !== '');
  agent.cells.forEach((cell, i) => drawCell(cells.children[i] ?? cells.appendChild(createElement('i')), cell, coloring, duties[i]));
  while (cells.children.length > agent.cells.length) cells.lastChild.remove();
}

function cellSignature(cell) {
  return cell.uuid + cell.state + cell.note + cell.fraction + cell.tasks.map((task) => task.id).join();
}

// drawCell draws a GPU; lists of devices use it too.
export function drawCell(node, cell, coloring = 'state', duty = undefined) {
  setAttribute(node, 'class', `cell ${cell.state}`);
  setAttribute(node, 'title', duty === undefined ? cellTitle(cell) : `${cellTitle(cell)} · duty ${formatPercent(duty)}`);
  setAttribute(node, 'data-duty', duty !== undefined);
  if (duty !== undefined) node.style.setProperty('--duty', `${Math.round(100 * duty)}%`);
  const owner = cell.tasks.length && ['job', 'role'].includes(coloring) ? (coloring === 'job' ? cell.tasks[0].job : cell.roles[0]) : '';
  setAttribute(node, 'data-colored', owner !== '');
  if (owner) node.style.setProperty('--hue', hueOf(owner));
  if (cell.state === 'shared') node.style.setProperty('--part', `${Math.round(100 * cell.fraction)}%`);
}

// drawFact describes a GPU in text, as the cell's title does for the pointer.
function drawFact(item, [, cell]) {
  drawCell(item.firstChild, cell);
  setText(item.lastChild, cellTitle(cell));
}

function cellTitle(cell) {
  const taskIDs = cell.tasks.map((task) => task.id).join(', ');
  return [cell.type || 'GPU', formatCellState(cell), taskIDs && `by ${taskIDs}`, cell.uuid].filter(Boolean).join(' · ');
}

// formatCellState formats a state: "free", "shared, 40 % taken", "GPU is sick: XID 79".
export function formatCellState(cell) {
  if (cell.note) return cell.note;
  return cell.state === 'shared' ? `shared, ${Math.round(100 * cell.fraction)} % taken` : stateLabels[cell.state];
}

function agentLabel(agent) {
  const { count, types } = agent;
  const labels = [`${agent.hostname}: ${formatCount(count.all, 'GPU')} ${types.join(', ')}`];
  for (const state of ['free', 'shared', 'sick', 'cordoned', 'withheld']) {
    if (count[state]) labels.push(`${count[state]} ${stateLabels[state]}`);
  }
  return [...labels, agentNote(agent)].filter(Boolean).join(', ');
}

// createLegend creates the legend of the cells.
export function createLegend() {
  return createElement('ul', { class: 'legend', 'aria-label': 'What the cells mean' },
    ...Object.entries(stateLabels).map(([state, label]) => {
      const cell = createElement('i', { class: `cell ${state}` });
      if (state === 'shared') cell.style.setProperty('--part', '50%');
      return createElement('li', {}, cell, ' ', state === 'cordoned' ? 'cordoned or draining' : label);
    }));
}

function onFocusIn({ target, currentTarget }) {
  const previous = currentTarget.querySelector('a[tabindex="0"]');
  if (previous !== target) setAttribute(previous, 'tabindex', -1);
  setAttribute(target, 'tabindex', 0);
}

function onKeyDown(event) {
  const tile = event.target.closest('li');
  if (!tile || event.ctrlKey || event.altKey || event.metaKey) return;
  const next = nextTile(event.key, tile, event.currentTarget);
  if (!next) return;
  event.preventDefault();
  next.firstChild.focus();
}

function nextTile(key, tile, list) {
  const tiles = list.children;
  switch (key) {
    case 'ArrowLeft': return tile.previousElementSibling;
    case 'ArrowRight': return tile.nextElementSibling;
    case 'Home': return tiles[0];
    case 'End': return tiles[tiles.length - 1];
    case 'ArrowUp': return tiles[[...tiles].indexOf(tile) - countColumns(tiles)];
    case 'ArrowDown': return tiles[[...tiles].indexOf(tile) + countColumns(tiles)];
    default: return undefined;
  }
}

// countColumns returns the number of tiles in the first row.
function countColumns(tiles) {
  const secondRow = [...tiles].findIndex((tile) => tile.offsetTop !== tiles[0].offsetTop);
  return secondRow < 0 ? tiles.length : secondRow;
}
