package holders

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
)

// labelJob is the label by which a task names its job.
const labelJob = "mesos-gpu.job"

// run is one executor with its container and what its tasks hold.
type run struct {
	container string
	pid       int
	framework string
	executor  string
	tasks     []mesos.Task // those that live and have GPUs
	own       []string     // devices of the executor itself
	counted   int          // GPUs of all, by number
	named     int          // GPUs of all, by name
}

// read finds the holders in the agent's answers, one for each task that has
// devices. The error is about containers whose devices granted could not tell;
// the others are there all the same.
func read(a answers, granted func(string, int) ([]string, error)) ([]gpu.Holder, error) {
	runs := map[[2]string]*run{}
	var order []*run
	for _, c := range a.containers.GetContainers() {
		if c.ContainerID.Parent != nil || c.ExecutorID == nil {
			continue // nested: its executor's container holds the devices
		}
		r := &run{
			container: c.ContainerID.Value, pid: int(c.ContainerStatus.GetExecutorPID()),
			framework: c.FrameworkID.GetValue(), executor: c.ExecutorID.Value,
		}
		runs[[2]string{r.framework, r.executor}] = r
		order = append(order, r)
	}
	for _, e := range a.executors.GetExecutors() {
		info := e.ExecutorInfo
		if r := runs[[2]string{info.FrameworkID.GetValue(), info.ExecutorID.Value}]; r != nil {
			r.own = r.take(info.Resources)
		}
	}
	for _, t := range slices.Concat(a.tasks.GetQueuedTasks(), a.tasks.GetLaunchedTasks()) {
		// A task that brought no executor has one named as itself.
		executor := t.TaskID.Value
		if t.ExecutorID != nil && t.ExecutorID.Value != "" {
			executor = t.ExecutorID.Value
		}
		if r := runs[[2]string{t.FrameworkID.Value, executor}]; r != nil {
			r.take(t.Resources)
			r.tasks = append(r.tasks, t)
		}
	}
	var holders []gpu.Holder
	var errs []error
	for _, r := range order {
		list, err := r.holders(granted)
		holders, errs = append(holders, list...), append(errs, err)
	}
	return holders, errors.Join(errs...)
}

// take counts the GPUs among resources and gives those that have names.
func (r *run) take(resources []mesos.Resource) []string {
	ids, n := devices(resources)
	r.counted, r.named = r.counted+n, r.named+len(ids)
	return ids
}

func devices(resources []mesos.Resource) (ids []string, count int) {
	for _, resource := range resources {
		switch resource.Name {
		case "gpus":
			count += int(resource.GetScalar().GetValue())
		case "gpu_ids":
			ids = append(ids, resource.GetSet().GetItem()...)
		}
	}
	return ids, count
}

func (r *run) holders(granted func(string, int) ([]string, error)) ([]gpu.Holder, error) {
	var list []gpu.Holder
	for _, t := range r.tasks {
		if ids, _ := devices(t.Resources); len(ids) > 0 {
			list = append(list, r.holder(ids, &t))
		}
	}
	left, err := slices.Clone(r.own), error(nil)
	if r.counted > r.named && granted != nil {
		if left, err = granted(r.container, r.pid); err != nil {
			return list, fmt.Errorf("container %s: %w", r.container, err)
		}
		left = slices.DeleteFunc(slices.Clone(left), func(id string) bool {
			return slices.ContainsFunc(list, func(h gpu.Holder) bool { return slices.Contains(h.Devices, id) })
		})
	}
	if len(left) == 0 {
		return list, nil
	}
	var only *mesos.Task // the executor's devices are its one task's
	if len(r.tasks) == 1 {
		only = &r.tasks[0]
	}
	if only != nil && len(list) == 1 {
		list[0].Devices = append(list[0].Devices, left...)
		return list, nil
	}
	return append(list, r.holder(left, only)), nil
}

func (r *run) holder(ids []string, t *mesos.Task) gpu.Holder {
	h := gpu.Holder{Container: r.container, Framework: r.framework, Executor: r.executor, Devices: slices.Clone(ids)}
	if t != nil {
		h.Task, h.Job = t.TaskID.Value, jobOf(t.Labels)
	}
	return h
}

func jobOf(labels *mesos.Labels) string {
	for _, l := range labels.GetLabels() {
		if l.Key == labelJob {
			return strings.ToValidUTF8(l.GetValue(), "?")
		}
	}
	return ""
}
