package mesosagent

import (
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
)

// ReportedContainer is the container of one executor, as the agent reports it. Its Devices and
// Shares were given to the executor and to its tasks that have not ended. Task and
// Job are empty if there are several tasks.
type ReportedContainer struct {
	gpu.ContainerDevices
	// PID is the executor's process, 0 if the agent does not report it.
	PID int
	// Used lists the Devices that a process may have opened: the devices of the executor itself,
	// and of tasks that have passed TASK_STARTING. Executors of this project reach that state only
	// after the daemon has confirmed their devices.
	Used       []string
	UsedShares []gpu.DeviceShare
}

// listContainers returns the containers of all executors, in the agent's order.
func listContainers(a agentState) []ReportedContainer {
	var list []ReportedContainer
	for _, r := range listExecutorRuns(a) {
		c := ReportedContainer{PID: r.pid}
		c.Container, c.Framework, c.Executor = r.container, r.framework, r.executor
		given, used := slices.Clone(r.resources), slices.Clone(r.resources)
		for _, t := range r.tasks {
			if hasEnded(&t) {
				continue // the agent is about to move it to another list
			}
			given = append(given, t.Resources...)
			if hasStarted(&t) {
				used = append(used, t.Resources...)
			}
		}
		if len(r.tasks) == 1 {
			c.Task, c.Job = r.tasks[0].TaskID.Value, jobLabel(r.tasks[0].Labels)
		}
		c.Devices, c.Shares = sumDevices(given)
		c.Used, c.UsedShares = sumDevices(used)
		list = append(list, c)
	}
	return list
}

func hasEnded(t *mesos.Task) bool {
	switch t.GetState() {
	case mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED, mesos.TASK_ERROR, mesos.TASK_DROPPED, mesos.TASK_GONE:
		return true
	}
	return false
}

// hasStarted reports whether the task's process may run.
func hasStarted(t *mesos.Task) bool {
	return t.State != nil && *t.State != mesos.TASK_STAGING && *t.State != mesos.TASK_STARTING
}

// sumDevices returns the devices among the resources, those held whole first, and the shares.
// Shares with invalid amounts are left out of the shares only.
func sumDevices(resources []mesos.Resource) (devices []string, shares []gpu.DeviceShare) {
	var scalars []allocation.MesosResource
	for _, r := range resources {
		if _, _, ok := gpu.ShareResource(r.Name); ok {
			scalars = append(scalars, allocation.MesosResource{Name: r.Name, Scalar: r.GetScalar().GetValue()})
		}
	}
	if request, err := allocation.ParseRequest(scalars); err == nil {
		shares = request.Shares
	}
	devices = listDevices(resources)
	seen := map[string]bool{}
	return slices.DeleteFunc(devices, func(d string) bool {
		twice := seen[d]
		seen[d] = true
		return twice
	}), shares
}
