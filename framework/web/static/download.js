// Saves files of the API.
import { createElement } from './dom.js';
import { fetchResponse } from './api.js';

// saveFile saves what the API has at a path. The request needs the token, so that a link is not
// enough.
export async function saveFile(path, name) {
  const url = URL.createObjectURL(await (await fetchResponse(path)).blob());
  createElement('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
