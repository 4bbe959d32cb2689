// The roles as a tree, with the GPUs, CPUs and memory that each holds, its quota and what it deserves, and
// the users who have jobs.
import { createCard, createElement, createLink, drawBadge, formatCount, formatNumber, formatSize, setAttribute, syncChildren, setText } from './dom.js';
import { countHeldByRole, countHolders } from './cluster.js';
import { drawActions } from './actions.js';
import { describeHold, groupHoldAction } from './queue_actions.js';
import { openDialog } from './dialog.js';
import { hasPermission, mayHoldUser } from './permissions.js';
import { sendJSON, encodePath } from './api.js';

export function renderRoles(store) {
  const list = createElement('ul', { class: 'roles' });
  const users = createElement('ul', { class: 'roles' });
  const usersCard = createCard('Users', users);
  const note = createElement('p', { class: 'note' });
  const stops = ['roles', 'holds'].map((name) => store.lists.keepUpdated(name));
  const update = () => {
    const { lists } = store;
    const missing = lists.unavailable.has('roles');
    note.hidden = !missing;
    setText(note, 'This scheduler does not provide its roles. The GPUs are those that the jobs hold.');
    const roles = lists.roles && !missing ? lists.roles : missing ? countHeldByRole(store.jobs) : [];
    syncChildren(list, sortTree(roles), ({ name }) => name, makeRole, (item, role) => drawRole(item, role, store));
    const owners = listUsers(store);
    usersCard.hidden = owners.length === 0;
    syncChildren(users, owners, ({ name }) => name, makeUser, (item, user) => drawUser(item, user, store));
  };
  return { title: 'Roles', node: createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Roles'), note, createCard('Roles and quotas', list), usersCard), update, close: () => stops.forEach((stop) => stop()) };
}

// sortTree returns the roles, each followed by those below it, with how many of them are above it
// and the rest of its name.
function sortTree(roles) {
  const above = ({ name }) => roles.map((other) => `${other.name}/`).filter((prefix) => name.startsWith(prefix));
  const describe = (role) => ({ ...role, depth: above(role).length, label: role.name.slice(Math.max(0, ...above(role).map(({ length }) => length))) });
  return roles.map(describe).sort((a, b) => comparePaths(a.name.split('/'), b.name.split('/')));
}

function comparePaths(a, b) {
  const i = a.findIndex((part, k) => part !== b[k]);
  if (i < 0) return a.length - b.length;
  return b[i] === undefined || a[i] > b[i] ? 1 : -1;
}

function makeRole(role) {
  return createElement('li', { class: 'role' },
    createElement('div', { class: 'who' }, createElement('h4', {}, createLink(`#/jobs?role=${encodePath(role.name)}`, role.label, { title: role.name })), createElement('span'), createElement('p', { class: 'note' })),
    createElement('ul', { class: 'bars' }), createElement('div', { class: 'actions', hidden: true }));
}

function drawRole(item, role, store) {
  const [who, bars, actions] = item.children;
  setAttribute(item, 'data-depth', Math.min(role.depth, 3));
  drawHold(who.children[1], role.hold);
  setText(who.lastChild, describeRole(role));
  drawActions(actions, listRoleActions(store, role));
  const types = [...new Set([role.quota, role.deserved, role.held].flatMap((gpus) => Object.keys(gpus ?? {})))].sort(compareTypes);
  syncChildren(bars, types, String, (type) => createElement('li', {}, createElement('span', {}, type === '*' ? 'all types' : type), createElement('span'), createElement('meter', { min: 0, optimum: 0, 'aria-label': type })),
    (bar, type) => drawBar(bar, role.held?.[type] ?? 0, role.quota?.[type], describeShare(role, type)));
}

// describeHost returns the CPUs and memory that the role holds and deserves, one text each.
function describeHost(role) {
  return Object.entries(role.host ?? {}).sort().map(([resource, { held, deserved }]) => {
    const isMemory = resource === 'mem';
    const amount = isMemory ? `${formatSize(held)} of memory` : formatCount(held, 'CPU');
    return `${amount} held${deserved === undefined ? '' : `, deserves ${isMemory ? formatSize(deserved) : formatNumber(deserved)}`}`;
  });
}

function drawHold(node, hold) {
  node.hidden = !hold;
  if (hold) drawBadge(node, 'WAITING', describeHold(hold));
}

function listRoleActions(store, role) {
  if (!store.canAct) return [];
  const refresh = () => Promise.all(['roles', 'holds'].map((name) => store.lists.request(name, true)));
  const actions = [];
  if (hasPermission(store.identity, 'operate', role.name) && isOwnHold(role, store.lists.holds)) actions.push(groupHoldAction('roles', role.name, role.hold, refresh));
  if (hasPermission(store.identity, 'admin', role.name)) actions.push(...quotaActions(role, refresh));
  return actions;
}

// isOwnHold reports whether a role's hold is its own, or none: that of a role above it is ended there.
function isOwnHold({ name, hold }, holds) {
  return !hold || !holds || holds.some((one) => one.kind === 'role' && one.name === name);
}

function quotaActions(role, refresh) {
  const current = Object.entries(role.quota ?? {}).map(([type, count]) => `${type}=${count}`).join(', ');
  const send = (quota) => sendJSON('PUT', `v1/roles/${encodePath(role.name)}/quota`, { quota }).then(refresh);
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
      label: 'Unset quota',
      open: () => openDialog({ title: `Unset the quota of ${role.name}?`, text: 'The quota of the roles file applies again.', confirmLabel: 'Unset quota', command: `mesos-gpu quota unset '${role.name}'`, run: () => send(null) }),
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
    role.name === '*' && 'the default role',
    role.waiting ? `${role.waiting} waiting` : 'nothing waits',
    role.waiting_jobs_limit && `${role.waiting_jobs ?? 0} of at most ${role.waiting_jobs_limit} waiting jobs`,
    describeUserLimits(role.user_limits),
    role.weight !== undefined && `weight ${formatNumber(role.weight)}`,
    role.order, role.policy,
    role.backfill === false && 'no backfill',
    role.quota_set && 'quota set by hand',
    ...describeHost(role),
    ...(role.budgets ?? []).map(describeBudget),
    role.mesos_quota && `Mesos's quota: ${role.mesos_quota.used} of ${formatCount(role.mesos_quota.limit, 'GPU')} used`,
  ];
  return properties.filter(Boolean).join(' · ');
}

// describeBudget returns what is used of one amount of a role's budget in this month.
function describeBudget({ user, type, used, budget, priced, at_limit: atLimit, held_tasks: held }) {
  const subject = [user && `of ${user}`, type !== '*' && `for ${type}`].filter(Boolean).join(' ');
  const full = used >= budget ? `, used up (${atLimit}${held ? `: ${held} waiting ${held === 1 ? 'task' : 'tasks'}` : ''})` : '';
  return `budget${subject && ` ${subject}`}: ${formatNumber(Math.round(used * 100) / 100)} of ${formatNumber(budget)}${priced ? '' : ' GPU hours'} used this month${full}`;
}

// describeUserLimits returns what each user of a role may use, '' without limits.
function describeUserLimits(limits) {
  const parts = listLimits(limits?.each);
  return parts.length ? `each user at most ${parts.join(', ')}` : limits && 'limits for some users';
}

function listLimits({ gpus = {}, running_jobs: running, waiting_jobs: waiting, submissions_per_minute: submissions } = {}) {
  return [
    ...Object.keys(gpus).sort(compareTypes).map((type) => type === '*' ? formatCount(gpus[type], 'GPU') : `${formatNumber(gpus[type])} ${type}`),
    running && formatCount(running, 'running job'), waiting && formatCount(waiting, 'waiting job'), submissions && `${formatCount(submissions, 'submission')} a minute`,
  ].filter(Boolean);
}

// describeUse returns what a user has of the limits of all roles, '' without limits.
function describeUse(name, roles) {
  const texts = (roles ?? []).map((role) => {
    const user = role.user_limits?.users.find((one) => one.user === name);
    const parts = user ? listLimits(user.limits) : [];
    return parts.length ? `${role.name}: at most ${parts.join(', ')}; holds ${formatCount(user.held['*'] ?? 0, 'GPU')}, ${user.running_jobs} running, ${user.waiting_jobs} waiting jobs` : '';
  });
  return texts.filter(Boolean).join(' · ');
}

// listUsers returns the users who own live jobs, have limits or are held.
function listUsers(store) {
  const users = new Map();
  const add = (name) => users.get(name) ?? users.set(name, { name, roles: [], gpus: 0, waiting: 0 }).get(name);
  for (const { owner, role, gpus, waiting } of countHolders(store.jobs)) {
    if (!owner) continue;
    const user = add(owner);
    user.roles.push(role);
    user.gpus += gpus;
    user.waiting += waiting;
  }
  for (const role of store.lists.roles ?? []) for (const { user } of role.user_limits?.users ?? []) add(user);
  for (const hold of store.lists.holds ?? []) if (hold.kind === 'user') add(hold.name).hold = hold;
  return [...users.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

function makeUser({ name }) {
  return createElement('li', { class: 'role' },
    createElement('div', { class: 'who' }, createElement('h4', {}, createLink(`#/jobs?owner=${encodePath(name)}`, name)), createElement('span'), createElement('p', { class: 'note' })),
    createElement('p', { class: 'note' }), createElement('div', { class: 'actions', hidden: true }));
}

function drawUser(item, user, store) {
  const [who, held, actions] = item.children;
  drawHold(who.children[1], user.hold);
  setText(who.lastChild, user.roles.join(', '));
  const use = describeUse(user.name, store.lists.roles);
  setText(held, `${formatCount(user.gpus, 'GPU')} held${user.waiting ? `, ${formatNumber(user.waiting)} wanted` : ''}${use && ` · ${use}`}`);
  drawActions(actions, store.canAct && mayHoldUser(store.identity, user.name, user.hold) ? [groupHoldAction('users', user.name, user.hold, () => store.lists.request('holds', true))] : []);
}
