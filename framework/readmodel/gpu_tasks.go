package readmodel

import (
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// GPUTask is a running task with GPUs.
type GPUTask struct {
	job.Task
	// Role, GPUs and Submitted are taken from its job: GPUs counts the devices of one task.
	Role      string
	GPUs      int
	Submitted time.Time
}

// RunningGPUTasks returns the running tasks with GPUs that match the query.
func (m *Model) RunningGPUTasks(q request.UsageQuery) (list []GPUTask, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	entries := m.bySubmission
	if q.Job != "" {
		e, ok := m.jobs.Find(q.Job)
		if !ok {
			return nil, api.UnknownJob(q.Job)
		}
		entries = []*jobEntry{e}
	}
	for _, e := range entries {
		if e.removed || e.liveTasks == 0 || e.Spec.Request.GPUs == 0 || q.Role != "" && e.Spec.Role != q.Role {
			continue
		}
		for i := range e.Tasks {
			if t := &e.Tasks[i]; t.State == job.Running && (q.Task == "" || q.Task == t.ID) && (q.Agent == "" || q.Agent == t.AgentID) {
				list = append(list, GPUTask{*t, e.Spec.Role, e.Spec.Request.GPUs, e.Submitted})
			}
		}
	}
	return list, nil
}

// DeviceHolders returns the tasks that hold each device, separated by ", ".
func (m *Model) DeviceHolders() map[string]string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	holder := map[string]string{}
	add := func(t *job.Task) {
		for _, id := range t.DeviceIDs {
			if holder[id] != "" {
				holder[id] += ", "
			}
			holder[id] += t.ID
		}
	}
	for _, e := range m.bySubmission {
		if e.removed || e.liveTasks == 0 {
			continue
		}
		for i := range e.Tasks {
			if t := &e.Tasks[i]; t.State.IsPlaced() {
				add(t)
			}
		}
	}
	for _, stray := range sched.ParseStrays(m.ownDocuments) {
		add(&stray.Task)
	}
	return holder
}
