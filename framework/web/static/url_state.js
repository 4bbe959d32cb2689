// Filters and orders of a view in the page's address, "#/jobs?state=RUNNING", so that a
// filtered list can be linked to.

// readParameter returns a parameter of the address, or the default.
export function readParameter(name, standard = '') {
  return new URLSearchParams(location.hash.split('?')[1] ?? '').get(name) ?? standard;
}

// writeParameter changes a parameter of the address without adding an entry to the history.
export function writeParameter(name, value) {
  const [path, query = ''] = location.hash.split('?');
  const parameters = new URLSearchParams(query);
  if (value) parameters.set(name, value);
  else parameters.delete(name);
  const text = parameters.toString();
  history.replaceState(history.state, '', path + (text && `?${text}`));
}
