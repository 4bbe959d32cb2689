package master

import (
	"context"
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	agentcalls "github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	"golang.org/x/sync/errgroup"

	"mesos-gpu/framework/sched"
)

const (
	// maxConcurrentInspections is how many agents are asked at the same time.
	maxConcurrentInspections = 16
	// inspectionTimeout bounds the wait for an agent's answer. The scheduler asks again.
	inspectionTimeout = 10 * time.Second
)

// inspectionQueue has questions to agents. If too many wait, further ones are lost: the scheduler repeats them.
type inspectionQueue chan sched.InspectAgent

func newInspectionQueue() inspectionQueue { return make(inspectionQueue, 1024) }

func (q inspectionQueue) enqueue(question sched.InspectAgent) {
	select {
	case q <- question:
	default:
	}
}

// inspectAgents asks agents which tasks they have and emits their answers, until ctx ends.
func (s *masterSession) inspectAgents(ctx context.Context) {
	var asking errgroup.Group
	asking.SetLimit(maxConcurrentInspections)
	defer func() { _ = asking.Wait() }() // the functions return no errors
	for {
		select {
		case question := <-s.inspections:
			asking.Go(func() error {
				tasks, err := s.client.listAgentTasks(ctx, question.AgentID, question.URL, s.frameworkID)
				if err != nil {
					s.client.cfg.Log.WithField("agent", question.AgentID).WithError(err).Debug("the agent does not say which tasks it has")
					return nil
				}
				s.emit(sched.AgentInspected{AgentID: question.AgentID, At: question.At, Tasks: tasks})
				return nil
			})
		case <-ctx.Done():
			return
		}
	}
}

// listAgentTasks returns a framework's tasks that an agent has: those that it is about to start, that run, and that have
// ended. It returns an error if another agent uses the address now: its list proves nothing.
func (c *Client) listAgentTasks(ctx context.Context, agentID, agentURL, frameworkID string) ([]sched.InspectedTask, error) {
	if agentURL == "" {
		return nil, fmt.Errorf("list the tasks of agent %s: its address is not known", agentID)
	}
	ctx, cancel := context.WithTimeout(ctx, inspectionTimeout)
	defer cancel()
	var self, answer agent.Response
	err := c.cfg.callAndDecode(ctx, c.operatorClient, agentURL+"/api/v1", agentcalls.GetAgent(), &self)
	if err == nil {
		err = c.cfg.callAndDecode(ctx, c.operatorClient, agentURL+"/api/v1", agentcalls.GetTasks(), &answer)
	}
	if err != nil {
		return nil, fmt.Errorf("list the tasks of agent %s: %w", agentURL, err)
	}
	if id := self.GetGetAgent().GetAgentInfo().GetID().GetValue(); id != agentID {
		return nil, fmt.Errorf("list the tasks of agent %s at %s: the agent there is %s now", agentID, agentURL, id)
	}
	all := answer.GetGetTasks()
	var tasks []sched.InspectedTask
	for _, list := range [][]mesos.Task{all.GetPendingTasks(), all.GetQueuedTasks(), all.GetLaunchedTasks(), all.GetTerminatedTasks(), all.GetCompletedTasks()} {
		for i := range list {
			t := &list[i]
			if state := convertState(t.GetState()); t.FrameworkID.Value == frameworkID && state != "" {
				tasks = append(tasks, sched.InspectedTask{TaskID: t.TaskID.Value, State: state})
			}
		}
	}
	return tasks, nil
}
