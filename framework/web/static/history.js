// The use of the cluster's GPUs by type over time, as the scheduler has recorded it.
import { createElement, formatNumber, setText } from './dom.js';
import { fetchJSON } from './api.js';
import { createTimeChart } from './chart.js';
import { hueOfSeries } from './color.js';
import { readParameter, writeParameter } from './url_state.js';

const hour = 3600 * 1000; // milliseconds
const ranges = { '1 h': 1, '24 h': 24, '7 days': 168, '30 days': 720 };
const pollInterval = 60 * 1000;

// createClusterHistory creates the chart with the choice of its range.
export function createClusterHistory() {
  const chart = createTimeChart({ label: 'GPUs in use by type', format: (value) => formatNumber(Math.round(value)) });
  const note = createElement('p', { class: 'note' });
  let hours = Number(readParameter('hours', '24'));
  let automatic = readParameter('hours') === ''; // a new cluster shows its first hour
  const inputs = Object.values(ranges).map((value) => createElement('input', { type: 'radio', name: 'range', checked: value === hours, on: { change: () => choose(value) } }));
  const choices = Object.keys(ranges).map((label, i) => createElement('label', { class: 'chip' }, inputs[i], ' ', label));
  const node = createElement('div', {}, createElement('div', { class: 'chips', role: 'group', 'aria-label': 'Time range' }, ...choices), chart.node, note);
  const controller = new AbortController();
  let last = null; // the latest answer
  let requested = 0; // when it was requested; 0 for never
  let hues = new Map();
  let notify = () => {};
  const choose = (value) => {
    hours = value;
    automatic = false;
    writeParameter('hours', value === 24 ? '' : String(value));
    request();
  };
  const request = async () => {
    requested = Date.now();
    const wanted = hours;
    try {
      const answer = await fetchJSON(`v1/usage/history?hours=${wanted}`, controller.signal);
      if (wanted !== hours) return;
      if (automatic && !(Date.now() - 1000 * answer.times[0] > hour)) {
        automatic = false;
        hours = 1;
        inputs[0].checked = true;
        await request();
        return;
      }
      automatic = false;
      last = answer;
      setText(note, '');
    } catch (err) {
      if (controller.signal.aborted) return;
      setText(note, `No history: ${err.message}`);
    }
    draw();
    notify();
  };
  const draw = () => {
    const end = Date.now();
    const times = (last?.times ?? []).map((time) => 1000 * time);
    const series = last ? listSeries(last, hues) : [];
    chart.update({ times, series, start: end - hours * hour, end, maximum: series.length ? findMaximum(series) : undefined });
  };
  const update = (store, typeHues) => {
    hues = typeHues;
    notify = () => store.notifyListeners();
    if (store.health?.role === 'standby') {
      setText(note, 'Only the leading scheduler reports the history.');
    } else if (store.loads > 0 && !document.hidden && Date.now() - requested > pollInterval) {
      request();
    }
  };
  return { node, update, latest: () => last && findLatest(last), close: () => controller.abort() };
}

// listSeries returns an area for each type and lines for all GPUs and the wanted ones.
function listSeries({ types, waiting_gpus: waiting }, hues) {
  const sum = waiting.map((_, i) => types.reduce((all, type) => all + (type.gpus[i] ?? 0), 0));
  return [
    ...types.map(({ type, held }, i) => ({ name: type, class: 'area', hue: hues.get(type) ?? hueOfSeries(i), values: held, stacked: true })),
    { name: 'offered', class: 'all', values: sum },
    { name: 'wanted by waiting tasks', class: 'wanted', values: waiting },
  ];
}

// findMaximum returns the top of the scale. What waiting tasks want may be far above what exists:
// the line then leaves the chart at the top.
function findMaximum(series) {
  const [offered, wanted] = series.slice(-2).map(({ values }) => Math.max(1, ...values));
  return Math.max(offered, Math.min(wanted, 1.5 * offered));
}

// findLatest returns the duty of the GPUs in use, by type and of all, at the latest time.
function findLatest({ types, times }) {
  const i = times.length - 1;
  const known = types.filter(({ duty, held }) => i >= 0 && typeof duty[i] === 'number' && held[i] > 0);
  const gpus = known.reduce((all, { held }) => all + held[i], 0);
  return {
    types: Object.fromEntries(known.map(({ type, duty }) => [type, duty[i]])),
    duty: gpus ? known.reduce((all, { duty, held }) => all + duty[i] * held[i], 0) / gpus : undefined,
  };
}
