package master

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Labels of a task, shown in the master's UI.
const (
	jobLabel   = "mesos-gpu.job"
	indexLabel = "mesos-gpu.index"
)

// shutdownSlack is added to the task's kill grace period for the shutdown of
// its executor.
const shutdownSlack = 5 * time.Second

// buildTasks returns the TaskInfos of an ACCEPT with the offers' resources, and the ends
// of the tasks that cannot be launched because their working folder is missing.
func (c *Client) buildTasks(a sched.AcceptOffers, offers []mesos.Offer, frameworkID string) (tasks []mesos.TaskInfo, refused []sched.TaskUpdate, err error) {
	var rest []mesos.Resource
	for i, o := range offers {
		// The master rejects an ACCEPT with offers of two roles.
		if role, first := o.GetAllocationInfo().GetRole(), offers[0].GetAllocationInfo().GetRole(); role != first {
			return nil, nil, fmt.Errorf("offers %s and %s of agent %s are allocated to roles %s and %s: one ACCEPT takes offers of one role",
				offers[0].ID.Value, offers[i].ID.Value, a.AgentID, first, role)
		}
		rest = append(rest, o.Resources...)
	}
	tasks = make([]mesos.TaskInfo, 0, len(a.Launches))
	for _, l := range a.Launches {
		files, err := c.listFetchedFiles(l)
		if err != nil {
			refused = append(refused, sched.TaskUpdate{TaskID: l.TaskID, AgentID: a.AgentID, State: job.Refused, Message: err.Error()})
			continue
		}
		task, left, err := c.buildTask(l, files, a.AgentID, frameworkID, rest)
		if err != nil {
			return nil, nil, fmt.Errorf("task %s on agent %s: %w", l.TaskID, a.AgentID, err)
		}
		tasks, rest = append(tasks, task), left
	}
	return tasks, refused, nil
}

// listFetchedFiles returns what the agent fetches into the task's sandbox: the archive of
// its working folder, and the job's own list.
func (c *Client) listFetchedFiles(l sched.TaskLaunch) ([]job.FetchArtifact, error) {
	s := l.Spec
	if s.Workdir == "" {
		return s.Fetch, nil
	}
	if c.cfg.WorkdirURL == nil {
		return nil, fmt.Errorf("working folder %s: this scheduler stores none", s.Workdir)
	}
	archive, err := c.cfg.WorkdirURL(job.RunID{Name: s.Name, Run: l.Run}, s.Workdir)
	if err != nil {
		return nil, fmt.Errorf("%w: another scheduler may have received it, see --workdirs; submit the job again", err)
	}
	return append([]job.FetchArtifact{{URI: archive, Extract: true, Cache: true}}, s.Fetch...), nil
}

// buildTask returns the TaskInfo of a launch, with the resources of the task and of its executor, and what is left of
// the offers.
func (c *Client) buildTask(
	l sched.TaskLaunch, files []job.FetchArtifact, agent, frameworkID string, offered []mesos.Resource,
) (task mesos.TaskInfo, rest []mesos.Resource, err error) {
	s := l.Spec.WithClientHolder()
	l.Spec = s
	forExecutor, rest, err := takeResources(offered, resourceRequest{cpus: l.Overhead.CPUs, mem: l.Overhead.MemMiB, disk: l.Overhead.DiskMiB})
	if err != nil {
		return task, nil, fmt.Errorf("executor: %w", err)
	}
	forTask, rest, err := takeResources(rest, taskResources(l))
	if err != nil {
		return task, nil, err
	}
	health, more, err := convertHealthChecks(s, l.Ports)
	if err != nil {
		return task, nil, err
	}
	command := s.WrapForWorkdir(s.TaskCommand(l.Values))
	var killGrace *time.Duration
	killPolicy := &mesos.KillPolicy{GracePeriod: durationInfo(s.KillGrace)}
	if s.Warn != nil {
		killGrace, killPolicy = &s.KillGrace, nil
	}
	data, err := job.LaunchData{
		Job:             s.Name,
		Index:           l.Index,
		Command:         command,
		Env:             l.Environment(),
		Secrets:         s.Secrets,
		SecretFiles:     s.SecretFiles,
		PullSecret:      s.PullSecret,
		Devices:         s.Devices,
		WholeGPUs:       holdsWholeShared(l),
		User:            c.taskUser(s),
		Fetch:           files,
		ImageEntrypoint: s.ImageEntrypoint && s.Containerizer == job.Mesos,
		HealthChecks:    more,
		Warn:            s.Warn,
		KillGrace:       killGrace,
		WarnPort:        warningPort(s, l.Ports),
		ShutdownDelay:   s.ShutdownDelay(),
		HostUser:        s.HostUser,
		RunsAsOwner:     s.RunsAsOwner(),
		Chdir:           s.Chdir,
	}.Encode()
	if err != nil {
		return task, nil, err
	}
	labels := taskLabels(s, l.Index)
	return mesos.TaskInfo{
		Name: s.Name, TaskID: mesos.TaskID{Value: l.TaskID}, AgentID: mesos.AgentID{Value: agent},
		Resources: forTask, Data: data, Labels: labels, Container: convertContainer(s, l.Ports),
		HealthCheck: health, Check: convertCheck(s, l.Ports),
		Limits:     convertLimits(s),
		KillPolicy: killPolicy,
		Executor:   c.buildExecutor(l, files, frameworkID, forExecutor, executorLabels(l, files, labels)),
	}, rest, nil
}

// taskUser returns the user of a task, "" for that of its image or of the framework.
func (c *Client) taskUser(s *job.Spec) string {
	if s.Image == "" {
		return cmp.Or(s.User, c.cfg.ProcessUser)
	}
	return s.User
}

// taskResources returns what a launch takes in addition to its executor: GPUs
// that are not shared, and shares of devices.
func taskResources(l sched.TaskLaunch) resourceRequest {
	s := l.Spec
	w := resourceRequest{cpus: s.CPUs, mem: s.MemMiB, disk: s.DiskMiB, shares: l.Shares, ports: l.Ports}
	w.gpus, w.devices = gpu.ExcludeShared(s.Request.GPUs, l.DeviceIDs, l.Shares)
	return w
}

// holdsWholeShared reports whether a task requested whole GPUs and has all of shared ones.
func holdsWholeShared(l sched.TaskLaunch) bool {
	return len(l.Shares) > 0 && l.Spec.Request.Share.IsWhole()
}

// taskLabels returns the labels that identify the task, followed by the job's
// own.
func taskLabels(s *job.Spec, index int) *mesos.Labels {
	number := strconv.Itoa(index)
	labels := []mesos.Label{{Key: jobLabel, Value: &s.Name}, {Key: indexLabel, Value: &number}}
	return &mesos.Labels{Labels: append(labels, convertLabels(s.Labels).GetLabels()...)}
}

// convertLabels returns the labels sorted by name, nil for none.
func convertLabels(all map[string]string) *mesos.Labels {
	if len(all) == 0 {
		return nil
	}
	labels := &mesos.Labels{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := all[key]
		labels.Labels = append(labels.Labels, mesos.Label{Key: key, Value: &value})
	}
	return labels
}

// executorLabels adds the hosts from which the agent may fetch the task's files, including the scheduler that has its
// working folder. Agents of Apache Mesos ignore them.
func executorLabels(l sched.TaskLaunch, files []job.FetchArtifact, labels *mesos.Labels) *mesos.Labels {
	if l.FetchHosts == nil || len(files) == 0 {
		return labels
	}
	allowed := slices.Clone(l.FetchHosts)
	if l.Spec.Workdir != "" {
		if from, err := url.Parse(files[0].URI); err == nil {
			allowed = append(allowed, from.Host)
		}
	}
	hosts := strings.Join(allowed, " ")
	return &mesos.Labels{Labels: append([]mesos.Label{{Key: job.FetchHostsLabel, Value: &hosts}}, labels.Labels...)}
}

// buildExecutor returns the executor of one task. Each task has its own, so
// that the resources of the executor's container determine which devices the
// task may open.
func (c *Client) buildExecutor(
	l sched.TaskLaunch, files []job.FetchArtifact, frameworkID string, resources []mesos.Resource,
	labels *mesos.Labels,
) *mesos.ExecutorInfo {
	shell, name := false, "mesos-gpu executor"
	grace := l.Spec.KillGrace + shutdownSlack
	return &mesos.ExecutorInfo{
		Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: l.TaskID},
		FrameworkID: &mesos.FrameworkID{Value: frameworkID}, Name: &name,
		Command: &mesos.CommandInfo{
			Shell: &shell, Value: &c.cfg.ExecutorPath, Arguments: []string{"mesos-gpu", "executor"}, URIs: executorURIs(l.Spec, files),
		},
		Resources: resources, Labels: labels, Container: executorContainer(l.Spec, l.Ports),
		ShutdownGracePeriod: durationInfo(grace),
	}
}
