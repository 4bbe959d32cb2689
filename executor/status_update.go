package executor

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/task"
)

const (
	// exitCodeLabel carries the exit status of a process that ended by itself.
	exitCodeLabel = "mesos-gpu.exit_code"
	// unfitLabel says that the process was not started, for the image cannot
	// run on this agent, and whose fault that is (image.MismatchCause).
	unfitLabel = "mesos-gpu.unfit"
)

// statusContent is a task's state and what goes with it.
type statusContent struct {
	state      mesos.TaskState
	message    string
	reason     *mesos.TaskStatus_Reason
	limitation *mesos.TaskResourceLimitation
	// unfit is set where the image cannot run on this agent.
	unfit image.MismatchCause
	// exitCode is set where the process ended by itself.
	exitCode *int
	// data describes the container, addresses are those of its own network.
	data      []byte
	addresses []string
}

// endStatus says what a task's end means. An end that was asked for is KILLED
// however the process took it. Where an agent ended the task itself it knows
// better than we why, so its state stands.
func endStatus(exit task.ExitStatus, err error, killing bool) statusContent {
	if err != nil {
		o := failureStatus(err, killing)
		o.message = err.Error() // perhaps that a container is left, with its GPUs
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

// failureStatus is a task that could not be started, or was lost sight of. A kill
// explains why a start broke off.
func failureStatus(err error, killing bool) statusContent {
	if killing {
		return statusContent{state: mesos.TASK_KILLED, message: "killed before it ran to its end"}
	}
	return statusContent{state: mesos.TASK_FAILED, message: err.Error()}
}

// newStatus makes a new status update, with a uuid of its own.
func newStatus(id mesos.TaskID, executorID string, o statusContent, now time.Time) mesos.TaskStatus {
	u := uuid.New()
	timestamp := float64(now.UnixNano()) / 1e9
	s := mesos.TaskStatus{
		TaskID:     id,
		State:      o.state.Enum(),
		Source:     mesos.SOURCE_EXECUTOR.Enum(),
		ExecutorID: &mesos.ExecutorID{Value: executorID},
		UUID:       u[:],
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

// maxMessageBytes bounds what an engine or agent has to say.
const maxMessageBytes = 2048

// joinLines makes a message fit a table's cell.
func joinLines(message string) string {
	message = strings.Join(strings.FieldsFunc(message, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if len(message) > maxMessageBytes {
		message = strings.ToValidUTF8(message[:maxMessageBytes], "") + "…"
	}
	return message
}
