// Who used the GPUs and how well: the ended attempts of tasks, summed up by role, user, job or type.
import { createElement, formatDuration, formatNumber, formatPercent, setText, syncChildren } from './dom.js';
import { createTable } from './table.js';
import { fetchJSON, encodePath } from './api.js';
import { hueOfSeries } from './color.js';
import { readParameter, writeParameter } from './url_state.js';

const day = 86400 * 1000; // milliseconds
const keys = { role: 'Role', user: 'User', type: 'GPU type', job: 'Job', host: 'Agent' };
const periods = { '24 h': 1, '7 days': 7, '30 days': 30, '90 days': 90 };
const maxRows = 300;
const maxSeries = 7; // series of the chart, without the sum of all others

export function renderAccounting(store) {
  let key = keys[readParameter('by')] ? readParameter('by') : 'role';
  let days = Number(readParameter('days')) || 30;
  let groups = [];
  let known = false;
  let lastLoad = 0; // value of store.loads at the last request
  const controller = new AbortController();
  const numbers = createElement('ul', { class: 'numbers', 'aria-label': 'Sums of the period' });
  const chart = createDayChart();
  const note = createElement('p', { class: 'note', 'aria-live': 'polite' });
  const list = createTable({
    caption: 'GPU time', empty: 'No task has ended in this period.', key: ({ name }) => name, sort: readParameter('sort', '-GPU time'), onSort: (order) => writeParameter('sort', order === '-GPU time' ? '' : order),
    columns: [
      { name: 'Name', phone: 'title', text: ({ name }) => name || 'unknown', href: linkOf, sortBy: ({ name }) => name },
      { name: 'GPU time', number: true, phone: 'state', draw: drawGPUTime, sortBy: (one) => one.gpu_seconds },
      { name: 'Not finished', number: true, text: (one) => (one.gpu_seconds ? formatPercent(one.unfinished_gpu_seconds / one.gpu_seconds) : ''), sortBy: (one) => one.unfinished_gpu_seconds },
      { name: 'Duty', number: true, text: ({ usage }) => formatRatio(usage.busy_gpu_seconds, usage.gpu_seconds), sortBy: ({ usage }) => usage.busy_gpu_seconds / (usage.gpu_seconds || 1) },
      { name: 'Memory', number: true, text: ({ usage }) => formatRatio(usage.mem_used_mib_seconds, usage.mem_mib_seconds), sortBy: ({ usage }) => usage.mem_used_mib_seconds / (usage.mem_mib_seconds || 1) },
      { name: 'Energy', number: true, text: ({ usage }) => formatEnergy(usage.joules), sortBy: ({ usage }) => usage.joules },
      { name: 'Attempts', number: true, phone: 'hide', text: (one) => formatNumber(one.attempts), sortBy: (one) => one.attempts },
      { name: 'Mean wait', number: true, phone: 'hide', text: (one) => (one.attempts ? formatDuration(one.wait_seconds / one.attempts) : ''), sortBy: (one) => one.wait_seconds / (one.attempts || 1) },
    ],
  });
  const request = async () => {
    const [by, since] = [key, new Date(Date.now() - days * day).toISOString()];
    try {
      const perDay = by !== 'job' && days > 1;
      const report = await fetchJSON(`v1/accounting?${new URLSearchParams({ by: perDay ? `day,${by}` : by, since })}`, controller.signal);
      if (by !== key) return;
      groups = sumGroups(report.groups, by);
      known = true;
      chart.update(perDay ? report.groups : [], groups, by);
      drawTotal(numbers, report.total);
      setText(note, report.total.usage.simulated ? 'Some of the GPUs are simulated.' : '');
      draw();
    } catch (err) {
      if (!controller.signal.aborted) setText(note, err.message);
    }
  };
  const draw = () => {
    const most = Math.max(1, ...groups.map((one) => one.gpu_seconds));
    list.update(groups.slice(0, maxRows).map((one) => ({ ...one, key, part: one.gpu_seconds / most })), known);
  };
  const choose = (change) => {
    change();
    writeParameter('by', key === 'role' ? '' : key);
    writeParameter('days', days === 30 ? '' : String(days));
    request();
  };
  const chips = (label, name, values, current, onChoose) => createElement('div', { class: 'chips', role: 'group', 'aria-label': label }, ...Object.entries(values).map(([value, text]) => createElement('label', { class: 'chip' },
    createElement('input', { type: 'radio', name, checked: value === current, on: { change: () => choose(() => onChoose(value)) } }), ' ', text)));
  const update = () => {
    if (store.health?.role === 'standby') {
      setText(note, 'Only the leading scheduler reports the usage.');
    } else if (store.loads !== lastLoad) {
      lastLoad = store.loads;
      request();
    }
  };
  const node = createElement('div', {}, createElement('h2', { tabindex: -1 }, 'Usage'),
    createElement('div', { class: 'tools' }, chips('Groups', 'by', keys, key, (value) => { key = value; }),
      chips('Period', 'days', Object.fromEntries(Object.entries(periods).map(([text, value]) => [value, text])), String(days), (value) => { days = Number(value); }), note),
    numbers, chart.node, list.node, createElement('p', { class: 'note' }, 'Tasks count when they end, with all their time from launch to end. Duty, memory and energy are those of the measured time.'));
  return { title: 'Usage', node, update, close: () => controller.abort() };
}

// sumGroups sums up groups with the same value of a key; each attempt ends on one day.
function sumGroups(groups, by) {
  const sums = new Map();
  for (const { keys: { [by]: name }, usage, ...counts } of groups) {
    if (!sums.has(name)) sums.set(name, { name, usage: {} });
    const sum = sums.get(name);
    for (const [field, value] of Object.entries(counts)) if (typeof value === 'number') sum[field] = (sum[field] ?? 0) + value;
    for (const [field, value] of Object.entries(usage)) if (typeof value === 'number') sum.usage[field] = (sum.usage[field] ?? 0) + value;
  }
  return [...sums.values()].sort((a, b) => b.gpu_seconds - a.gpu_seconds);
}

// linkOf returns the list of a group's jobs, or its own page.
function linkOf({ name, key }) {
  const addresses = { role: '#/jobs?role=', user: '#/jobs?owner=', job: '#/jobs/', type: '#/agents?q=', host: '#/agents?q=' };
  return addresses[key] + encodePath(name);
}

function drawGPUTime(cell, { gpu_seconds: seconds, part }) {
  if (!cell.firstChild) cell.append(createElement('span'), createElement('div', { class: 'stack', 'aria-hidden': 'true' }, createElement('i', { class: 'used' })));
  setText(cell.firstChild, formatHours(seconds));
  cell.lastChild.firstChild.style.setProperty('width', `${100 * part}%`);
}

function drawTotal(list, { gpu_seconds: seconds, unfinished_gpu_seconds: unfinished, attempts, usage, wait_seconds: wait }) {
  const cards = [
    ['GPU time', formatHours(seconds)], ['Not finished', seconds ? formatPercent(unfinished / seconds) : '–'], ['Duty', formatRatio(usage.busy_gpu_seconds, usage.gpu_seconds) || '–'],
    ['Energy', formatEnergy(usage.joules) || '–'], ['Ended attempts', formatNumber(attempts)], ['Mean wait', attempts ? formatDuration(wait / attempts) : '–'],
  ];
  syncChildren(list, cards, ([name]) => name, ([name]) => createElement('li', {}, createElement('div', { class: 'tile' }, createElement('span', { class: 'name' }, name), createElement('b'))), (item, [, value]) => setText(item.firstChild.lastChild, value));
}

// createDayChart creates a chart with a column for each day, stacked by the largest groups.
function createDayChart() {
  const columns = createElement('ul', { class: 'days' });
  const key = createElement('ul', { class: 'key' });
  const node = createElement('section', { class: 'card', hidden: true }, createElement('h3', {}, 'GPU hours by day'), key,
    createElement('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'GPU hours by day' }, columns));
  const update = (rows, groups, by) => {
    const largest = groups.slice(0, maxSeries).map(({ name }) => name);
    const byDay = new Map();
    for (const { keys: { day: date, [by]: name }, gpu_seconds: seconds } of rows) {
      if (!byDay.has(date)) byDay.set(date, new Map());
      const series = largest.includes(name) ? name : 'others';
      byDay.get(date).set(series, (byDay.get(date).get(series) ?? 0) + seconds);
    }
    const dates = [...byDay.keys()].sort();
    const sum = (date) => [...byDay.get(date).values()].reduce((all, seconds) => all + seconds, 0);
    const highest = Math.max(1, ...dates.map(sum));
    const names = [...largest, ...(groups.length > maxSeries ? ['others'] : [])];
    node.hidden = dates.length < 2; // a single column shows nothing that the table does not
    syncChildren(key, names, String, (name) => createElement('li', { class: 'area' }, name || 'unknown'), (item, name) => item.style.setProperty('--hue', hueOfSeries(names.indexOf(name))));
    syncChildren(columns, dates, String, (date) => createElement('li', {}, createElement('div', { role: 'img' }), createElement('span', { 'aria-hidden': 'true' }, date.slice(5))), (item, date) => {
      const bar = item.firstChild;
      const parts = names.filter((name) => byDay.get(date).has(name));
      const label = `${date}: ${formatHours(sum(date))}${parts.map((name) => `, ${name || 'unknown'} ${formatHours(byDay.get(date).get(name))}`).join('')}`;
      bar.title = label;
      bar.ariaLabel = label;
      syncChildren(bar, parts, String, () => createElement('i'), (part, name) => {
        part.style.setProperty('--hue', hueOfSeries(names.indexOf(name)));
        part.style.setProperty('height', `${100 * byDay.get(date).get(name) / highest}%`);
      });
    });
  };
  return { node, update };
}

function formatHours(seconds) {
  const hours = seconds / 3600;
  return `${formatNumber(hours >= 100 ? Math.round(hours) : Math.round(hours * 100) / 100)} h`;
}

function formatRatio(part, all) {
  return all > 0 ? formatPercent(part / all) : '';
}

function formatEnergy(joules) {
  if (!(joules > 0)) return '';
  const kWh = joules / 3.6e6;
  if (kWh >= 100) return `${formatNumber(Math.round(kWh))} kWh`;
  return kWh >= 0.1 ? `${formatNumber(kWh)} kWh` : `${formatNumber(Math.round(kWh * 10000) / 10)} Wh`;
}
