// Records the counts of the last minutes while the page is open, and draws
// them.
import { setAttribute, createElement, formatNumber, createSVG, setText } from './dom.js';
import { describeWithheld, summarizeCluster } from './cluster.js';

const every = 5; // seconds
const kept = 180; // samples: 15 minutes
const fewest = 12; // samples that fill the chart
const width = 600;
const height = 120;

const samples = [];

// recordSample records the counts periodically, once they are known.
export function recordSample(store) {
  const note = () => {
    if (!store.streaming || store.loads === 0) return;
    const { total, wanted } = summarizeCluster(store);
    samples.push({ time: Date.now(), used: total.used + total.other, shared: total.shared, all: total.all - describeWithheld(total), wanted });
    if (samples.length > kept) samples.shift();
    store.notifyListeners();
  };
  store.watch(() => { if (samples.length === 0) note(); });
  setInterval(note, every * 1000);
}

// createChart draws the GPUs in use as an area below the number of GPUs, and the
// requested GPUs as a line.
export function createChart() {
  const area = createSVG('path', { class: 'area' });
  const all = createSVG('path', { class: 'all' });
  const wanted = createSVG('path', { class: 'wanted' });
  const drawing = createSVG('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img' }, area, all, wanted);
  const top = createElement('span');
  const from = createElement('span');
  const node = createElement('figure', { class: 'chart' },
    createElement('figcaption', {}, 'GPUs in the last minutes, since this page was opened: ',
      createElement('span', { class: 'key area' }, 'in use'), ', ', createElement('span', { class: 'key all' }, 'offered'), ', ', createElement('span', { class: 'key wanted' }, 'wanted by waiting tasks')),
    createElement('div', { class: 'scale' }, top), drawing, createElement('div', { class: 'scale' }, from, createElement('span', {}, 'now')));
  return { node, update: () => drawChart({ area, all, wanted, drawing, top, from }) };
}

function drawChart(parts) {
  const last = samples.at(-1);
  if (!last) {
    setText(parts.from, 'nothing sampled yet');
    return;
  }
  const most = Math.max(1, ...samples.map((s) => Math.max(s.all, s.wanted)));
  setText(parts.top, formatNumber(most));
  const minutes = Math.round((last.time - samples[0].time) / 60000);
  setText(parts.from, minutes < 1 ? 'less than a minute ago' : `${minutes} min ago`);
  const line = (value) => linePath(samples.map(value), most);
  setAttribute(parts.all, 'd', line((s) => s.all));
  setAttribute(parts.wanted, 'd', line((s) => s.wanted));
  setAttribute(parts.area, 'd', `${line((s) => s.used + s.shared)}V${height}H${xPosition(0)}Z`);
  setAttribute(parts.drawing, 'aria-label', `${formatNumber(last.used + last.shared)} of ${formatNumber(last.all)} GPUs in use, ${formatNumber(last.wanted)} wanted by waiting tasks`);
}

// xPosition puts the newest sample at the right edge. In the first minutes the
// samples fill the whole width.
function xPosition(i) {
  const shown = Math.max(samples.length, fewest);
  return width * (1 - (samples.length - 1 - i) / (shown - 1));
}

function linePath(values, most) {
  const points = values.map((v, i) => `${xPosition(i).toFixed(1)},${(height - 2 - (height - 4) * v / most).toFixed(1)}`);
  return `M${points.join('L')}`;
}
