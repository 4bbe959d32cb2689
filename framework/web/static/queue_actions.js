// What users can do to a job in the queue: hold and release it, queue its running tasks again,
// and change its priority and limits.
import { openDialog } from './dialog.js';
import { isPlaced } from './cluster.js';
import { sendJSON, encodePath } from './api.js';

const reasonField = { name: 'reason', label: 'Reason', maxlength: 200, autocomplete: 'off' };

// listQueueActions returns the actions of a job that has not ended and that the user may change.
// changesHold is false if another user holds it whose hold the user may not change.
export function listQueueActions(job, path, refresh, changesHold) {
  const { spec } = job;
  const actions = [editAction(spec, path, refresh)];
  if (changesHold) actions.push(job.hold ? releaseAction(job, path, refresh) : holdAction(spec, path, refresh));
  if (job.tasks.some(isPlaced)) actions.push(requeueAction(spec, path, refresh, changesHold));
  return actions;
}

function holdAction({ name }, path, refresh) {
  return {
    label: 'Hold',
    open: () => openDialog({
      title: `Hold ${name}`, text: 'Its waiting tasks do not start until it is released. Running tasks continue, and it keeps its place in the queue.', confirmLabel: 'Hold job', command: `mesos-gpu hold ${name}`,
      fields: [reasonField], run: ({ reason }) => sendJSON('PUT', `${path}/hold`, reason ? { reason } : {}).then(refresh),
    }),
  };
}

function releaseAction({ spec: { name }, hold }, path, refresh) {
  return {
    label: 'Release',
    open: () => openDialog({ title: `Release ${name}?`, text: `${describeHold(hold)}.`, confirmLabel: 'Release job', command: `mesos-gpu release ${name}`, run: () => sendJSON('DELETE', `${path}/hold`).then(refresh) }),
  };
}

// describeHold formats a hold: "Held by bob: new data".
export function describeHold({ by = '', reason = '' }) {
  return `Held${by && ` by ${by}`}${reason && `: ${reason}`}`;
}

// groupHoldAction returns the action that holds or releases all jobs of a role or a user. kind is
// "roles" or "users".
export function groupHoldAction(kind, name, hold, refresh) {
  const path = `v1/${kind}/${encodePath(name)}/hold`;
  const option = kind === 'roles' ? `--role '${name}'` : `--user '${name}'`;
  if (hold) {
    return { label: 'Release', open: () => openDialog({ title: `Release the jobs of ${name}?`, text: `${describeHold(hold)}.`, confirmLabel: 'Release jobs', command: `mesos-gpu release ${option}`, run: () => sendJSON('DELETE', path).then(refresh) }) };
  }
  return {
    label: 'Hold',
    open: () => openDialog({
      title: `Hold the jobs of ${name}`, text: 'Waiting tasks do not start until they are released. Running tasks continue.', confirmLabel: 'Hold jobs', command: `mesos-gpu hold ${option}`,
      fields: [reasonField, { type: 'checkbox', name: 'drain', label: 'Also stop the running tasks and queue them again' }],
      run: ({ reason, drain }) => sendJSON('PUT', path, { ...(reason && { reason }), ...(drain && { drain: true }) }).then(refresh),
    }),
  };
}

function requeueAction({ name }, path, refresh, changesHold) {
  return {
    label: 'Requeue', danger: true,
    open: () => openDialog({
      title: `Requeue ${name}?`, text: 'Its running tasks are stopped and queued again.', confirmLabel: 'Requeue tasks', danger: true, command: `mesos-gpu requeue ${name}`,
      fields: [reasonField, ...(changesHold ? [{ type: 'checkbox', name: 'hold', label: 'Hold the job, so that they wait until it is released' }] : [])],
      run: ({ reason, hold }) => sendJSON('POST', `${path}/requeue`, { ...(reason && { reason }), ...(hold && { hold: true }) }).then(refresh),
    }),
  };
}

// editAction changes the keys that differ from the present ones; an empty text restores a default.
function editAction(spec, path, refresh) {
  const fields = [
    { name: 'priority', label: 'Priority', type: 'number', value: spec.priority ?? 0 },
    { name: 'retries', label: 'Retries', type: 'number', min: 0, value: spec.retries ?? 0 },
    { name: 'max_parallel', label: 'Parallel tasks', type: 'number', min: 0, value: spec.max_parallel ?? 0 },
    { name: 'timeout', label: 'Timeout', placeholder: '2h', value: spec.timeout ? `${spec.timeout / 1e9}s` : '', autocomplete: 'off' },
  ];
  return {
    label: 'Edit',
    open: () => openDialog({
      title: `Edit ${spec.name}`, text: 'It keeps its place in the queue.', confirmLabel: 'Save', command: `mesos-gpu edit ${spec.name}`, fields,
      run: (values) => sendJSON('PATCH', path, listChanges(fields, values)).then(refresh),
    }),
  };
}

function listChanges(fields, values) {
  const changed = fields.filter(({ name, value }) => values[name] !== String(value));
  return Object.fromEntries(changed.map(({ name, type }) => [name, values[name] === '' ? null : type === 'number' ? Number(values[name]) : values[name]]));
}
