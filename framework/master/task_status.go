package master

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// exitCodeLabel has the exit code of the task's process. The mesos-gpu
// executor sets it.
const exitCodeLabel = "mesos-gpu.exit_code"

// unfitLabel marks a task whose image cannot run on this agent. The value is
// what the image is incompatible with. The mesos-gpu executor sets it.
const unfitLabel = "mesos-gpu.unfit"

// convertState converts a Mesos state. States of a task that is gone without a
// known end become Lost.
func convertState(s mesos.TaskState) job.State {
	switch s {
	case mesos.TASK_STAGING:
		return job.Staging
	case mesos.TASK_STARTING:
		return job.Starting
	case mesos.TASK_RUNNING:
		return job.Running
	case mesos.TASK_KILLING:
		return job.Killing
	case mesos.TASK_FINISHED:
		return job.Finished
	case mesos.TASK_FAILED:
		return job.Failed
	case mesos.TASK_KILLED:
		return job.Killed
	case mesos.TASK_ERROR:
		return job.Refused
	case mesos.TASK_UNREACHABLE:
		return job.Unreachable
	case mesos.TASK_LOST, mesos.TASK_DROPPED, mesos.TASK_GONE, mesos.TASK_GONE_BY_OPERATOR, mesos.TASK_UNKNOWN:
		return job.Lost
	default:
		return "" // of a newer Mesos: acknowledged, and nothing else
	}
}

// convertUpdate converts a status update for the scheduler.
func convertUpdate(s *mesos.TaskStatus) sched.TaskUpdate {
	u := sched.TaskUpdate{
		TaskID: s.TaskID.Value, AgentID: s.GetAgentID().GetValue(), State: convertState(s.GetState()),
		UUID: s.UUID, Message: statusMessage(s), Healthy: s.Healthy, Check: describeCheckResult(s.CheckStatus),
		Addresses: containerAddresses(s.ContainerStatus),
	}
	if value, ok := statusLabel(s, job.HealthFailureLabel); ok {
		u.HealthFailure = job.ParseHealthFailure(value)
	}
	if s.Reason != nil {
		u.Reason = s.GetReason().String()
		u.Reconciled = s.GetReason() == mesos.REASON_RECONCILIATION
		// The state varies: KILLED, GONE_BY_OPERATOR if the agent will be
		// marked gone, DROPPED if the launch came too late.
		u.Drained = s.GetReason() == mesos.REASON_AGENT_DRAINING
	}
	if u.State == job.Lost {
		u.Message, u.Proof = lostMessage(s, u.Message), proofOf(s)
	}
	if u.State == job.Finished || u.State == job.Failed || u.State == job.Killed {
		u.ExitCode = readExitCode(s)
	}
	if u.State == job.Failed {
		u.Mismatch = unfitCause(s)
		u.MachineFault, _ = statusLabel(s, job.MachineFaultLabel)
		if s.GetReason() == mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT {
			u.MachineFault = job.NoExecutor
		}
	}
	if message, fault := job.CutMachineFault(u.Message); fault != "" {
		u.Message = message
		if s.GetSource() == mesos.SOURCE_AGENT && u.State == job.Failed {
			u.MachineFault = fault
		}
	}
	return u
}

// containerAddresses returns the addresses of all networks of the container.
// An agent reports its own address if it knows none.
func containerAddresses(s *mesos.ContainerStatus) []string {
	var all []string
	for _, n := range s.GetNetworkInfos() {
		for _, a := range n.IPAddresses {
			if ip := a.GetIPAddress(); ip != "" && !slices.Contains(all, ip) {
				all = append(all, ip)
			}
		}
	}
	return all
}

// memoryPattern matches the message of a Mesos agent whose container exceeded its memory limit, maybe after the exit status that
// our executor writes before it. Statistics follow.
var memoryPattern = regexp.MustCompile(`^(killed by signal 9 \(SIGKILL\): )?Memory limit exceeded: ` +
	`Requested: (\d+(?:\.\d+)?)([KMGT]?)B Maximum Used: (\d+(?:\.\d+)?)([KMGT]?)B\b`)

// statusMessage returns the message of a status. About a memory limit it has the limit and the peak in the words of our
// executor: Mesos adds all statistics of the cgroup, and its MB are MiB.
func statusMessage(s *mesos.TaskStatus) string {
	m := memoryPattern.FindStringSubmatch(s.GetMessage())
	if m == nil || s.GetReason() != mesos.REASON_CONTAINER_LIMITATION_MEMORY {
		return s.GetMessage()
	}
	unit := func(prefix string) string { return strings.TrimPrefix(prefix+"iB", "i") }
	return fmt.Sprintf("%sout of memory: the limit is %s %s, the peak was %s %s, with the executor", m[1], m[2], unit(m[3]), m[4], unit(m[5]))
}

// lostMessage adds the Mesos state to the message.
func lostMessage(s *mesos.TaskStatus, message string) string {
	if message == "" {
		return s.GetState().String()
	}
	return s.GetState().String() + ": " + message
}

// exitStatusPattern matches the messages of Mesos's own executors.
var exitStatusPattern = regexp.MustCompile(`exited with status (\d{1,3})\b`)

// unfitCause treats an unknown value as a mismatch of the GPUs, which excludes
// only this agent.
func unfitCause(s *mesos.TaskStatus) sched.ImageMismatch {
	value, ok := statusLabel(s, unfitLabel)
	switch cause := sched.ImageMismatch(value); {
	case !ok:
		return ""
	case cause == sched.MismatchDriver, cause == sched.MismatchAnyAgent:
		return cause
	default:
		return sched.MismatchGPU
	}
}

// statusLabel returns the value of a label of a status.
func statusLabel(s *mesos.TaskStatus, key string) (value string, ok bool) {
	for _, l := range s.GetLabels().GetLabels() {
		if l.Key == key {
			return l.GetValue(), true
		}
	}
	return "", false
}

// readExitCode reads the label of the mesos-gpu executor, else the message.
func readExitCode(s *mesos.TaskStatus) *int {
	if value, ok := statusLabel(s, exitCodeLabel); ok {
		if n, err := strconv.Atoi(value); err == nil {
			return &n
		}
	}
	m := exitStatusPattern.FindStringSubmatch(s.GetMessage())
	if m == nil {
		return nil
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return nil
	}
	return &n
}
