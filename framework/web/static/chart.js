// Records the counts of the last minutes while the page is open, and draws
// them.
import { attribute, el, number, svg, text } from './dom.js';
import { keptBack, survey } from './cluster.js';

const every = 5; // seconds
const kept = 180; // samples: 15 minutes
const fewest = 12; // samples that fill the chart
const width = 600;
const height = 120;

const samples = [];

// sample records the counts periodically, once they are known.
export function sample(store) {
  const note = () => {
    if (!store.streaming || store.loads === 0) return;
    const { total, wanted } = survey(store);
    samples.push({ time: Date.now(), used: total.used + total.other, shared: total.shared, all: total.all - keptBack(total), wanted });
    if (samples.length > kept) samples.shift();
    store.changed();
  };
  store.watch(() => { if (samples.length === 0) note(); });
  setInterval(note, every * 1000);
}

// chart draws the GPUs in use as an area below the number of GPUs, and the
// requested GPUs as a line.
export function chart() {
  const area = svg('path', { class: 'area' });
  const all = svg('path', { class: 'all' });
  const wanted = svg('path', { class: 'wanted' });
  const drawing = svg('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img' }, area, all, wanted);
  const top = el('span');
  const from = el('span');
  const node = el('figure', { class: 'chart' },
    el('figcaption', {}, 'GPUs in the last minutes, since this page was opened: ',
      el('span', { class: 'key area' }, 'in use'), ', ', el('span', { class: 'key all' }, 'offered'), ', ', el('span', { class: 'key wanted' }, 'wanted by waiting tasks')),
    el('div', { class: 'scale' }, top), drawing, el('div', { class: 'scale' }, from, el('span', {}, 'now')));
  return { node, update: () => draw({ area, all, wanted, drawing, top, from }) };
}

function draw(parts) {
  const last = samples.at(-1);
  if (!last) {
    text(parts.from, 'nothing sampled yet');
    return;
  }
  const most = Math.max(1, ...samples.map((s) => Math.max(s.all, s.wanted)));
  text(parts.top, number(most));
  const minutes = Math.round((last.time - samples[0].time) / 60000);
  text(parts.from, minutes < 1 ? 'less than a minute ago' : `${minutes} min ago`);
  const line = (value) => pathOf(samples.map(value), most);
  attribute(parts.all, 'd', line((s) => s.all));
  attribute(parts.wanted, 'd', line((s) => s.wanted));
  attribute(parts.area, 'd', `${line((s) => s.used + s.shared)}V${height}H${xOf(0)}Z`);
  attribute(parts.drawing, 'aria-label', `${number(last.used + last.shared)} of ${number(last.all)} GPUs in use, ${number(last.wanted)} wanted by waiting tasks`);
}

// xOf puts the newest sample at the right edge. In the first minutes the
// samples fill the whole width.
function xOf(i) {
  const shown = Math.max(samples.length, fewest);
  return width * (1 - (samples.length - 1 - i) / (shown - 1));
}

function pathOf(values, most) {
  const points = values.map((v, i) => `${xOf(i).toFixed(1)},${(height - 2 - (height - 4) * v / most).toFixed(1)}`);
  return `M${points.join('L')}`;
}
