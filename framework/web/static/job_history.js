// What happened to a job: its events, and its earlier runs.
import { createElement, formatTime, drawBadge, setText, syncChildren } from './dom.js';
import { fetchJSON, encodePath } from './api.js';
import { referenceOf } from './reference.js';

const shownEvents = 200;

// createJobHistory creates a section that requests the events when it is opened, and again
// after each change of the job while it is open.
export function createJobHistory() {
  const list = createElement('ol', { class: 'events' });
  const note = createElement('p', { class: 'note' });
  const node = createElement('details', { class: 'card', on: { toggle: () => request() } }, createElement('summary', {}, 'Events'), note, list);
  let shown = ''; // the states of the tasks, and the changes of the job, at the last request
  let run; // the reference to the job
  const request = async () => {
    if (!node.open || !run) return;
    try {
      const { events, omitted } = await fetchJSON(`v1/jobs/${encodePath(run)}/history?limit=${shownEvents}`);
      setText(note, omitted ? `The last ${shownEvents} events` : '');
      syncChildren(list, events.toReversed(), (event) => `${event.time} ${event.task} ${event.state} ${event.change}`, () => createElement('li', {}, createElement('time'), createElement('span'), createElement('span')), drawEvent);
    } catch (err) {
      setText(note, err.message);
    }
  };
  const update = (job) => {
    run = referenceOf(job);
    const state = [job.revision, job.version, ...job.tasks.map((task) => task.id + task.state)].join();
    if (state === shown) return;
    shown = state;
    request();
  };
  return { node, update };
}

function drawEvent(item, { time, task, state, change, message }) {
  const [when, badge, text] = item.children;
  setText(when, formatTime(time));
  drawBadge(badge, task || change ? state ?? 'CHANGED' : 'SUBMITTED'); // schedulers of earlier versions recorded no state of changes
  setText(text, [task, message].filter(Boolean).join(' · '));
}
