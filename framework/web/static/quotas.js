// The GPUs that each role holds, by type, and its quotas, which administrators can change.
import { createElement, formatNumber, setAttribute, syncChildren, setText } from './dom.js';
import { countHeldByRole } from './cluster.js';
import { drawActions } from './actions.js';
import { openDialog } from './dialog.js';
import { hasPermission } from './permissions.js';
import { sendJSON, encodePath } from './api.js';

export function renderQuotas(store) {
  const list = createElement('div', { class: 'roles' });
  const note = createElement('p', { class: 'note' });
  const stopUpdates = store.lists.keepUpdated('roles');
  const update = () => {
    const { lists } = store;
    const missing = lists.unavailable.has('roles');
    note.hidden = !missing;
    setText(note, 'This scheduler does not provide its roles. The GPUs are those that the jobs hold.');
    const roles = lists.roles && !missing ? lists.roles : missing ? countHeldByRole(store.jobs) : [];
    syncChildren(list, withDepth(roles), ({ name }) => name, makeRole, (section, role) => drawRole(section, role, store));
  };
  return { title: 'Quotas', node: createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Quotas'), note, list), update, close: stopUpdates };
}

// withDepth adds to each role how many of the listed roles are above it.
function withDepth(roles) {
  return roles.map((role) => ({ ...role, depth: roles.filter(({ name }) => role.name.startsWith(`${name}/`)).length }));
}

function makeRole(role) {
  return createElement('section', { class: 'role card' },
    createElement('div', { class: 'title' }, createElement('h3', {}, role.name === '*' ? '* (the default role)' : role.name), createElement('div', { class: 'actions', hidden: true })),
    createElement('p', { class: 'note' }), createElement('ul', { class: 'bars' }));
}

function drawRole(section, role, store) {
  const [head, description, bars] = section.children;
  setAttribute(section, 'data-depth', Math.min(role.depth, 3));
  setText(description, describeRole(role));
  drawActions(head.lastChild, listRoleActions(store, role));
  const types = [...new Set([role.quota, role.deserved, role.held].flatMap((gpus) => Object.keys(gpus ?? {})))].sort(compareTypes);
  syncChildren(bars, types, String, (type) => createElement('li', {}, createElement('span', {}, type === '*' ? 'all types' : type), createElement('span'), createElement('meter', { min: 0, optimum: 0, 'aria-label': type })),
    (bar, type) => drawBar(bar, role.held?.[type] ?? 0, role.quota?.[type], describeShare(role, type)));
}

function listRoleActions(store, role) {
  if (!store.canAct || !hasPermission(store.identity, 'admin', role.name)) return [];
  const current = Object.entries(role.quota ?? {}).map(([type, count]) => `${type}=${count}`).join(', ');
  const send = (quota) => sendJSON('PUT', `v1/roles/${encodePath(role.name)}/quota`, { quota }).then(() => store.lists.request('roles', true));
  return [
    {
      label: 'Set quota',
      open: () => openDialog({
        title: `Quota of ${role.name}`, text: 'What the tasks of the role and of the roles below it may hold.', confirmLabel: 'Set quota', command: `mesos-gpu quota set '${role.name}' V100=8,*=16`,
        fields: [{ name: 'quota', label: 'GPUs by type, * for all', value: current, placeholder: 'V100=8, *=16', hint: 'Empty means unlimited.', autocomplete: 'off', spellcheck: 'false' }],
        run: ({ quota }) => send(quota),
      }),
    },
    ...(role.quota_set ? [{
      label: 'Restore quota',
      open: () => openDialog({ title: `Restore the quota of ${role.name}?`, text: 'The quota of the roles file applies again.', confirmLabel: 'Restore quota', run: () => send(null) }),
    }] : []),
  ];
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
