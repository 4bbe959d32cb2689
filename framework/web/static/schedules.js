// The schedules: what is submitted when, and the latest runs.
import { createElement, createLink, formatDuration, formatTime, setAttribute, setText, syncChildren } from './dom.js';
import { createTable } from './table.js';
import { drawActions } from './actions.js';
import { formatRequest } from './cluster.js';
import { openDialog } from './dialog.js';
import { canChange, hasPermissionOnAnyRole } from './permissions.js';
import { sendJSON, encodePath } from './api.js';
import { readParameter, writeParameter } from './url_state.js';

const shownRuns = 5;

export function renderSchedules(store) {
  const list = createTable({
    caption: 'Schedules', empty: 'No schedule.', key: referenceTo, sort: readParameter('sort'), onSort: (order) => writeParameter('sort', order),
    columns: [
      { name: 'Schedule', phone: 'title', text: ({ spec }) => spec.name, sortBy: ({ spec }) => spec.name },
      { name: 'Next run', number: true, phone: 'state', text: formatNext, sortBy: ({ next }) => Date.parse(next) },
      { name: 'Cron', text: ({ spec }) => `${spec.schedule.cron} ${spec.schedule.time_zone ?? 'UTC'}` },
      { name: 'Role', text: ({ spec }) => spec.role || '*', sortBy: ({ spec }) => spec.role || '*' },
      { name: 'Each wants', text: ({ spec }) => formatRequest(spec) },
      { name: 'Latest runs', class: 'wide', phone: 'wide', draw: drawRuns },
      { name: 'Note', optional: true, class: 'wide', phone: 'wide', text: ({ note = '' }) => note },
      { name: 'Actions', phone: 'wide', draw: (cell, schedule) => drawScheduleActions(cell, store, schedule) },
    ],
  });
  const note = createElement('p', { class: 'note' });
  const add = createLink('#/submit?schedule=true', 'New schedule', { class: 'button', hidden: true });
  const stopUpdates = store.lists.keepUpdated('schedules');
  const update = () => {
    add.hidden = !store.canAct || !hasPermissionOnAnyRole(store.identity, 'submit');
    setText(note, store.health?.role === 'standby' ? 'Only the leading scheduler reports schedules.' : store.lists.unavailable.get('schedules') ?? '');
    note.hidden = !note.textContent;
    list.update(store.lists.schedules ?? [], store.lists.schedules !== null);
  };
  return { title: 'Schedules', node: createElement('div', {}, createElement('div', { class: 'title' }, createElement('h2', { tabindex: -1 }, 'Schedules'), add), note, list.node), update, close: stopUpdates };
}

function formatNext({ next }) {
  const seconds = (Date.parse(next) - Date.now()) / 1000;
  return seconds > 0 ? `${formatTime(next)}, in ${formatDuration(seconds)}` : formatTime(next);
}

function drawRuns(cell, { runs }) {
  const latest = runs.slice(-shownRuns).reverse();
  setAttribute(cell, 'data-empty', latest.length === 0);
  syncChildren(cell, latest, ({ job }) => job, ({ job }) => createLink(`#/jobs/${encodePath(job)}`, job), (link, { due }) => setAttribute(link, 'title', formatTime(due)));
}

// referenceTo returns [OWNER/]NAME, by which requests name a schedule.
function referenceTo({ spec }) {
  return spec.owner ? `${spec.owner}/${spec.name}` : spec.name;
}

function drawScheduleActions(cell, store, { spec }) {
  const actions = store.canAct && canChange(store.identity, spec) ? [{
    label: 'Kill', danger: true,
    open: () => openDialog({
      title: `Kill schedule ${spec.name}?`, text: 'It submits no more jobs. Those that it has submitted stay.', confirmLabel: 'Kill schedule', danger: true, command: `mesos-gpu kill ${spec.name}`,
      run: () => sendJSON('DELETE', `v1/schedules/${encodePath(referenceTo({ spec }))}`).then(() => store.lists.request('schedules', true)),
    }),
  }] : [];
  drawActions(cell, actions);
  cell.hidden = false;
  setAttribute(cell, 'data-empty', actions.length === 0);
}
