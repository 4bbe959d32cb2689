// Starts the page: routes the address to a view, and shows the state of the
// connection to the scheduler.
import { signIn, isSignedIn } from './api.js';
import { setAttribute, createElement, formatDuration, setText } from './dom.js';
import { Store } from './store.js';
import { renderOverview } from './overview.js';
import { renderQueue } from './queue.js';
import { renderJobs } from './jobs.js';
import { renderJob } from './job.js';
import { renderAgent, renderAgents } from './agents.js';
import { renderQuotas } from './quotas.js';
import { recordSample } from './chart.js';

const stale = 10; // seconds; a standby's copy that is older counts as old

const routes = [
  [/^\/?$/, renderOverview],
  [/^\/queue$/, renderQueue],
  [/^\/jobs$/, renderJobs],
  [/^\/jobs\/([^/]+)$/, renderJob],
  [/^\/jobs\/([^/]+)\/tasks\/([^/]+)$/, renderJob],
  [/^\/agents$/, renderAgents],
  [/^\/agents\/([^/]+)$/, renderAgent],
  [/^\/quotas$/, renderQuotas],
];

const store = new Store();
const main = document.getElementById('main');
const banner = document.getElementById('banner');
const stream = document.getElementById('stream');
const form = document.getElementById('sign-in');
let leave = () => {};

// showRoute shows the view of the address.
function showRoute(byPerson) {
  const address = location.hash.replace(/^#/, '');
  leave();
  const view = createView(address);
  main.replaceChildren(view.node);
  document.title = `${view.title} · mesos-gpu`;
  for (const link of document.querySelectorAll('nav a')) {
    const target = link.hash.slice(1);
    setAttribute(link, 'aria-current', target === '/' ? /^\/?$/.test(address) && 'page' : address.startsWith(target) && 'page');
  }
  const unwatch = store.watch(() => {
    setAttribute(main, 'data-unknown', store.loads === 0 && !view.early);
    view.update();
  });
  leave = () => { unwatch(); view.close?.(); };
  if (byPerson) view.node.querySelector('h2').focus();
}

function createView(address) {
  for (const [pattern, make] of routes) {
    const found = pattern.exec(address);
    if (found) return make(store, ...found.slice(1).map(decodePart));
  }
  return { title: 'Nothing there', early: true, update: () => {}, node: createElement('div', {}, createElement('h2', { tabindex: -1 }, 'There is no such page'), createElement('p', {}, createElement('a', { href: '#/' }, 'To the overview'))) };
}

function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function showStream() {
  const { streaming, trouble, health, age } = store;
  const state = streaming ? (health?.role === 'standby' ? 'standby' : 'live') : trouble ? 'down' : 'connecting';
  setAttribute(stream, 'data-state', state);
  setText(stream, state === 'connecting' ? 'connecting…' : state);
  setText(banner, describeStream({ streaming, trouble, health, age }));
  banner.hidden = !banner.textContent;
  form.hidden = !store.denied;
}

function needsToken() {
  if (store.signing) return 'Asking with that token…';
  return isSignedIn() ? 'The scheduler does not take that token: give another.' : 'The scheduler wants to know who asks: give a token.';
}

function describeStream({ streaming, trouble, health, age }) {
  if (store.denied) return needsToken();
  if (trouble && !streaming) return `${store.loads ? 'Out of date' : 'Not connected'}: ${trouble}. Trying again.`;
  if (!health || !streaming) return '';
  if (health.role === 'standby') {
    const old = age !== null && age > stale ? ` Its copy is ${formatDuration(age)} old.` : '';
    return `This scheduler stands by${health.leader ? `; ${health.leader} leads` : ''}.${old}`;
  }
  return health.connected ? '' : 'The scheduler has no connection to a Mesos master: nothing new starts.';
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  signIn(new FormData(form).get('token'));
  form.reset();
  form.elements.token.focus();
  store.signing = true;
  showStream();
  store.retry();
});
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener('hashchange', () => showRoute(true));
document.addEventListener('visibilitychange', () => { if (!document.hidden) store.refreshHardware(); });
window.addEventListener('online', () => store.retry());
store.watch(showStream);
showRoute(false);
recordSample(store);
store.run();
