// The GPUs that each role holds, by type, and its quotas.
import { el, number, sync, text } from './dom.js';
import { heldByRole } from './cluster.js';

export function quotas(store) {
  const list = el('div', { class: 'roles' });
  const note = el('p', { class: 'note' });
  const stop = store.want('roles');
  const update = () => {
    const told = store.roles && !store.missing.has('roles');
    note.hidden = !store.missing.has('roles');
    text(note, 'This scheduler does not tell its roles: here is what their jobs hold.');
    const roles = told ? store.roles : store.missing.has('roles') ? heldByRole(store.jobs) : [];
    sync(list, roles, (r) => r.name, makeRole, drawRole);
  };
  return { title: 'Quotas', node: el('div', {}, el('h2', { tabindex: -1 }, 'Quotas'), note, list), update, close: stop };
}

function makeRole(role) {
  return el('section', { class: 'role' }, el('h3', {}, role.name === '*' ? '* (the default role)' : role.name), el('p', { class: 'note' }), el('ul', { class: 'bars' }));
}

function drawRole(section, role) {
  const [, about, bars] = section.children;
  text(about, aboutOf(role));
  const types = [...new Set([...Object.keys(role.quota ?? {}), ...Object.keys(role.held ?? {})])].sort(typeOrder);
  sync(bars, types, String, (type) => el('li', {}, el('span', {}, type === '*' ? 'all types' : type), el('span'), el('meter', { min: 0, optimum: 0, 'aria-label': type })),
    (bar, type) => drawBar(bar, role.held?.[type] ?? 0, role.quota?.[type]));
}

// typeOrder sorts "*", the sum, last.
function typeOrder(a, b) {
  return (a === '*') - (b === '*') || (a < b ? -1 : 1);
}

function drawBar(bar, held, quota) {
  const [, words, meter] = bar.children;
  const bounded = quota !== undefined;
  meter.hidden = !bounded;
  meter.max = quota || 1; // a quota of 0 is shown as full
  meter.value = quota === 0 ? 1 : held;
  meter.high = 0.999 * meter.max; // a full meter is not green
  const full = held >= quota ? ', full' : '';
  text(words, bounded ? `${number(held)} of ${number(quota)} held${full}` : `${number(held)} held, no bound`);
}

function aboutOf(role) {
  const parts = [
    role.waiting ? `${role.waiting} waiting` : 'nothing waits',
    role.weight !== undefined && `weight ${number(role.weight)}`,
    role.order, role.policy,
    role.backfill === false && 'no backfill',
    role.quota_set && 'quota set by hand',
  ];
  return parts.filter(Boolean).join(' · ');
}
