// Signing in and out, and the menu with the user's permissions and the color scheme.
import { setAttribute, createElement, createButton, syncChildren, setText } from './dom.js';
import { sendJSON } from './api.js';
import { describePermissions, hasPermissionOnAnyRole } from './permissions.js';
import { storeToken, startSignIn, takeSignInResult } from './session.js';

const themeKey = 'mesos-gpu.theme';
const themes = [['', 'As the system'], ['light', 'Light'], ['dark', 'Dark']];

// setUpAccount connects the sign-in form and the menu with the store, and returns a function
// that updates them.
export function setUpAccount(store) {
  const section = document.getElementById('sign-in');
  const note = document.getElementById('sign-in-note');
  const oidc = document.getElementById('sign-in-oidc');
  const submit = document.getElementById('submit');
  const form = section.querySelector('form');
  const menu = createMenu(store);
  let flowError = '';
  const update = () => {
    const { identity } = store;
    section.hidden = !store.unauthorized;
    setAttribute(document.body, 'data-signed-out', store.unauthorized);
    setText(note, flowError || describeSignIn(store));
    oidc.hidden = !identity?.oidc?.authorization_endpoint;
    if (!oidc.hidden) setText(oidc.firstChild, `Sign in with ${new URL(identity.oidc.issuer).host}`);
    submit.hidden = !store.canAct || !hasPermissionOnAnyRole(identity, 'submit');
    menu.update();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    flowError = '';
    storeToken(new FormData(form).get('token'));
    form.reset();
    form.elements.token.focus();
    store.checkingToken = true;
    update();
    store.retry();
  });
  oidc.firstChild.addEventListener('click', () => {
    startSignIn(store.identity.oidc).catch((err) => { flowError = err.message; update(); });
  });
  const finish = async ({ exchange, error }) => {
    try {
      if (error) throw new Error(error);
      storeToken((await sendJSON('POST', 'v1/sign-in', exchange)).token);
    } catch (err) {
      flowError = `Not signed in: ${err.message}`;
    }
    store.retry();
    update();
  };
  const result = takeSignInResult();
  return { update, ready: result ? finish(result) : Promise.resolve() };
}

function describeSignIn(store) {
  if (store.checkingToken) return 'Checking the token…';
  return store.signedIn ? 'The scheduler rejected this token: enter another one.' : 'The scheduler requires a token: enter one.';
}

function createMenu(store) {
  const menu = document.getElementById('account');
  const user = createElement('b');
  const permissions = createElement('ul', { class: 'permissions' });
  const signOut = createButton('Sign out', () => { menu.open = false; store.signOut(); });
  const theme = createElement('select', { on: { change: (e) => { localStorage.setItem(themeKey, e.target.value); applyTheme(); } } },
    ...themes.map(([value, label]) => createElement('option', { value, selected: value === (localStorage.getItem(themeKey) ?? '') }, label)));
  menu.append(createElement('div', { class: 'menu-content' }, user, permissions,
    createElement('label', { class: 'field' }, createElement('span', {}, 'Colors'), theme),
    createElement('a', { href: 'v1/openapi.yaml' }, 'REST API'), signOut));
  menu.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !menu.open) return;
    menu.open = false;
    menu.firstChild.focus();
  });
  document.addEventListener('click', (event) => { if (!menu.contains(event.target)) menu.open = false; });
  applyTheme();
  const update = () => {
    const { identity } = store;
    const name = identity?.user || (identity && !identity.access_control ? 'Everyone is admin' : 'Not signed in');
    setText(user, name);
    setText(menu.firstChild, identity?.user || 'Account');
    syncChildren(permissions, identity?.access_control ? describePermissions(identity) : [], String, (text) => createElement('li', {}, text), () => {});
    signOut.hidden = !store.signedIn;
  };
  return { update };
}

function applyTheme() {
  setAttribute(document.documentElement, 'data-theme', localStorage.getItem(themeKey) || null);
}
