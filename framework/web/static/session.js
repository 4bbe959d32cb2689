// The session of this tab. Its token is in sessionStorage and is sent only in the
// Authorization header: there is no cookie that a page of another site could use.
const tokenKey = 'mesos-gpu.token';
const flowKey = 'mesos-gpu.sign-in';

// readToken returns the token, or null.
export function readToken() {
  return sessionStorage.getItem(tokenKey);
}

// storeToken keeps a token until the tab is closed.
export function storeToken(token) {
  sessionStorage.setItem(tokenKey, token);
}

// removeToken ends the session.
export function removeToken() {
  sessionStorage.removeItem(tokenKey);
}

// startSignIn navigates to the OIDC issuer, which returns with an authorization code. The
// state proves that this tab has requested the code, and PKCE that no other client can use it.
export async function startSignIn({ authorization_endpoint: endpoint, client_id: client, scopes }) {
  const flow = { state: randomText(), verifier: randomText(), hash: location.hash };
  sessionStorage.setItem(flowKey, JSON.stringify(flow));
  const url = new URL(endpoint);
  const parameters = {
    response_type: 'code', client_id: client, scope: scopes, redirect_uri: redirectURI(), state: flow.state,
    code_challenge: await hashVerifier(flow.verifier), code_challenge_method: 'S256',
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  location.assign(url);
}

// takeSignInResult returns the answer of the issuer in the page's address, and removes it
// from the address: { exchange } with the body of POST /v1/sign-in, { error }, or null.
export function takeSignInResult() {
  const answer = new URLSearchParams(location.search);
  if (!answer.has('state')) return null;
  const flow = JSON.parse(sessionStorage.getItem(flowKey) ?? 'null');
  sessionStorage.removeItem(flowKey);
  history.replaceState(null, '', redirectURI() + (flow?.hash ?? ''));
  if (!flow || flow.state !== answer.get('state')) return { error: 'the sign-in was not started in this tab: sign in again' };
  if (answer.has('error')) return { error: answer.get('error_description') ?? answer.get('error') };
  return { exchange: { code: answer.get('code') ?? '', code_verifier: flow.verifier, redirect_uri: redirectURI() } };
}

// redirectURI is the address to which the issuer returns. It must be registered there.
function redirectURI() {
  return location.origin + location.pathname;
}

function randomText() {
  return encodeBytes(crypto.getRandomValues(new Uint8Array(32)));
}

async function hashVerifier(verifier) {
  return encodeBytes(new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier))));
}

// encodeBytes is base64url without padding.
function encodeBytes(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}
