// Draws what ran when: a row for each task or GPU, a bar for each attempt.
import { createElement, formatDuration, formatTime, setAttribute, syncChildren, setText } from './dom.js';
import { drawTicks } from './chart.js';

const maxRows = 64;

// createTimeline creates a chart of bars. update receives rows with a key, a label and bars; a
// bar has a key, state, text, and from and until in milliseconds, and the hue of a color that it
// has instead of that of its state. Bars are no links: short
// ones would be too small for a pointer, and tables have the links.
export function createTimeline(title, untilNow = false) {
  const list = createElement('ul', { class: 'timeline' });
  const ticks = Array.from({ length: 4 }, () => createElement('span'));
  const note = createElement('p', { class: 'note' });
  const node = createElement('section', { class: 'card' }, createElement('h3', {}, title), list, createElement('div', { class: 'axis', 'aria-hidden': 'true' }, ...ticks), note);
  const update = (rows) => {
    const bars = rows.flatMap((row) => row.bars);
    node.hidden = bars.length === 0;
    if (node.hidden) return;
    const start = Math.min(...bars.map((bar) => bar.from));
    const end = Math.max(start + 1000, untilNow ? Date.now() : 0, ...bars.map((bar) => bar.until));
    drawTicks(ticks, start, end);
    setText(note, rows.length > maxRows ? `The first ${maxRows} of ${rows.length}` : '');
    note.hidden = rows.length <= maxRows;
    syncChildren(list, rows.slice(0, maxRows), (row) => row.key, () => createElement('li', {}, createElement('span'), createElement('div', { class: 'track' })), (item, row) => {
      setText(item.firstChild, row.label);
      syncChildren(item.lastChild, row.bars, (bar) => bar.key, () => createElement('i', { role: 'img' }), (node, bar) => drawBar(node, bar, start, end));
    });
  };
  return { node, update };
}

function drawBar(node, { state, text, hue, from, until }, start, end) {
  const label = `${text}: ${state}, ${formatTime(from)}, for ${formatDuration((until - from) / 1000)}`;
  setAttribute(node, 'data-state', state);
  setAttribute(node, 'data-colored', hue !== undefined);
  if (hue !== undefined) node.style.setProperty('--hue', hue);
  const part = (until - from) / (end - start);
  setText(node, part > 0.1 ? text : '');
  setAttribute(node, 'aria-label', label);
  setAttribute(node, 'title', label);
  node.style.setProperty('left', `${(100 * (from - start) / (end - start)).toFixed(2)}%`);
  node.style.setProperty('width', `${Math.max(0.4, 100 * part).toFixed(2)}%`);
}

// attemptBar returns the bar of a task's attempt, null if it was never placed.
export function attemptBar(task, text, hue) {
  const from = Date.parse(task.launched ?? task.started ?? '');
  if (!(from > 0)) return null;
  const ended = Date.parse(task.ended ?? '');
  return { key: task.id, state: task.state, text, hue, from, until: ended > 0 ? ended : Date.now() };
}
