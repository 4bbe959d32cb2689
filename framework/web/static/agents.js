// The list of agents, and the page of one agent with its devices and their links.
import { attribute, el, facts, filter, plural, number, size, sync, table, text } from './dom.js';
import { get, path } from './api.js';
import { drawCell, stateText } from './map.js';
import { noteOf, survey } from './cluster.js';
import { ofAgent, usage } from './usage.js';

const shown = 300;

export function agents(store) {
  const list = table({
    caption: 'Agents', empty: 'No agent.', key: (a) => a.id,
    columns: [
      { name: 'Host', text: (a) => a.hostname, href: (a) => `#/agents/${path(a.id)}` },
      { name: 'Types', text: (a) => a.types.join(', ') },
      { name: 'Free', number: true, text: (a) => `${a.count.free} of ${a.count.all}` },
      { name: 'GPUs', draw: (cell, a) => drawCells(cell, a.cells) },
      { name: 'CPUs', number: true, text: (a) => number(a.cpus) },
      { name: 'Memory', number: true, text: (a) => size(a.mem_mib) },
      { name: 'Driver', text: driverOf },
      { name: 'Note', class: 'wide', text: (a) => noteOf(a) },
    ],
  });
  const note = el('p', { class: 'note' });
  let wish = '';
  const update = () => {
    const all = survey(store).agents.filter((a) => !wish || `${a.hostname} ${a.types.join(' ')} ${a.driver ?? ''} ${noteOf(a)}`.toLowerCase().includes(wish));
    list.update(all.slice(0, shown), !store.noAgents);
    text(note, store.noAgents || (all.length > shown ? `${shown} of ${number(all.length)}: type to see fewer` : plural(all.length, 'agent')));
  };
  const node = el('div', {}, el('h2', { tabindex: -1 }, 'Agents'),
    el('div', { class: 'tools' }, filter('Host, type or driver', (text) => { wish = text; update(); }), note), list.node);
  return { title: 'Agents', node, update };
}

function drawCells(cell, cells) {
  const box = cell.firstChild ?? cell.appendChild(el('span', { class: 'cells' }));
  sync(box, cells.map((c, i) => [i, c]), ([i]) => i, () => el('i'), (node, [, c]) => drawCell(node, c));
}

function driverOf(a) {
  return [a.driver, a.cuda && `CUDA ${a.cuda}`, a.simulated && 'simulated'].filter(Boolean).join(', ');
}

export function agent(store, id) {
  const heading = el('h2', { tabindex: -1 }, id);
  const about = facts();
  const note = el('p', { class: 'note' });
  const topology = el('section', { hidden: true });
  const devices = table({
    caption: 'Devices', empty: 'No GPU that is named.', key: (c) => c.uuid || c.index,
    columns: [
      { name: 'Device', class: 'short', draw: drawDevice },
      { name: 'Type', class: 'short', text: (c) => c.type || 'GPU' },
      { name: 'Memory', number: true, class: 'short', text: (c) => (c.mem ? size(c.mem) : '') },
      { name: 'NUMA', number: true, class: 'short', text: (c) => (c.told && c.told.numa >= 0 ? String(c.told.numa) : '') },
      { name: 'State', text: stateText },
      { name: 'Tasks', class: 'wide tasks', draw: drawTasks },
      { name: 'UUID', class: 'wide ids', text: (c) => c.uuid },
    ],
  });
  const gpus = usage((t) => ({ name: t.task, href: `#/jobs/${path(t.job)}/tasks/${path(t.task)}` }));
  let told = new Map(); // devices of the agent's inventory, by UUID
  const update = () => {
    const a = survey(store).agents.find((x) => x.id === id);
    note.hidden = Boolean(a);
    text(note, store.noAgents ? `The master does not tell its agents: ${store.noAgents}` : 'The master lists no such agent.');
    if (!a) return;
    text(heading, a.hostname);
    about.update([
      ['GPUs', `${a.count.free} of ${a.count.all} free`], ['Types', a.types.join(', ')], ['CPUs', number(a.cpus)], ['Memory', size(a.mem_mib)],
      ['Driver', driverOf(a)], ['Takes no tasks', noteOf(a)], ['Id', a.id], ['Address', a.url],
    ]);
    devices.update(a.cells.map((c, index) => ({ ...c, index, told: told.get(c.uuid) })));
    gpus.update(ofAgent(store, id), store.health?.role);
  };
  get(`v1/agents/${path(id)}`).then((detail) => {
    told = new Map(detail.devices.map((d) => [d.uuid, d]));
    drawTopology(topology, detail.devices);
    update();
  }).catch((err) => { text(note, err.message); });
  return { title: 'Agent', node: el('div', {}, heading, note, about.node, devices.node, topology, gpus.node), update, close: gpus.close };
}

function drawDevice(cell, c) {
  if (!cell.firstChild) cell.append(el('i'), ' ', el('span'));
  drawCell(cell.firstChild, c);
  text(cell.lastChild, `nvidia${c.told?.minor ?? c.index}`);
}

function drawTasks(cell, c) {
  sync(cell, c.tasks, (t) => t.id, (t) => el('a', { href: `#/jobs/${path(t.job)}/tasks/${path(t.id)}` }, t.id), () => {});
  attribute(cell, 'data-empty', c.tasks.length === 0);
}

// drawTopology draws the matrix of nvidia-smi topo -m.
function drawTopology(section, devices) {
  if (devices.length < 2) return;
  const name = (d) => `nvidia${d.minor}${d.mig ? ` ${d.mig.profile}` : ''}`;
  const rows = devices.map((d) => el('tr', {}, el('th', { scope: 'row' }, name(d)),
    ...devices.map((other) => el('td', {}, between(d, other)))));
  section.hidden = false;
  section.replaceChildren(el('h3', {}, 'Topology'),
    el('p', { class: 'note' }, 'What joins the devices: NV and how many NVLinks, else the way over PCIe as nvidia-smi names it, from PIX, the nearest, to SYS'),
    el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Topology' },
      el('table', { class: 'matrix' },
        el('thead', {}, el('tr', {}, el('td'), ...devices.map((d) => el('th', { scope: 'col' }, name(d))))), el('tbody', {}, ...rows))));
}

function between(a, b) {
  if (a === b) return 'X';
  const links = Math.max(a.nvlinks?.[b.uuid] ?? 0, b.nvlinks?.[a.uuid] ?? 0);
  return links ? `NV${links}` : a.paths?.[b.uuid] ?? b.paths?.[a.uuid] ?? '-';
}
