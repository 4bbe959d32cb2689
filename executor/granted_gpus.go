package executor

import (
	"fmt"
	"strings"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// findGrantedGPUs returns the GPUs that the task may open. The task's
// resources say how many, the executor's own device cgroup says which. The two
// must agree: a difference means that another task could open the same device.
//
// Without a device cgroup a mesos task runs anyway: it is a child of this
// executor and can open what the executor can. A docker task is rejected,
// because the devices to pass to its container are not known.
func (l *taskLoop) findGrantedGPUs(t task.TaskSpec) (gpu.DeviceAccess, error) {
	want := t.GPUs
	reach, err := l.cfg.ReadGrantedGPUs()
	if err != nil {
		reach.Confined = false
		l.log.WithError(err).Warn("granted GPUs are unknown")
	}
	switch {
	case !reach.Confined && (want == 0 || t.Containerizer != job.Docker):
		return gpu.DeviceAccess{}, nil
	case err != nil:
		return gpu.DeviceAccess{}, fmt.Errorf("docker task holds %s, find out which: %w: %s", formatGPUCount(want), err, unconfinedAdvice)
	case !reach.Confined:
		return gpu.DeviceAccess{}, fmt.Errorf("docker task holds %s and no device cgroup says which: %s", formatGPUCount(want), unconfinedAdvice)
	case want > 0 && len(reach.Caps) > 0 && len(reach.Minors) > 0:
		// A MIG device has the node of its GPU, so the number of nodes is not
		// the number of devices.
	case len(reach.Minors) != want:
		return gpu.DeviceAccess{}, fmt.Errorf("task holds %s and the executor's devices cgroup grants %d%s: check the agent's GPU isolator",
			formatGPUCount(want), len(reach.Minors), formatDeviceNodes(reach.Minors))
	}
	return reach, nil
}

const unconfinedAdvice = "run the agent as root with GPU isolation, or use container: mesos"

func formatGPUCount(gpus int) string { return fmt.Sprintf("%d %s", gpus, gpu.Plural(gpus, "GPU")) }

// formatDeviceNodes returns " (nvidia0, nvidia2)".
func formatDeviceNodes(minors []int) string {
	if len(minors) == 0 {
		return ""
	}
	names := make([]string, len(minors))
	for i, m := range minors {
		names[i] = fmt.Sprintf("nvidia%d", m)
	}
	return " (" + strings.Join(names, ", ") + ")"
}
