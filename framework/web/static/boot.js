// Loads the page again if a script of it could not be loaded, for example because the connection was lost meanwhile.
addEventListener('error', ({ target }) => {
  if (!(target instanceof HTMLScriptElement)) return;
  document.getElementById('banner').textContent = 'A part of this page could not be loaded. Trying again.';
  setTimeout(() => location.reload(), 2000);
}, true);
