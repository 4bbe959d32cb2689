// Starts the page: routes the address to a view, and shows the state of the
// connection to the scheduler.
import { setUpAccount } from './account.js';
import { setAttribute, createElement, formatDuration, setText } from './dom.js';
import { Store } from './store.js';
import { renderOverview } from './overview.js';
import { renderQueue } from './queue.js';
import { renderJobs } from './jobs.js';
import { renderJob } from './job.js';
import { renderAgent, renderAgents } from './agents.js';
import { renderRoles } from './roles.js';
import { renderSchedules } from './schedules.js';
import { renderAccounting } from './accounting.js';
import { renderSubmit } from './submit.js';
import { renderApply } from './apply.js';
import { renderNotifications } from './notifications.js';

const maxCurrentAge = 10; // seconds; the banner reports the age of an older copy of a standby

const routes = [
  [/^\/?$/, renderOverview],
  [/^\/queue$/, renderQueue],
  [/^\/jobs$/, renderJobs],
  [/^\/jobs\/([^/]+)$/, renderJob],
  [/^\/jobs\/([^/]+)\/tasks\/([^/]+)$/, renderJob],
  [/^\/jobs\/([^/]+)\/apply$/, renderApply],
  [/^\/agents$/, renderAgents],
  [/^\/agents\/([^/]+)$/, renderAgent],
  [/^\/(?:roles|quotas)$/, renderRoles],
  [/^\/schedules$/, renderSchedules],
  [/^\/usage$/, renderAccounting],
  [/^\/notifications$/, renderNotifications],
  [/^\/submit$/, renderSubmit],
];

const store = new Store();
const main = document.getElementById('main');
const banner = document.getElementById('banner');
const connection = document.getElementById('stream');
let closeView = () => {};

// showRoute shows the view of the address. After a navigation it moves the focus to the
// heading, for screen readers.
function showRoute(isNavigation) {
  const address = location.hash.replace(/^#/, '').split('?')[0];
  closeView();
  const view = createView(address);
  main.replaceChildren(view.node);
  document.title = `${view.title} · mesos-gpu`;
  for (const link of document.querySelectorAll('nav a')) {
    const target = link.hash.slice(1);
    const current = target === '/' ? /^\/?$/.test(address) : address.startsWith(target);
    setAttribute(link, 'aria-current', current && 'page');
    if (current) link.scrollIntoView({ block: 'nearest', inline: 'nearest' }); // on a phone the links scroll
  }
  const stopWatching = store.watch(() => {
    setAttribute(main, 'data-unknown', store.loads === 0 && !view.showsBeforeLoad);
    view.update();
  });
  closeView = () => { stopWatching(); view.close?.(); };
  if (isNavigation) view.node.querySelector('h2').focus();
}

function createView(address) {
  for (const [pattern, renderView] of routes) {
    const match = pattern.exec(address);
    if (match) return renderView(store, ...match.slice(1).map(decodeSegment));
  }
  return { title: 'Page not found', showsBeforeLoad: true, update: () => {}, node: createElement('div', {}, createElement('h2', { tabindex: -1 }, 'There is no such page'), createElement('p', {}, createElement('a', { href: '#/' }, 'To the overview'))) };
}

function decodeSegment(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function showConnection() {
  const { streaming, streamError, health, age } = store;
  const state = streaming ? (health?.role === 'standby' ? 'standby' : 'live') : streamError ? 'down' : 'connecting';
  setAttribute(connection, 'data-state', state);
  setText(connection, state === 'connecting' ? 'connecting…' : state);
  setText(banner, describeConnection({ streaming, streamError, health, age }));
  banner.hidden = !banner.textContent;
  account.update();
}

function describeConnection({ streaming, streamError, health, age }) {
  if (store.unauthorized) return '';
  if (streamError && !streaming) return `${store.loads ? 'Out of date' : 'Not connected'}: ${streamError}. Trying again.`;
  if (!health || !streaming) return '';
  if (health.role === 'standby') {
    const ageNote = age !== null && age > maxCurrentAge ? ` Its copy is ${formatDuration(age)} old.` : '';
    return `This scheduler stands by${health.leader ? `; ${health.leader} leads` : ''}.${ageNote}`;
  }
  return health.connected ? '' : 'The scheduler has no connection to a Mesos master: nothing new starts.';
}

const account = setUpAccount(store);
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener('hashchange', () => showRoute(true));
document.addEventListener('visibilitychange', () => { if (!document.hidden) store.refreshHardware(); });
window.addEventListener('online', () => store.retry());
store.watch(showConnection);
showRoute(false);
account.ready.then(() => store.run());
