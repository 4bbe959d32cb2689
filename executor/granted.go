package executor

import (
	"fmt"
	"strings"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// granted finds out which GPUs the task may use. Its resources say how many,
// the executor's own device cgroup says which; the two must agree, since a
// difference means that some other task could open the same device.
//
// Where no cgroup says which, a mesos task runs all the same: it is a child of
// this executor and can open what the executor can. A docker task cannot, for
// nobody knows which devices to give it.
func (l *loop) granted(t task.Task) ([]int, error) {
	want := t.Launch.GPUs
	minors, confined, err := l.cfg.Granted()
	if err != nil {
		confined = false
		l.log.WithError(err).Warn("granted GPUs are unknown")
	}
	switch {
	case !confined && (want == 0 || t.Launch.Containerizer != job.Docker):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("docker task holds %s, learn which: %w: %s", count(want), err, unconfined)
	case !confined:
		return nil, fmt.Errorf("docker task holds %s and no devices cgroup says which: %s", count(want), unconfined)
	case len(minors) != want:
		return nil, fmt.Errorf("task holds %s and the executor's devices cgroup grants %d%s: check the agent's GPU isolator", count(want), len(minors), nodes(minors))
	}
	return minors, nil
}

const unconfined = "run the agent as root with GPU isolation (cgroup v1 devices), or use container: mesos"

func count(gpus int) string { return fmt.Sprintf("%d %s", gpus, gpu.Plural(gpus, "GPU")) }

// nodes reads " (nvidia0, nvidia2)".
func nodes(minors []int) string {
	if len(minors) == 0 {
		return ""
	}
	names := make([]string, len(minors))
	for i, m := range minors {
		names[i] = fmt.Sprintf("nvidia%d", m)
	}
	return " (" + strings.Join(names, ", ") + ")"
}
