// The GPUs that each role holds, by type, and its quotas.
import { createElement, formatNumber, syncChildren, setText } from './dom.js';
import { countHeldByRole } from './cluster.js';

export function renderQuotas(store) {
  const list = createElement('div', { class: 'roles' });
  const note = createElement('p', { class: 'note' });
  const stopUpdates = store.keepUpdated('roles');
  const update = () => {
    const provided = store.roles && !store.unavailableLists.has('roles');
    note.hidden = !store.unavailableLists.has('roles');
    setText(note, 'This scheduler does not provide its roles. The GPUs are those that the jobs hold.');
    const roles = provided ? store.roles : store.unavailableLists.has('roles') ? countHeldByRole(store.jobs) : [];
    syncChildren(list, roles, ({ name }) => name, makeRole, drawRole);
  };
  return { title: 'Quotas', node: createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Quotas'), note, list), update, close: stopUpdates };
}

function makeRole(role) {
  return createElement('section', { class: 'role' }, createElement('h3', {}, role.name === '*' ? '* (the default role)' : role.name), createElement('p', { class: 'note' }), createElement('ul', { class: 'bars' }));
}

function drawRole(section, role) {
  const [, description, bars] = section.children;
  setText(description, describeRole(role));
  const types = [...new Set([role.quota, role.deserved, role.held].flatMap((gpus) => Object.keys(gpus ?? {})))].sort(compareTypes);
  syncChildren(bars, types, String, (type) => createElement('li', {}, createElement('span', {}, type === '*' ? 'all types' : type), createElement('span'), createElement('meter', { min: 0, optimum: 0, 'aria-label': type })),
    (bar, type) => drawBar(bar, role.held?.[type] ?? 0, role.quota?.[type], describeShare(role, type)));
}

// compareTypes sorts "*", the sum, last.
function compareTypes(a, b) {
  return (a === '*') - (b === '*') || (a < b ? -1 : 1);
}

// describeShare returns what the role deserves and is entitled to of a type, '' if it deserves nothing.
function describeShare(role, type) {
  const deserved = role.deserved?.[type];
  if (deserved === undefined) {
    return '';
  }
  const entitled = role.entitled === undefined ? '' : `, entitled to ${formatNumber(role.entitled[type] ?? 0)}`;
  return `, deserves ${formatNumber(deserved)}${entitled}`;
}

function drawBar(bar, held, quota, share) {
  const [, label, meter] = bar.children;
  const hasQuota = quota !== undefined;
  meter.hidden = !hasQuota;
  meter.max = quota || 1; // a quota of 0 is shown as full
  meter.value = quota === 0 ? 1 : held;
  meter.high = 0.999 * meter.max; // a full meter is not green
  const full = held >= quota ? ', full' : '';
  setText(label, hasQuota ? `${formatNumber(held)} of ${formatNumber(quota)} held${full}${share}` : `${formatNumber(held)} held, no quota${share}`);
}

function describeRole(role) {
  const properties = [
    role.waiting ? `${role.waiting} waiting` : 'nothing waits',
    role.weight !== undefined && `weight ${formatNumber(role.weight)}`,
    role.order, role.policy,
    role.backfill === false && 'no backfill',
    role.quota_set && 'quota set by hand',
  ];
  return properties.filter(Boolean).join(' · ');
}
