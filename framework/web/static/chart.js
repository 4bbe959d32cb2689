// Records the counts of the last minutes while the page is open, and draws
// them.
import { setAttribute, createElement, formatNumber, createSVG, setText } from './dom.js';
import { countWithheld, summarizeCluster } from './cluster.js';

const sampleInterval = 5; // seconds
const maxSamples = 180; // samples: 15 minutes
const minSamples = 12; // samples that fill the chart
const width = 600;
const height = 120;

const samples = [];

// recordSample records the counts periodically, once they are known.
export function recordSample(store) {
  const takeSample = () => {
    if (!store.streaming || store.loads === 0) return;
    const { total, gpus } = summarizeCluster(store);
    samples.push({ time: Date.now(), used: total.used + total.other, shared: total.shared, all: total.all - countWithheld(total), requested: gpus });
    if (samples.length > maxSamples) samples.shift();
    store.notifyListeners();
  };
  store.watch(() => { if (samples.length === 0) takeSample(); });
  setInterval(takeSample, sampleInterval * 1000);
}

// createChart draws the GPUs in use as an area below the number of GPUs, and the
// requested GPUs as a line.
export function createChart() {
  const area = createSVG('path', { class: 'area' });
  const all = createSVG('path', { class: 'all' });
  const wanted = createSVG('path', { class: 'wanted' });
  const drawing = createSVG('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img' }, area, all, wanted);
  const maximumLabel = createElement('span');
  const startLabel = createElement('span');
  const node = createElement('figure', { class: 'chart' },
    createElement('figcaption', {}, 'GPUs in the last minutes, since this page was opened: ',
      createElement('span', { class: 'key area' }, 'in use'), ', ', createElement('span', { class: 'key all' }, 'offered'), ', ', createElement('span', { class: 'key wanted' }, 'wanted by waiting tasks')),
    createElement('div', { class: 'scale' }, maximumLabel), drawing, createElement('div', { class: 'scale' }, startLabel, createElement('span', {}, 'now')));
  return { node, update: () => drawChart({ area, all, wanted, drawing, maximumLabel, startLabel }) };
}

function drawChart(elements) {
  const last = samples.at(-1);
  if (!last) {
    setText(elements.startLabel, 'nothing sampled yet');
    return;
  }
  const maximum = Math.max(1, ...samples.map((sample) => Math.max(sample.all, sample.requested)));
  setText(elements.maximumLabel, formatNumber(maximum));
  const minutes = Math.round((last.time - samples[0].time) / 60000);
  setText(elements.startLabel, minutes < 1 ? 'less than a minute ago' : `${minutes} min ago`);
  const line = (value) => linePath(samples.map(value), maximum);
  setAttribute(elements.all, 'd', line((sample) => sample.all));
  setAttribute(elements.wanted, 'd', line((sample) => sample.requested));
  setAttribute(elements.area, 'd', `${line((sample) => sample.used + sample.shared)}V${height}H${xPosition(0)}Z`);
  setAttribute(elements.drawing, 'aria-label', `${formatNumber(last.used + last.shared)} of ${formatNumber(last.all)} GPUs in use, ${formatNumber(last.requested)} wanted by waiting tasks`);
}

// xPosition puts the newest sample at the right edge. In the first minutes the
// samples fill the whole width.
function xPosition(i) {
  const shown = Math.max(samples.length, minSamples);
  return width * (1 - (samples.length - 1 - i) / (shown - 1));
}

function linePath(values, maximum) {
  const points = values.map((value, i) => `${xPosition(i).toFixed(1)},${(height - 2 - (height - 4) * value / maximum).toFixed(1)}`);
  return `M${points.join('L')}`;
}
