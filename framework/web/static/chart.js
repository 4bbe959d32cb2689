// Draws values over time: stacked areas and lines, with a readout at the pointer.
import { setAttribute, createElement, createSVG, formatClock, formatTime, syncChildren, setText } from './dom.js';

const width = 600;
const height = 150;
const tickCount = 3;

// createTimeChart creates a chart. update receives times, in milliseconds, and series: each
// has a name, a class, values (null if unknown) and, for a stacked area, stacked: true.
export function createTimeChart({ label, format }) {
  const paths = createSVG('g');
  const cursor = createSVG('path', { class: 'cursor' });
  const drawing = createSVG('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': label }, createSVG('path', { class: 'grid', d: [1, 2, 3].map((i) => `M0 ${i * height / 4}H${width}`).join('') }), paths, cursor);
  const maximumLabel = createElement('span');
  const ticks = Array.from({ length: tickCount + 1 }, () => createElement('span'));
  const readout = createElement('p', { class: 'readout' });
  const key = createElement('ul', { class: 'key' });
  const node = createElement('figure', { class: 'chart' }, key,
    createElement('div', { class: 'plot' }, createElement('div', { class: 'ends', 'aria-hidden': 'true' }, maximumLabel, createElement('span', {}, '0')), drawing),
    createElement('div', { class: 'axis', 'aria-hidden': 'true' }, ...ticks), readout);
  let shown = { times: [], series: [] };
  drawing.addEventListener('pointermove', (event) => {
    const { left, width: drawn } = drawing.getBoundingClientRect();
    const i = nearestTime(shown.times, shown.start + (shown.end - shown.start) * (event.clientX - left) / drawn);
    if (i < 0) return;
    setAttribute(cursor, 'd', `M${xOf(shown.times[i], shown)} 0V${height}`);
    setText(readout, describePoint(shown, i, format));
  });
  drawing.addEventListener('pointerleave', () => {
    setAttribute(cursor, 'd', '');
    setText(readout, describeLast(shown, format));
  });
  const update = ({ times, series, start, end, maximum }) => {
    const stacked = stackSeries(series);
    const highest = maximum ?? Math.max(1, ...stacked.flatMap(({ tops }) => tops.map((value) => value ?? 0)));
    shown = { times, series, start, end };
    setText(maximumLabel, times.length ? format(highest) : '');
    drawTicks(ticks, start, end);
    syncChildren(key, series, ({ name }) => name, ({ name, class: style, hue }) => setHue(createElement('li', { class: style }, name), hue), () => {});
    syncChildren(paths, stacked, ({ name }) => name, ({ class: style, hue }) => setHue(createSVG('path', { class: style }), hue), (path, one) => setAttribute(path, 'd', pathOf(one, shown, highest)));
    setText(readout, describeLast(shown, format));
    setAttribute(drawing, 'aria-label', `${label}. ${describeLast(shown, format)}`);
  };
  return { node, update };
}

// drawTicks labels times at equal distances.
export function drawTicks(labels, start, end) {
  const format = end - start < 10 * 60 * 1000 ? formatClock : formatTime;
  labels.forEach((label, i) => setText(label, i === labels.length - 1 && end > Date.now() - 60 * 1000 ? 'now' : format(start + (end - start) * i / (labels.length - 1))));
}

// setHue gives a series the color of its name.
function setHue(node, hue) {
  if (hue !== undefined) node.style.setProperty('--hue', hue);
  return node;
}

// stackSeries adds to each stacked series the ones before it.
function stackSeries(series) {
  let below = null;
  return series.map((one) => {
    if (!one.stacked) return { ...one, tops: one.values };
    const bottoms = below;
    const tops = one.values.map((value, i) => (value === null ? null : value + (bottoms?.[i] ?? 0)));
    below = tops;
    return { ...one, tops, bottoms };
  });
}

function xOf(time, { start, end }) {
  return (width * (time - start) / (end - start)).toFixed(1);
}

// pathOf returns the path of a series, with gaps where values are unknown.
function pathOf({ tops, bottoms, stacked }, shown, highest) {
  const yOf = (value) => (height - 1 - (height - 3) * Math.min(1, value / highest)).toFixed(1);
  return splitRuns(shown.times, tops).map((run) => {
    const line = run.map((i) => `${xOf(shown.times[i], shown)},${yOf(tops[i])}`).join('L');
    if (!stacked) return `M${line}${run.length === 1 ? 'h1' : ''}`;
    const back = run.toReversed().map((i) => `${xOf(shown.times[i], shown)},${yOf(bottoms?.[i] ?? 0)}`).join('L');
    return `M${line}L${back}Z`;
  }).join('');
}

// splitRuns returns the indexes of known values, split where one is unknown or time is missing.
function splitRuns(times, values) {
  const intervals = times.slice(1).map((time, i) => time - times[i]).sort((a, b) => a - b);
  const gap = 3 * (intervals[intervals.length >> 1] ?? 0);
  const runs = [];
  let previous = -1;
  values.forEach((value, i) => {
    if (value === null) return;
    if (previous !== i - 1 || previous < 0 || times[i] - times[previous] > gap) runs.push([]);
    runs.at(-1).push(i);
    previous = i;
  });
  return runs;
}

function nearestTime(times, time) {
  let best = -1;
  times.forEach((one, i) => { if (best < 0 || Math.abs(one - time) < Math.abs(times[best] - time)) best = i; });
  return best;
}

function describePoint({ times, series }, i, format) {
  return `${formatTime(times[i])}: ${series.filter(({ values }) => values[i] !== null).map(({ name, values }) => `${name} ${format(values[i])}`).join(', ')}`;
}

function describeLast(shown, format) {
  return shown.times.length ? describePoint(shown, shown.times.length - 1, format) : 'Nothing is recorded yet.';
}
