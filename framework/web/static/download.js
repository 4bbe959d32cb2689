// Saves files of the API.
import { createElement } from './dom.js';
import { fetchResponse } from './api.js';

// saveFile saves what the API has at a path. The request needs the token, so that a link is not
// enough.
export async function saveFile(path, name) {
  saveBlob(await (await fetchResponse(path)).blob(), name);
}

// saveText saves a text.
export function saveText(text, name) {
  saveBlob(new Blob([text], { type: 'text/plain' }), name);
}

function saveBlob(blob, name) {
  const url = URL.createObjectURL(blob);
  createElement('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
