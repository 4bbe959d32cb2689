package master

import (
	"errors"
	"fmt"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/master/check"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/resource"
)

// acceptOffers handles an ACCEPT of one agent's offers: it launches the valid
// tasks, reports errors for the invalid ones and declines the remaining
// resources.
func (m *EmbeddedMaster) acceptOffers(f *frameworkState, call *scheduler.Call_Accept) {
	offers, err := m.offersOf(f, call.OfferIDs)
	for _, id := range call.OfferIDs {
		if o := m.offers[id.Value]; o != nil && o.slot.Framework == f.id() {
			delete(m.offers, id.Value) // an offer can be answered only once
		}
	}
	if err != nil {
		m.rejectOperations(f, call.Operations, err)
		return
	}
	l := &taskLauncher{m: m, f: f, a: m.agents[offers[0].slot.Agent], role: offers[0].slot.Role}
	for _, o := range offers {
		l.free = resource.Sum(l.free, o.Resources)
	}
	for _, op := range call.Operations {
		if op.Type == mesos.Offer_Operation_LAUNCH {
			l.launchTasks(op.GetLaunch().GetTaskInfos())
			continue
		}
		m.cfg.Log.WithFields(map[string]any{"framework": f.id(), "operation": op.Type.String()}).Warn("dropped operation: this master only launches tasks")
	}
	m.refuseResources(offers[0].slot, resource.Unallocate(l.free), call.Filters)
}

// offersOf returns the framework's offers with the given ids. All must be
// valid, of one role and one agent.
func (m *EmbeddedMaster) offersOf(f *frameworkState, ids []mesos.OfferID) ([]*outstandingOffer, error) {
	if len(ids) == 0 {
		return nil, errors.New("no offers specified")
	}
	seen := map[string]bool{}
	var offers []*outstandingOffer
	for _, id := range ids {
		o := m.offers[id.Value]
		switch {
		case seen[id.Value]:
			return nil, fmt.Errorf("duplicate offer %s in offer list", id.Value)
		case o == nil:
			return nil, fmt.Errorf("offer %s is no longer valid", id.Value)
		case o.slot.Framework != f.id():
			return nil, fmt.Errorf("offer %s has invalid framework %s while framework %s is expected", id.Value, o.slot.Framework, f.id())
		case len(offers) > 0 && o.slot.Role != offers[0].slot.Role:
			return nil, fmt.Errorf("aggregated offers must be allocated to the same role: %q and %q", offers[0].slot.Role, o.slot.Role)
		case len(offers) > 0 && o.slot.Agent != offers[0].slot.Agent:
			return nil, fmt.Errorf("aggregated offers must belong to one single agent: %s and %s", offers[0].slot.Agent, o.slot.Agent)
		}
		seen[id.Value] = true
		offers = append(offers, o)
	}
	return offers, nil
}

// rejectOperations reports for each task that its offers were not valid.
func (m *EmbeddedMaster) rejectOperations(f *frameworkState, ops []mesos.Offer_Operation, cause error) {
	m.cfg.Log.WithFields(map[string]any{"framework": f.id()}).WithError(cause).Warn("accept of invalid offers")
	for _, op := range ops {
		for _, t := range op.GetLaunch().GetTaskInfos() {
			f.sendEvent(events.NewUpdate(masterStatus(t.TaskID, t.AgentID.Value, f.orLost(mesos.TASK_DROPPED),
				mesos.REASON_INVALID_OFFERS, "Task launched with invalid offers: "+cause.Error())))
		}
	}
}

// taskLauncher launches tasks on one agent from accepted resources.
type taskLauncher struct {
	m    *EmbeddedMaster
	f    *frameworkState
	a    *registeredAgent
	role string
	free []mesos.Resource
}

// launchTasks validates tasks, charges them to the agent and sends them to it.
func (l *taskLauncher) launchTasks(tasks []mesos.TaskInfo) {
	for _, t := range tasks {
		t.Resources = resource.Allocate(t.Resources, l.role)
		executor, command := mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: t.TaskID.Value}, FrameworkID: l.f.info.ID}, true
		if t.Executor != nil {
			executor, command = l.completeExecutor(*t.Executor), false
			t.Executor = &executor
		}
		err := check.LaunchCheck{
			Framework: *l.f.info.ID, Agent: l.a.id, Free: l.free, HasTask: l.f.hasTask,
			Executor: func(id string) (mesos.ExecutorInfo, bool) { return l.a.findExecutor(l.f.id(), id) },
		}.ValidateTask(t)
		if err != nil {
			l.f.sendEvent(events.NewUpdate(masterStatus(t.TaskID, t.AgentID.Value, mesos.TASK_ERROR, mesos.REASON_TASK_INVALID, err.Error())))
			continue
		}
		l.startTask(executor, command, t)
	}
}

// completeExecutor sets the fields that schedulers may leave empty.
func (l *taskLauncher) completeExecutor(e mesos.ExecutorInfo) mesos.ExecutorInfo {
	e.Resources = resource.Allocate(e.Resources, l.role)
	if e.FrameworkID == nil {
		e.FrameworkID = l.f.info.ID
	}
	return e
}

func (l *taskLauncher) startTask(e mesos.ExecutorInfo, command bool, t mesos.TaskInfo) {
	if _, runs := l.a.findExecutor(l.f.id(), e.ExecutorID.Value); !runs {
		l.free = resource.Subtract(l.free, e.Resources)
	}
	l.free = resource.Subtract(l.free, t.Resources)
	l.a.chargeTask(l.f.id(), e, command, t)
	l.f.tasks[t.TaskID.Value] = newTask(l.f, t, mesos.TASK_STAGING)
	a, info := l.a, *proto.Clone(&l.f.info).(*mesos.FrameworkInfo)
	executor, task := *proto.Clone(&e).(*mesos.ExecutorInfo), *proto.Clone(&t).(*mesos.TaskInfo)
	l.m.callAgent(a, func() { a.link.Run(info, executor, task) })
}
