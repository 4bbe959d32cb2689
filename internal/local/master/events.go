package master

import (
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// masterStatus is a status that the master itself generates. It has no uuid
// because the master expects no acknowledgement. agent is empty if unknown.
func masterStatus(task mesos.TaskID, agent string, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string) mesos.TaskStatus {
	s := mesos.TaskStatus{
		TaskID:    task,
		State:     state.Enum(),
		Source:    mesos.SOURCE_MASTER.Enum(),
		Reason:    reason.Enum(),
		Message:   proto.String(message),
		Timestamp: unixSeconds(time.Now()),
	}
	if agent != "" {
		s.AgentID = &mesos.AgentID{Value: agent}
	}
	return s
}
