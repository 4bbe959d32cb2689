// Starts the page: routes the address to a view, and shows the state of the
// connection to the scheduler.
import { signIn, signedIn } from './api.js';
import { attribute, el, span, text } from './dom.js';
import { Store } from './store.js';
import { overview } from './overview.js';
import { queue } from './queue.js';
import { jobs } from './jobs.js';
import { job } from './job.js';
import { agent, agents } from './agents.js';
import { quotas } from './quotas.js';
import { sample } from './chart.js';

const stale = 10; // seconds; a standby's copy that is older counts as old

const routes = [
  [/^\/?$/, overview],
  [/^\/queue$/, queue],
  [/^\/jobs$/, jobs],
  [/^\/jobs\/([^/]+)$/, job],
  [/^\/jobs\/([^/]+)\/tasks\/([^/]+)$/, job],
  [/^\/agents$/, agents],
  [/^\/agents\/([^/]+)$/, agent],
  [/^\/quotas$/, quotas],
];

const store = new Store();
const main = document.getElementById('main');
const banner = document.getElementById('banner');
const stream = document.getElementById('stream');
const form = document.getElementById('sign-in');
let leave = () => {};

// route shows the view of the address.
function route(byPerson) {
  const address = location.hash.replace(/^#/, '');
  leave();
  const view = viewOf(address);
  main.replaceChildren(view.node);
  document.title = `${view.title} · mesos-gpu`;
  for (const link of document.querySelectorAll('nav a')) {
    const target = link.hash.slice(1);
    attribute(link, 'aria-current', target === '/' ? /^\/?$/.test(address) && 'page' : address.startsWith(target) && 'page');
  }
  const unwatch = store.watch(() => {
    attribute(main, 'data-unknown', store.loads === 0 && !view.early);
    view.update();
  });
  leave = () => { unwatch(); view.close?.(); };
  if (byPerson) view.node.querySelector('h2').focus();
}

function viewOf(address) {
  for (const [pattern, make] of routes) {
    const found = pattern.exec(address);
    if (found) return make(store, ...found.slice(1).map(decode));
  }
  return { title: 'Nothing there', early: true, update: () => {}, node: el('div', {}, el('h2', { tabindex: -1 }, 'There is no such page'), el('p', {}, el('a', { href: '#/' }, 'To the overview'))) };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function showStream() {
  const { streaming, trouble, health, age } = store;
  const state = streaming ? (health?.role === 'standby' ? 'standby' : 'live') : trouble ? 'down' : 'connecting';
  attribute(stream, 'data-state', state);
  text(stream, state === 'connecting' ? 'connecting…' : state);
  text(banner, bannerOf({ streaming, trouble, health, age }));
  banner.hidden = !banner.textContent;
  form.hidden = !store.denied;
}

function tokenAsked() {
  if (store.signing) return 'Asking with that token…';
  return signedIn() ? 'The scheduler does not take that token: give another.' : 'The scheduler wants to know who asks: give a token.';
}

function bannerOf({ streaming, trouble, health, age }) {
  if (store.denied) return tokenAsked();
  if (trouble && !streaming) return `${store.loads ? 'Out of date' : 'Not connected'}: ${trouble}. Trying again.`;
  if (!health || !streaming) return '';
  if (health.role === 'standby') {
    const old = age !== null && age > stale ? ` Its copy is ${span(age)} old.` : '';
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
window.addEventListener('hashchange', () => route(true));
document.addEventListener('visibilitychange', () => { if (!document.hidden) store.hardware(); });
window.addEventListener('online', () => store.retry());
store.watch(showStream);
route(false);
sample(store);
store.run();
