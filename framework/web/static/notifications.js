// The notifications about jobs that were not delivered: those that are tried again, and those that
// were given up.
import { createElement, formatDuration, formatElapsed, setAttribute, setText } from './dom.js';
import { createTable } from './table.js';
import { drawActions } from './actions.js';
import { openDialog } from './dialog.js';
import { canChange } from './permissions.js';
import { sendJSON, encodePath } from './api.js';
import { readParameter, writeParameter } from './url_state.js';

const states = { pending: 'WAITING', failed: 'FAILED' }; // the colors of the states

export function renderNotifications(store) {
  const list = createTable({
    caption: 'Notifications that were not delivered', empty: 'Every notification was delivered.', key: ({ id }) => id, sort: readParameter('sort'), onSort: (order) => writeParameter('sort', order),
    columns: [
      { name: 'Job', phone: 'title', text: formatRun, href: (one) => `#/jobs/${encodePath(formatRun(one))}`, sortBy: formatRun },
      { name: 'State', phone: 'state', text: ({ state }) => state, state: ({ state }) => states[state], sortBy: ({ state }) => state },
      { name: 'Event', text: ({ event }) => event, sortBy: ({ event }) => event },
      { name: 'Age', number: true, text: ({ time }) => formatElapsed(time), sortBy: ({ time }) => -Date.parse(time) },
      { name: 'To', text: ({ to }) => to, sortBy: ({ to }) => to },
      { name: 'Tries', number: true, text: ({ attempts }) => String(attempts), sortBy: ({ attempts }) => attempts },
      { name: 'Next', number: true, text: formatNext },
      { name: 'Error', class: 'wide', phone: 'wide', text: ({ error = '' }) => error },
      { name: 'Actions', phone: 'wide', draw: (cell, one) => drawNotificationActions(cell, store, one) },
    ],
  });
  const note = createElement('p', { class: 'note' });
  const stopUpdates = store.lists.keepUpdated('notifications');
  const update = () => {
    if (store.lists.notifications?.some(isDue)) store.lists.request('notifications'); // no event reports the end of a delivery
    setText(note, store.lists.unavailable.get('notifications') ?? 'Delivered ones are not kept. A retry begins a new round of attempts.');
    list.update(store.lists.notifications ?? [], store.lists.notifications !== null);
  };
  return { title: 'Notifications', node: createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Notifications'), note, list.node), update, close: stopUpdates };
}

function formatRun({ job, run }) {
  return run > 1 ? `${job}@${run}` : job;
}

function formatNext(one) {
  if (one.state === 'failed') return 'never';
  return isDue(one) ? 'now' : `in ${formatDuration((Date.parse(one.next) - Date.now()) / 1000)}`;
}

// isDue reports whether the next attempt is being made or will be soon.
function isDue({ state, next }) {
  return state !== 'failed' && !(Date.parse(next) > Date.now());
}

function drawNotificationActions(cell, store, one) {
  const path = `v1/notifications/${encodePath(one.id)}`;
  const refresh = () => store.lists.request('notifications', true);
  const actions = store.canAct && canChange(store.identity, one) ? [
    {
      label: 'Retry',
      open: () => openDialog({ title: `Deliver to ${one.to} again?`, confirmLabel: 'Retry delivery', command: `mesos-gpu notifications retry ${one.id}`, run: () => sendJSON('POST', `${path}/retry`).then(refresh) }),
    },
    {
      label: 'Drop', danger: true,
      open: () => openDialog({ title: `Drop the notification to ${one.to}?`, text: 'It is not delivered.', confirmLabel: 'Drop notification', danger: true, command: `mesos-gpu notifications drop ${one.id}`, run: () => sendJSON('DELETE', path).then(refresh) }),
    },
  ] : [];
  drawActions(cell, actions);
  cell.hidden = false;
  setAttribute(cell, 'data-empty', actions.length === 0);
}
