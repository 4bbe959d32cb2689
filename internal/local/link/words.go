package link

import mesos "github.com/mesos/mesos-go/api/v1/lib"

// Version is the version that master and agent report: the Mesos release whose
// v1 APIs they implement.
const Version = "1.11.0"

// IsTerminal reports whether a task in that state has ended.
func IsTerminal(state mesos.TaskState) bool {
	switch state {
	case mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED, mesos.TASK_ERROR,
		mesos.TASK_LOST, mesos.TASK_DROPPED, mesos.TASK_GONE, mesos.TASK_GONE_BY_OPERATOR:
		return true
	}
	return false
}
