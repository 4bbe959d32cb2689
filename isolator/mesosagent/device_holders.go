package mesosagent

import (
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
)

// jobLabelKey is the label with a task's job.
const jobLabelKey = "mesos-gpu.job"

// executorRun is one executor with its container and its tasks.
type executorRun struct {
	container string
	pid       int
	framework string
	executor  string
	tasks     []mesos.Task     // those that live
	resources []mesos.Resource // the executor's own
}

// listHolders returns one holder for each task with named devices. The agent does not know
// which devices a task holds that requested GPUs by number.
func listHolders(a agentState) []gpu.ContainerDevices {
	var holders []gpu.ContainerDevices
	for _, r := range listExecutorRuns(a) {
		holders = append(holders, r.listHolders()...)
	}
	return holders
}

// listExecutorRuns returns the executors that have containers, in the order of the containers.
func listExecutorRuns(a agentState) []*executorRun {
	runs := map[[2]string]*executorRun{}
	var order []*executorRun
	for _, c := range a.containers.GetContainers() {
		if c.ContainerID.Parent != nil || c.ExecutorID == nil {
			continue // nested: its executor's container holds the devices
		}
		r := &executorRun{
			container: c.ContainerID.Value,
			framework: c.FrameworkID.GetValue(),
			executor:  c.ExecutorID.Value,
			pid:       int(c.ContainerStatus.GetExecutorPID()),
		}
		runs[[2]string{r.framework, r.executor}] = r
		order = append(order, r)
	}
	for _, e := range a.executors.GetExecutors() {
		info := e.ExecutorInfo
		if r := runs[[2]string{info.FrameworkID.GetValue(), info.ExecutorID.Value}]; r != nil {
			r.resources = info.Resources
		}
	}
	for _, t := range slices.Concat(a.tasks.GetQueuedTasks(), a.tasks.GetLaunchedTasks()) {
		// A task that brought no executor has one named as itself.
		executor := t.TaskID.Value
		if t.ExecutorID != nil && t.ExecutorID.Value != "" {
			executor = t.ExecutorID.Value
		}
		if r := runs[[2]string{t.FrameworkID.Value, executor}]; r != nil {
			r.tasks = append(r.tasks, t)
		}
	}
	return order
}

// listDevices returns the devices held whole, then those held as shares.
func listDevices(resources []mesos.Resource) (ids []string) {
	for _, resource := range resources {
		if resource.Name == "gpu_ids" {
			ids = append(ids, resource.GetSet().GetItem()...)
		}
	}
	for _, resource := range resources {
		if uuid, cores, ok := gpu.ShareResource(resource.Name); ok && !cores {
			ids = append(ids, uuid)
		}
	}
	return ids
}

// sharesByContainer returns each executor container's shares of devices. It skips containers
// with invalid resources.
func sharesByContainer(a agentState) map[string][]gpu.DeviceShare {
	all := map[string][]gpu.DeviceShare{}
	for _, r := range listExecutorRuns(a) {
		list := slices.Clone(r.resources)
		for _, t := range r.tasks {
			list = append(list, t.Resources...)
		}
		if _, shares := sumDevices(list); len(shares) > 0 {
			all[r.container] = shares
		}
	}
	return all
}

// listHolders assigns each task its devices. The executor's own devices belong to its task if
// it has exactly one.
func (r *executorRun) listHolders() []gpu.ContainerDevices {
	var list []gpu.ContainerDevices
	own := listDevices(r.resources)
	for _, t := range r.tasks {
		list = append(list, r.newHolder(listDevices(t.Resources), &t))
	}
	if len(r.tasks) == 1 {
		list[0].Devices = append(list[0].Devices, own...)
	} else {
		list = append(list, r.newHolder(own, nil))
	}
	return slices.DeleteFunc(list, func(h gpu.ContainerDevices) bool { return len(h.Devices) == 0 })
}

func (r *executorRun) newHolder(ids []string, t *mesos.Task) gpu.ContainerDevices {
	h := gpu.ContainerDevices{Container: r.container, Framework: r.framework, Executor: r.executor, Devices: slices.Clone(ids)}
	if t != nil {
		h.Task, h.Job = t.TaskID.Value, jobLabel(t.Labels)
	}
	return h
}

func jobLabel(labels *mesos.Labels) string {
	for _, l := range labels.GetLabels() {
		if l.Key == jobLabelKey {
			return strings.ToValidUTF8(l.GetValue(), "?")
		}
	}
	return ""
}
