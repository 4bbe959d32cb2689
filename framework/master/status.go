package master

import (
	"regexp"
	"strconv"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// labelExit is where our executor says how the task's process ended.
const labelExit = "mesos-gpu.exit_code"

// stateOf says a Mesos state in the words of a task's life. What means that
// the task is not there, and that nobody saw it end, is Lost.
func stateOf(s mesos.TaskState) job.State {
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

// updateOf says a status in the scheduler's terms.
func updateOf(s *mesos.TaskStatus) sched.Update {
	u := sched.Update{
		TaskID: s.TaskID.Value, AgentID: s.GetAgentID().GetValue(), State: stateOf(s.GetState()),
		UUID: s.UUID, Message: s.GetMessage(),
	}
	if s.Reason != nil {
		u.Reason = s.GetReason().String()
		u.Reconciled = s.GetReason() == mesos.REASON_RECONCILIATION
		// Whatever the state: KILLED, GONE_BY_OPERATOR where the agent will
		// be marked gone, DROPPED where the launch came too late.
		u.Drained = s.GetReason() == mesos.REASON_AGENT_DRAINING
	}
	if u.State == job.Lost {
		u.Message = lostMessage(s, u.Message)
	}
	if u.State == job.Finished || u.State == job.Failed || u.State == job.Killed {
		u.ExitCode = exitCode(s)
	}
	return u
}

// lostMessage keeps which of Mesos's states it was.
func lostMessage(s *mesos.TaskStatus, message string) string {
	if message == "" {
		return s.GetState().String()
	}
	return s.GetState().String() + ": " + message
}

// exited matches what Mesos's own executors say.
var exited = regexp.MustCompile(`exited with status (\d{1,3})\b`)

// exitCode reads the label of our executor, else the message.
func exitCode(s *mesos.TaskStatus) *int {
	for _, l := range s.GetLabels().GetLabels() {
		if l.Key == labelExit {
			if n, err := strconv.Atoi(l.GetValue()); err == nil {
				return &n
			}
		}
	}
	m := exited.FindStringSubmatch(s.GetMessage())
	if m == nil {
		return nil
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return nil
	}
	return &n
}
