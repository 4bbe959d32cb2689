// The list of agents, and the page of one agent with its devices and their links.
import { setAttribute, createElement, createFacts, createFilter, formatCount, formatNumber, formatSize, syncChildren, createTable, setText } from './dom.js';
import { fetchJSON, encodePath } from './api.js';
import { drawCell, formatCellState } from './map.js';
import { agentNote, summarizeCluster } from './cluster.js';
import { renderAgentUsage, createUsage } from './usage.js';

const shown = 300;

export function renderAgents(store) {
  const list = createTable({
    caption: 'Agents', empty: 'No agent.', key: (a) => a.id,
    columns: [
      { name: 'Host', text: (a) => a.hostname, href: (a) => `#/agents/${encodePath(a.id)}` },
      { name: 'Types', text: (a) => a.types.join(', ') },
      { name: 'Free', number: true, text: (a) => `${a.count.free} of ${a.count.all}` },
      { name: 'GPUs', draw: (cell, a) => drawCells(cell, a.cells) },
      { name: 'CPUs', number: true, text: (a) => formatNumber(a.cpus) },
      { name: 'Memory', number: true, text: (a) => formatSize(a.mem_mib) },
      { name: 'Driver', text: formatDriver },
      { name: 'Note', class: 'wide', text: (a) => agentNote(a) },
    ],
  });
  const note = createElement('p', { class: 'note' });
  let wish = '';
  const update = () => {
    const all = summarizeCluster(store).agents.filter((a) => !wish || `${a.hostname} ${a.types.join(' ')} ${a.driver ?? ''} ${agentNote(a)}`.toLowerCase().includes(wish));
    list.update(all.slice(0, shown), !store.noAgents);
    setText(note, store.noAgents || (all.length > shown ? `${shown} of ${formatNumber(all.length)}: type to see fewer` : formatCount(all.length, 'agent')));
  };
  const node = createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Agents'),
    createElement('div', { class: 'tools' }, createFilter('Host, type or driver', (text) => { wish = text; update(); }), note), list.node);
  return { title: 'Agents', node, update };
}

function drawCells(cell, cells) {
  const box = cell.firstChild ?? cell.appendChild(createElement('span', { class: 'cells' }));
  syncChildren(box, cells.map((c, i) => [i, c]), ([i]) => i, () => createElement('i'), (node, [, c]) => drawCell(node, c));
}

function formatDriver(a) {
  return [a.driver, a.cuda && `CUDA ${a.cuda}`, a.simulated && 'simulated'].filter(Boolean).join(', ');
}

export function renderAgent(store, id) {
  const heading = createElement('h2', { tabindex: -1 }, id);
  const about = createFacts();
  const note = createElement('p', { class: 'note' });
  const topology = createElement('section', { hidden: true });
  const devices = createTable({
    caption: 'Devices', empty: 'No GPU that is named.', key: (c) => c.uuid || c.index,
    columns: [
      { name: 'Device', class: 'short', draw: drawDevice },
      { name: 'Type', class: 'short', text: (c) => c.type || 'GPU' },
      { name: 'Memory', number: true, class: 'short', text: (c) => (c.mem ? formatSize(c.mem) : '') },
      { name: 'NUMA', number: true, class: 'short', text: (c) => (c.told && c.told.numa >= 0 ? String(c.told.numa) : '') },
      { name: 'State', text: formatCellState },
      { name: 'Tasks', class: 'wide tasks', draw: drawTasks },
      { name: 'UUID', class: 'wide ids', text: (c) => c.uuid },
    ],
  });
  const gpus = createUsage((t) => ({ name: t.task, href: `#/jobs/${encodePath(t.job)}/tasks/${encodePath(t.task)}` }));
  let told = new Map(); // devices of the agent's inventory, by UUID
  const update = () => {
    const a = summarizeCluster(store).agents.find((x) => x.id === id);
    note.hidden = Boolean(a);
    setText(note, store.noAgents ? `The master does not tell its agents: ${store.noAgents}` : 'The master lists no such agent.');
    if (!a) return;
    setText(heading, a.hostname);
    about.update([
      ['GPUs', `${a.count.free} of ${a.count.all} free`], ['Types', a.types.join(', ')], ['CPUs', formatNumber(a.cpus)], ['Memory', formatSize(a.mem_mib)],
      ['Driver', formatDriver(a)], ['Takes no tasks', agentNote(a)], ['Id', a.id], ['Address', a.url],
    ]);
    devices.update(a.cells.map((c, index) => ({ ...c, index, told: told.get(c.uuid) })));
    gpus.update(renderAgentUsage(store, id), store.health?.role);
  };
  fetchJSON(`v1/agents/${encodePath(id)}`).then((detail) => {
    told = new Map(detail.devices.map((d) => [d.uuid, d]));
    drawTopology(topology, detail.devices);
    update();
  }).catch((err) => { setText(note, err.message); });
  return { title: 'Agent', node: createElement('div', {}, heading, note, about.node, devices.node, topology, gpus.node), update, close: gpus.close };
}

function drawDevice(cell, c) {
  if (!cell.firstChild) cell.append(createElement('i'), ' ', createElement('span'));
  drawCell(cell.firstChild, c);
  setText(cell.lastChild, `nvidia${c.told?.minor ?? c.index}`);
}

function drawTasks(cell, c) {
  syncChildren(cell, c.tasks, (t) => t.id, (t) => createElement('a', { href: `#/jobs/${encodePath(t.job)}/tasks/${encodePath(t.id)}` }, t.id), () => {});
  setAttribute(cell, 'data-empty', c.tasks.length === 0);
}

// drawTopology draws the matrix of nvidia-smi topo -m.
function drawTopology(section, devices) {
  if (devices.length < 2) return;
  const name = (d) => `nvidia${d.minor}${d.mig ? ` ${d.mig.profile}` : ''}`;
  const rows = devices.map((d) => createElement('tr', {}, createElement('th', { scope: 'row' }, name(d)),
    ...devices.map((other) => createElement('td', {}, describeLink(d, other)))));
  section.hidden = false;
  section.replaceChildren(createElement('h3', {}, 'Topology'),
    createElement('p', { class: 'note' }, 'What joins the devices: NV and how many NVLinks, else the way over PCIe as nvidia-smi names it, from PIX, the nearest, to SYS'),
    createElement('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Topology' },
      createElement('table', { class: 'matrix' },
        createElement('thead', {}, createElement('tr', {}, createElement('td'), ...devices.map((d) => createElement('th', { scope: 'col' }, name(d))))), createElement('tbody', {}, ...rows))));
}

function describeLink(a, b) {
  if (a === b) return 'X';
  const links = Math.max(a.nvlinks?.[b.uuid] ?? 0, b.nvlinks?.[a.uuid] ?? 0);
  return links ? `NV${links}` : a.paths?.[b.uuid] ?? b.paths?.[a.uuid] ?? '-';
}
