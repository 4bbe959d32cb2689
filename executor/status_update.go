package executor

import (
	"slices"
	"strconv"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

const (
	// exitCodeLabel has the exit code of a process that ended by itself.
	exitCodeLabel = "mesos-gpu.exit_code"
	// unfitLabel marks a task whose image cannot run on this agent; its
	// process was not started. The value is an image.MismatchCause.
	unfitLabel = "mesos-gpu.unfit"
)

// statusContent is a task's state with the details that go into its status
// update.
type statusContent struct {
	state      mesos.TaskState
	message    string
	reason     *mesos.TaskStatus_Reason
	limitation *mesos.TaskResourceLimitation
	// unfit is set if the image cannot run on this agent.
	unfit image.MismatchCause
	// machineFault is the value of job.MachineFaultLabel, empty if the machine is
	// not at fault.
	machineFault string
	// exitCode is set if the process ended by itself.
	exitCode *int
	// healthFailure is set if a health check has failed.
	healthFailure *job.HealthFailure
	// data describes the container as JSON. addresses are its addresses in its
	// own network.
	data      []byte
	addresses []string
}

// endStatus converts the end of a task's process. If a kill is in progress,
// the state is KILLED, whatever the exit code. If the agent ended the task
// itself, its state is kept: the agent has the reason.
func endStatus(exit task.ExitStatus, err error, killing bool) statusContent {
	if err != nil {
		o := failureStatus(err, killing)
		o.message = err.Error() // it may say that a container, with its GPUs, was left behind
		return o
	}
	o := statusContent{message: exit.String(), reason: exit.Reason, limitation: exit.Limitation}
	switch {
	case killing:
		o.state = mesos.TASK_KILLED
	case exit.Succeeded():
		o.state = mesos.TASK_FINISHED
	default:
		o.state = mesos.TASK_FAILED
	}
	if exit.State != nil {
		o.state = *exit.State
	}
	if !killing && !exit.NoStatus {
		status := exit.ShellCode()
		o.exitCode = &status
	}
	return o
}

// startFailureStatus is for a task that did not start. If its program cannot be started,
// the status has the exit code of a shell.
func startFailureStatus(t *task.TaskSpec, err error, killing bool) statusContent {
	o := failureStatus(err, killing)
	if killing {
		return o
	}
	if o.machineFault = machineFaultOf(err); o.machineFault != "" {
		return o
	}
	argv := slices.Concat(t.Entrypoint, t.Argv)
	if len(argv) == 0 {
		return o
	}
	if code, message := task.ParseStartFailure(argv[0], err.Error()); code != 0 {
		o.message, o.exitCode = message, &code
	}
	return o
}

// failureStatus is for a task that did not start or that the executor lost
// track of. During a kill, the state is KILLED.
func failureStatus(err error, killing bool) statusContent {
	if killing {
		return statusContent{state: mesos.TASK_KILLED, message: "killed before it ran to its end"}
	}
	return statusContent{state: mesos.TASK_FAILED, message: err.Error()}
}

// newStatus returns a status update.
func newStatus(id mesos.TaskID, executorID string, o statusContent, uuid []byte, now time.Time) mesos.TaskStatus {
	timestamp := float64(now.UnixNano()) / 1e9
	s := mesos.TaskStatus{
		TaskID:     id,
		State:      o.state.Enum(),
		Source:     mesos.SOURCE_EXECUTOR.Enum(),
		ExecutorID: &mesos.ExecutorID{Value: executorID},
		UUID:       uuid,
		Timestamp:  &timestamp,
		Reason:     o.reason,
		Limitation: o.limitation,
		Data:       o.data,
	}
	if len(o.addresses) > 0 {
		s.ContainerStatus = &mesos.ContainerStatus{NetworkInfos: []mesos.NetworkInfo{{IPAddresses: ipAddresses(o.addresses)}}}
	}
	if o.message != "" {
		message := joinLines(o.message)
		s.Message = &message
	}
	if o.exitCode != nil {
		addLabel(&s, exitCodeLabel, strconv.Itoa(*o.exitCode))
	}
	if o.healthFailure != nil {
		addLabel(&s, job.HealthFailureLabel, o.healthFailure.Encode())
	}
	if o.machineFault != "" {
		addLabel(&s, job.MachineFaultLabel, o.machineFault)
	}
	if o.unfit != "" {
		addLabel(&s, unfitLabel, string(o.unfit))
	}
	return s
}

func addLabel(s *mesos.TaskStatus, key, value string) {
	if s.Labels == nil {
		s.Labels = &mesos.Labels{}
	}
	s.Labels.Labels = append(s.Labels.Labels, mesos.Label{Key: key, Value: &value})
}

func ipAddresses(all []string) []mesos.NetworkInfo_IPAddress {
	var list []mesos.NetworkInfo_IPAddress
	for _, a := range all {
		protocol := mesos.IPv4
		if strings.Contains(a, ":") {
			protocol = mesos.IPv6
		}
		list = append(list, mesos.NetworkInfo_IPAddress{Protocol: &protocol, IPAddress: &a})
	}
	return list
}

// maxMessageBytes bounds the messages of engines and agents.
const maxMessageBytes = 2048

// joinLines makes a message one line that fits a table.
func joinLines(message string) string {
	message = strings.Join(strings.FieldsFunc(message, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if len(message) > maxMessageBytes {
		message = strings.ToValidUTF8(message[:maxMessageBytes], "") + "…"
	}
	return message
}
