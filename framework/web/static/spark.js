// Draws one value over the last minutes: a small chart with its scale and the
// current value, and the same as text for screen readers.
import { setAttribute, createElement, createSVG, setText } from './dom.js';

const width = 300;
const height = 60;

// createSparkline creates a chart. A point has age, in seconds, and value, null if
// unknown.
export function createSparkline(name) {
  const area = createSVG('path', { class: 'area' });
  const line = createSVG('path', { class: 'line' });
  const half = createSVG('path', { class: 'half', d: `M0 ${height / 2}H${width}` });
  const drawing = createSVG('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img' }, half, area, line);
  const now = createElement('b');
  const most = createElement('span');
  const node = createElement('figure', { class: 'spark' }, createElement('figcaption', {}, createElement('span', {}, name), ' ', now), drawing, createElement('div', { class: 'ends', 'aria-hidden': 'true' }, most, createElement('span', {}, '0')));
  const update = ({ points, top, write, minutes, current }) => {
    const known = points.filter((p) => p.value !== null);
    const runs = splitRuns(known, 60 * minutes);
    setText(now, current);
    setText(most, top ? write(top) : '');
    setAttribute(line, 'd', runs.map((run) => runPath(run, top)).join(''));
    setAttribute(area, 'd', runs.map((run) => `${runPath(run, top)}V${height}H${run[0].x}Z`).join(''));
    setAttribute(drawing, 'aria-label', describeValues(name, known, write, current));
  };
  return { node, update };
}

// splitRuns splits the points at gaps that are longer than usual.
function splitRuns(points, seconds) {
  const runs = [];
  const pauses = points.slice(1).map((p, i) => points[i].age - p.age).sort((a, b) => a - b);
  const gap = Math.max(60, 3 * (pauses[pauses.length >> 1] ?? 0));
  points.forEach((p, i) => {
    const point = { x: (width * Math.max(0, 1 - p.age / seconds)).toFixed(1), value: p.value };
    if (i === 0 || points[i - 1].age - p.age > gap) runs.push([]);
    runs.at(-1).push(point);
  });
  return runs;
}

function runPath(run, top) {
  const points = run.map(({ x, value }) => `${x},${(height - 1 - (height - 2) * Math.min(1, value / (top || 1))).toFixed(1)}`);
  return `M${points.join('L')}${run.length === 1 ? 'h-3' : ''}`; // one alone is a dot
}

function describeValues(name, points, write, current) {
  if (points.length === 0) return `${name}: nothing is known`;
  const values = points.map((p) => p.value);
  const mean = values.reduce((a, b) => a + b) / values.length;
  const minutes = Math.max(1, Math.round(points[0].age / 60));
  return `${name} now ${current}; in the last ${minutes === 1 ? 'minute' : `${minutes} minutes`} ${write(Math.min(...values))} to ${write(Math.max(...values))}, on average ${write(mean)}`;
}
