// The list of agents, and the page of one agent with its devices and their links.
import { setAttribute, createElement, createFacts, createFilter, formatCount, formatNumber, formatSize, syncChildren, setText } from './dom.js';
import { createTable } from './table.js';
import { fetchJSON, encodePath } from './api.js';
import { drawCell, formatCellState } from './map.js';
import { drawActions, listAgentActions } from './actions.js';
import { agentNote, describeStrays, isPlaced, summarizeCluster } from './cluster.js';
import { attemptBar, createTimeline } from './timeline.js';
import { hueOfSeries } from './color.js';
import { readParameter, writeParameter } from './url_state.js';
import { renderAgentUsage, createUsage } from './usage.js';

const maxRows = 300;

const noteOf = (agent) => [agentNote(agent), describeStrays(agent)].filter(Boolean).join('; ');

export function renderAgents(store) {
  const list = createTable({
    caption: 'Agents', empty: 'No agent.', key: (agent) => agent.id, sort: readParameter('sort'), onSort: (order) => writeParameter('sort', order),
    columns: [
      { name: 'Host', phone: 'title', sortBy: (agent) => agent.hostname, text: (agent) => agent.hostname, href: (agent) => `#/agents/${encodePath(agent.id)}` },
      { name: 'Types', text: (agent) => agent.types.join(', '), sortBy: (agent) => agent.types.join() },
      { name: 'Free', number: true, phone: 'state', text: (agent) => `${agent.count.free} of ${agent.count.all}`, sortBy: (agent) => agent.count.free },
      { name: 'GPUs', draw: (cell, agent) => drawCells(cell, agent.cells) },
      { name: 'CPUs', number: true, phone: 'hide', text: (agent) => formatNumber(agent.cpus), sortBy: (agent) => agent.cpus },
      { name: 'Memory', number: true, phone: 'hide', text: (agent) => formatSize(agent.mem_mib), sortBy: (agent) => agent.mem_mib },
      { name: 'Driver', phone: 'hide', text: formatDriver, sortBy: formatDriver },
      { name: 'Note', class: 'wide', phone: 'wide', text: noteOf, sortBy: noteOf },
    ],
  });
  const note = createElement('p', { class: 'note' });
  let filter = readParameter('q');
  const update = () => {
    const matching = summarizeCluster(store).agents.filter((agent) => !filter || `${agent.hostname} ${agent.types.join(' ')} ${agent.driver ?? ''} ${noteOf(agent)}`.toLowerCase().includes(filter.toLowerCase()));
    list.update(matching.slice(0, maxRows), !store.agentsError);
    setText(note, store.agentsError || (matching.length > maxRows ? `${maxRows} of ${formatNumber(matching.length)}: type to see fewer` : formatCount(matching.length, 'agent')));
  };
  const node = createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Agents'),
    createElement('div', { class: 'tools' }, createFilter('Host, type or driver', (text) => { filter = text; writeParameter('q', text); update(); }, filter), note), list.node);
  return { title: 'Agents', node, update };
}

function drawCells(tableCell, cells) {
  const list = tableCell.firstChild ?? tableCell.appendChild(createElement('span', { class: 'cells' }));
  syncChildren(list, cells.map((cell, i) => [i, cell]), ([i]) => i, () => createElement('i'), (node, [, cell]) => drawCell(node, cell));
}

function formatDriver(agent) {
  return [agent.driver, agent.cuda && `CUDA ${agent.cuda}`, agent.simulated && 'simulated'].filter(Boolean).join(', ');
}

export function renderAgent(store, id) {
  const heading = createElement('h2', { tabindex: -1 }, id);
  const facts = createFacts();
  const note = createElement('p', { class: 'note' });
  const topology = createElement('section', { class: 'card', hidden: true });
  const devices = createTable({
    caption: 'Devices', empty: 'No GPU that is named.', key: (cell) => cell.uuid || cell.index,
    columns: [
      { name: 'Device', phone: 'title', draw: drawDevice },
      { name: 'Type', text: (cell) => cell.type || 'GPU' },
      { name: 'Memory', number: true, text: (cell) => (cell.mem ? formatSize(cell.mem) : '') },
      { name: 'PCI', class: 'wide', phone: 'hide', text: (cell) => cell.inventory?.pci ?? '' },
      { name: 'NUMA', number: true, text: (cell) => (cell.inventory && cell.inventory.numa >= 0 ? String(cell.inventory.numa) : '') },
      { name: 'State', phone: 'state', text: formatCellState },
      { name: 'Tasks', class: 'wide tasks', phone: 'wide', draw: (cell, entry) => drawTasks(cell, entry, store) },
      { name: 'UUID', class: 'wide ids', phone: 'hide', text: (cell) => cell.uuid },
    ],
  });
  const gpus = createUsage((task) => ({ name: task.task, href: `#/jobs/${encodePath(store.jobs.referenceToTask(task.job, task.task))}/tasks/${encodePath(task.task)}` }));
  const buttons = createElement('div', { class: 'actions', hidden: true });
  const timeline = createTimeline('Jobs on each GPU over time', true);
  let inventory = new Map(); // devices of the agent's inventory, by UUID
  const update = () => {
    const agent = summarizeCluster(store).agents.find((agent) => agent.id === id);
    note.hidden = Boolean(agent);
    setText(note, store.agentsError ? `The master does not list its agents: ${store.agentsError}` : 'The master lists no such agent.');
    if (!agent) return;
    setText(heading, agent.hostname);
    drawActions(buttons, listAgentActions(store, agent));
    timeline.update(timelineRows(store, agent));
    facts.update([
      ['GPUs', `${agent.count.free} of ${agent.count.all} free`], ['Types', agent.types.join(', ')], ['CPUs', formatNumber(agent.cpus)], ['Memory', formatSize(agent.mem_mib)],
      ['Driver', formatDriver(agent)], ['Takes no tasks', agentNote(agent)], ['Strays', describeStrays(agent)], ['Id', agent.id], ['Address', agent.url],
    ]);
    devices.update(agent.cells.map((cell, index) => ({ ...cell, index, inventory: inventory.get(cell.uuid) })));
    gpus.update(renderAgentUsage(store, id), store.health?.role);
  };
  fetchJSON(`v1/agents/${encodePath(id)}`).then((detail) => {
    inventory = new Map(detail.devices.map((device) => [device.uuid, device]));
    drawTopology(topology, detail.devices);
    update();
  }).catch((err) => { setText(note, err.message); });
  store.fetchEndedJobs().catch(() => {}); // the timeline then has only live jobs
  return { title: 'Agent', node: createElement('div', {}, createElement('div', { class: 'title' }, heading, buttons), note, createElement('section', { class: 'card', 'aria-label': 'Properties' }, facts.node), createElement('section', { class: 'card' }, devices.node), timeline.node, topology, gpus.node), update, close: gpus.close };
}

// timelineRows returns a row for each GPU of the agent, with the tasks that have held it: the
// live ones, and those of the ended jobs that the page has.
function timelineRows(store, agent) {
  const tasks = [...store.jobs.values()].flatMap((job) => [...job.tasks, ...(job.attempts ?? [])]).filter((task) => task.agent_id === agent.id && (isPlaced(task) || task.ended));
  const jobs = [...new Set(tasks.map((task) => task.job))].sort();
  return agent.cells.map((cell, i) => ({
    key: cell.uuid || i, label: `${i} ${cell.type || 'GPU'}`,
    bars: tasks.filter((task) => task.device_ids?.includes(cell.uuid)).map((task) => attemptBar(task, task.job, hueOfSeries(jobs.indexOf(task.job)))).filter(Boolean).sort((a, b) => a.from - b.from),
  }));
}

function drawDevice(tableCell, cell) {
  if (!tableCell.firstChild) tableCell.append(createElement('i'), ' ', createElement('span'));
  drawCell(tableCell.firstChild, cell);
  setText(tableCell.lastChild, `nvidia${cell.inventory?.minor ?? cell.index}`);
}

function drawTasks(tableCell, cell, store) {
  syncChildren(tableCell, cell.tasks, (task) => task.id, (task) => createElement('a', { href: `#/jobs/${encodePath(store.jobs.referenceToTask(task.job, task.id))}/tasks/${encodePath(task.id)}` }, task.id), () => {});
  setAttribute(tableCell, 'data-empty', cell.tasks.length === 0);
}

// drawTopology draws the matrix of nvidia-smi topo -m.
function drawTopology(section, devices) {
  if (devices.length < 2) return;
  const name = (device) => `nvidia${device.minor}${device.mig ? ` ${device.mig.profile}` : ''}`;
  const rows = devices.map((device) => createElement('tr', {}, createElement('th', { scope: 'row' }, name(device)),
    ...devices.map((other) => createElement('td', {}, describeLink(device, other)))));
  section.hidden = false;
  section.replaceChildren(createElement('h3', {}, 'Topology'),
    createElement('p', { class: 'note' }, 'How the devices are connected: NV and the number of NVLinks, or the PCIe path as nvidia-smi names it, from PIX, the nearest, to SYS'),
    createElement('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Topology' },
      createElement('table', { class: 'matrix' },
        createElement('thead', {}, createElement('tr', {}, createElement('td'), ...devices.map((device) => createElement('th', { scope: 'col' }, name(device))))), createElement('tbody', {}, ...rows))));
}

function describeLink(device, other) {
  if (device === other) return 'X';
  const links = Math.max(device.nvlinks?.[other.uuid] ?? 0, other.nvlinks?.[device.uuid] ?? 0);
  return links ? `NV${links}` : device.paths?.[other.uuid] ?? other.paths?.[device.uuid] ?? '-';
}
