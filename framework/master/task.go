package master

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// Labels of a task, for people who look at the master.
const (
	labelJob   = "mesos-gpu.job"
	labelIndex = "mesos-gpu.index"
)

// shutdownSlack is what an executor gets beyond its task's kill grace when
// its agent shuts it down.
const shutdownSlack = 5 * time.Second

// tasksOf makes the TaskInfos of an ACCEPT out of the offers' resources.
func (c *Client) tasksOf(a sched.Accept, offers []mesos.Offer, frameworkID string) ([]mesos.TaskInfo, error) {
	var rest []mesos.Resource
	for i, o := range offers {
		// The master refuses all of an ACCEPT whose offers are of two roles.
		if role, first := o.GetAllocationInfo().GetRole(), offers[0].GetAllocationInfo().GetRole(); role != first {
			return nil, fmt.Errorf("offers %s and %s of agent %s are allocated to roles %s and %s: one ACCEPT takes offers of one role", offers[0].ID.Value, offers[i].ID.Value, a.AgentID, first, role)
		}
		rest = append(rest, o.Resources...)
	}
	tasks := make([]mesos.TaskInfo, 0, len(a.Launches))
	for _, l := range a.Launches {
		task, left, err := c.taskOf(l, a.AgentID, frameworkID, rest)
		if err != nil {
			return nil, fmt.Errorf("task %s on agent %s: %w", l.TaskID, a.AgentID, err)
		}
		tasks, rest = append(tasks, task), left
	}
	return tasks, nil
}

func (c *Client) taskOf(l sched.Launch, agent, frameworkID string, offered []mesos.Resource) (task mesos.TaskInfo, rest []mesos.Resource, err error) {
	s := l.Spec
	forExecutor, rest, err := carve(offered, want{cpus: l.Overhead.CPUs, mem: l.Overhead.MemMiB, disk: l.Overhead.DiskMiB})
	if err != nil {
		return task, nil, fmt.Errorf("executor: %w", err)
	}
	forTask, rest, err := carve(rest, wantOf(l))
	if err != nil {
		return task, nil, err
	}
	health, more, err := healthChecksOf(s, l.Ports)
	if err != nil {
		return task, nil, err
	}
	command, env := s.Program(l.Values)
	data, err := job.Launch{
		Job: s.Name, Index: l.Index, Command: command, Env: environment(env, l.Env), Secrets: s.Secrets,
		User: s.User, Fetch: s.Fetch, ImageEntrypoint: s.ImageEntrypoint && s.Containerizer == job.Mesos, HealthChecks: more,
	}.Encode()
	if err != nil {
		return task, nil, err
	}
	labels := labelsOf(s, l.Index)
	return mesos.TaskInfo{
		Name: s.Name, TaskID: mesos.TaskID{Value: l.TaskID}, AgentID: mesos.AgentID{Value: agent},
		Resources: forTask, Data: data, Labels: labels, Container: containerOf(s, l.Ports),
		HealthCheck: health, Check: checkOf(s, l.Ports),
		Limits:     limitsOf(s),
		KillPolicy: &mesos.KillPolicy{GracePeriod: duration(s.KillGrace)},
		Executor:   c.executorOf(l, frameworkID, forExecutor, labels),
	}, rest, nil
}

// wantOf is what a launch takes beside its executor: whole GPUs, or parts of
// shared ones.
func wantOf(l sched.Launch) want {
	s := l.Spec
	w := want{cpus: s.CPUs, mem: s.MemMiB, disk: s.DiskMiB, parts: l.Parts, ports: l.Ports}
	if len(l.Parts) == 0 {
		w.gpus, w.devices = s.Request.GPUs, l.DeviceIDs
	}
	return w
}

// labelsOf are the job's own after those that say which task this is.
func labelsOf(s *job.Spec, index int) *mesos.Labels {
	number := strconv.Itoa(index)
	labels := []mesos.Label{{Key: labelJob, Value: &s.Name}, {Key: labelIndex, Value: &number}}
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		value := s.Labels[key]
		labels = append(labels, mesos.Label{Key: key, Value: &value})
	}
	return &mesos.Labels{Labels: labels}
}

// environment is the job's with what the scheduler adds: rank, peers and
// ports are its to say.
func environment(own, given map[string]string) map[string]string {
	if len(given) == 0 {
		return own
	}
	all := map[string]string{}
	maps.Copy(all, own)
	maps.Copy(all, given)
	return all
}

// executorOf makes the executor of one task: one each, so that its
// container's resources say which devices the task may open.
func (c *Client) executorOf(l sched.Launch, frameworkID string, resources []mesos.Resource, labels *mesos.Labels) *mesos.ExecutorInfo {
	shell, name := false, "mesos-gpu executor"
	grace := l.Spec.KillGrace + shutdownSlack
	return &mesos.ExecutorInfo{
		Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: l.TaskID},
		FrameworkID: &mesos.FrameworkID{Value: frameworkID}, Name: &name,
		Command: &mesos.CommandInfo{
			Shell: &shell, Value: &c.cfg.ExecutorPath, Arguments: []string{"mesos-gpu", "executor"}, URIs: fetched(l.Spec),
		},
		Resources: resources, Labels: labels,
		ShutdownGracePeriod: duration(grace),
	}
}
