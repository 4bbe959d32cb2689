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
  const midline = createSVG('path', { class: 'half', d: `M0 ${height / 2}H${width}` });
  const drawing = createSVG('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img' }, midline, area, line);
  const currentLabel = createElement('b');
  const maximumLabel = createElement('span');
  const node = createElement('figure', { class: 'spark' }, createElement('figcaption', {}, createElement('span', {}, name), ' ', currentLabel), drawing, createElement('div', { class: 'ends', 'aria-hidden': 'true' }, maximumLabel, createElement('span', {}, '0')));
  const update = ({ points, maximum, format, minutes, current }) => {
    const known = points.filter(({ value }) => value !== null);
    const runs = splitRuns(known, 60 * minutes);
    setText(currentLabel, current);
    setText(maximumLabel, maximum ? format(maximum) : '');
    setAttribute(line, 'd', runs.map((run) => runPath(run, maximum)).join(''));
    setAttribute(area, 'd', runs.map((run) => `${runPath(run, maximum)}V${height}H${run[0].x}Z`).join(''));
    setAttribute(drawing, 'aria-label', describeValues(name, known, format, current));
  };
  return { node, update };
}

// splitRuns splits the points where the interval is more than three times the median.
function splitRuns(points, seconds) {
  const runs = [];
  const intervals = points.slice(1).map((point, i) => points[i].age - point.age).sort((a, b) => a - b);
  const gap = Math.max(60, 3 * (intervals[intervals.length >> 1] ?? 0));
  points.forEach(({ age, value }, i) => {
    if (i === 0 || points[i - 1].age - age > gap) runs.push([]);
    runs.at(-1).push({ x: (width * Math.max(0, 1 - age / seconds)).toFixed(1), value });
  });
  return runs;
}

function runPath(run, maximum) {
  const points = run.map(({ x, value }) => `${x},${(height - 1 - (height - 2) * Math.min(1, value / (maximum || 1))).toFixed(1)}`);
  return `M${points.join('L')}${run.length === 1 ? 'h-3' : ''}`; // a single point is drawn as a dot
}

function describeValues(name, points, format, current) {
  if (points.length === 0) return `${name}: nothing is known`;
  const values = points.map(({ value }) => value);
  const mean = values.reduce((sum, value) => sum + value) / values.length;
  const minutes = Math.max(1, Math.round(points[0].age / 60));
  return `${name} now ${current}; in the last ${minutes === 1 ? 'minute' : `${minutes} minutes`} ${format(Math.min(...values))} to ${format(Math.max(...values))}, on average ${format(mean)}`;
}
