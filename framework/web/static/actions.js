// What users can do to jobs, tasks and agents: buttons that ask for confirmation. A button is
// shown only if the user has the permission, and each request is one of the REST API.
import { createButton, syncChildren } from './dom.js';
import { openDialog } from './dialog.js';
import { sendJSON, encodePath } from './api.js';
import { referenceOf } from './reference.js';
import { canChange, hasPermission, hasPermissionOnAllRoles, mayChangeHold } from './permissions.js';
import { agentNote } from './cluster.js';
import { listQueueActions } from './queue_actions.js';

// drawActions makes parent's children one button for each action.
export function drawActions(parent, actions) {
  syncChildren(parent, actions, ({ label }) => label, ({ label, danger }) => createButton(label, () => openDialogs.get(parent).get(label)(), { class: danger ? 'danger quiet' : 'quiet' }), () => {});
  openDialogs.set(parent, new Map(actions.map(({ label, open }) => [label, open])));
  parent.hidden = actions.length === 0;
}

const openDialogs = new WeakMap(); // by parent: what opens the dialog of each action, by label

// listJobActions returns what the user may do to a job now. name is its name, or NAME@RUN of an
// earlier run.
export function listJobActions(store, job, name) {
  if (!store.canAct) return [];
  const { spec } = job;
  const path = `v1/jobs/${encodePath(referenceOf(job))}`; // the run that is shown, whatever the name means meanwhile
  const refresh = () => store.fetchJob(referenceOf(job));
  const actions = [];
  const changes = canChange(store.identity, spec);
  if (changes && !job.terminal && spec.service) actions.push(scaleAction(spec, path, refresh), { label: 'Apply', open: () => { location.hash = `#/jobs/${encodePath(store.jobs.referenceTo(job))}/apply`; } });
  if (job.terminal && hasPermission(store.identity, 'submit', spec.role || '*')) actions.push(rerunAction(job, name, path, () => store.fetchJob(spec.name)));
  if (changes && !job.terminal) {
    actions.push(...listQueueActions(job, path, refresh, mayChangeHold(store.identity, job.hold, spec.role || '*')), {
      label: 'Kill', danger: true,
      open: () => openDialog({
        title: `Kill ${spec.name}?`, text: 'Its tasks get SIGTERM and, after their grace period, SIGKILL.', confirmLabel: 'Kill job', danger: true, command: `mesos-gpu kill ${spec.name}`,
        fields: [{ type: 'checkbox', name: 'force', label: 'Without the grace period' }],
        run: ({ force }) => sendJSON('DELETE', path + (force ? '?force=true' : '')).then(refresh),
      }),
    });
  }
  return actions;
}

function scaleAction(spec, path, refresh) {
  return {
    label: 'Scale',
    open: () => openDialog({
      title: `Scale ${spec.name}`, confirmLabel: 'Scale service', command: `mesos-gpu scale ${spec.name} N`,
      fields: [{ type: 'number', name: 'tasks', label: 'Tasks', min: 0, step: 1, required: true, value: spec.tasks }],
      run: ({ tasks }) => sendJSON('POST', `${path}/scale`, { tasks: Number(tasks) }).then(refresh),
    }),
  };
}

function rerunAction({ spec, state }, name, path, refresh) {
  const partial = spec.tasks > 1 && !spec.gang && !spec.service && state !== 'FINISHED';
  return {
    label: 'Rerun',
    open: () => openDialog({
      title: `Rerun ${name}?`, text: 'The same specification is submitted as a new run.', confirmLabel: 'Rerun job', command: `mesos-gpu rerun ${name}`,
      fields: partial ? [{ type: 'checkbox', name: 'failed', label: 'Only the tasks that did not finish' }] : [],
      run: ({ failed }) => sendJSON('POST', `${path}/rerun`, failed ? { failed: true } : {}).then(refresh).then(() => { location.hash = `#/jobs/${encodePath(spec.name)}`; }),
    }),
  };
}

// listTaskActions returns what the user may do to a task of a job.
export function listTaskActions(store, job, task) {
  if (!task || !store.canAct || task.state !== 'RUNNING' || !canChange(store.identity, job.spec)) return [];
  return [{
    label: 'Stop task', danger: true,
    open: () => openDialog({
      title: `Stop task ${task.index}?`, text: job.spec.service ? 'Another task replaces it, unless the service is to have one task less.' : 'It ends as KILLED and is not started again.',
      confirmLabel: 'Stop task', danger: true, fields: job.spec.service ? [{ type: 'checkbox', name: 'retire', label: 'One task less' }] : [],
      run: ({ retire }) => sendJSON('POST', `v1/tasks/${encodePath(task.id)}/stop`, retire ? { retire: true } : {}),
    }),
  }];
}

// listAgentActions returns what the user may do to an agent. All roles share the agents.
export function listAgentActions(store, agent) {
  if (!store.canAct || !hasPermissionOnAllRoles(store.identity, 'operate')) return [];
  const path = `v1/agents/${encodePath(agent.id)}`;
  const send = (verb, body) => sendJSON('POST', `${path}/${verb}`, body).then(() => store.refreshHardware());
  if (agentNote(agent)) {
    return [{
      label: 'Uncordon',
      open: () => openDialog({ title: `Uncordon ${agent.hostname}?`, text: 'It gets new tasks again.', confirmLabel: 'Uncordon agent', command: `mesos-gpu uncordon ${agent.hostname}`, run: () => send('uncordon', {}) }),
    }];
  }
  const reason = [{ name: 'reason', label: 'Reason', required: true, maxlength: 200, autocomplete: 'off' }];
  return [
    {
      label: 'Cordon',
      open: () => openDialog({ title: `Cordon ${agent.hostname}`, text: 'Its tasks continue; it gets no new ones.', confirmLabel: 'Cordon agent', command: `mesos-gpu cordon ${agent.hostname}`, fields: reason, run: (body) => send('cordon', body) }),
    },
    {
      label: 'Drain', danger: true,
      open: () => openDialog({ title: `Drain ${agent.hostname}`, text: 'Its tasks are stopped and queued again, and it gets no new ones.', confirmLabel: 'Drain agent', danger: true, command: `mesos-gpu drain ${agent.hostname}`, fields: reason, run: (body) => send('drain', body) }),
    },
  ];
}
