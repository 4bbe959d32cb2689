package master

import (
	"errors"
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"mesos-gpu/framework/sched"
)

// errNoCall means that an operation has no corresponding call.
var errNoCall = errors.New("not sent")

// buildCall returns the call for an operation; nil if it is not needed any
// more. It returns errNoCall, wrapped, if the operation cannot be carried out
// in this session, for example because an offer was rescinded.
func (s *masterSession) buildCall(op sched.Operation) (*scheduler.Call, error) {
	var call *scheduler.Call
	switch o := op.(type) {
	case sched.AcceptOffers:
		var err error
		if call, err = s.buildAccept(o); err != nil {
			return nil, fmt.Errorf("%w: %w", errNoCall, err)
		}
	case sched.DeclineOffers:
		offers := s.takeOffers(declinedOfferIDs(o))
		if len(offers) == 0 {
			return nil, nil // all of them were rescinded
		}
		call = calls.Decline(offerIDs(offers)...).With(calls.RefuseSeconds(o.Refuse))
	case sched.AnswerInverseOffers:
		ids := make([]mesos.OfferID, len(o.OfferIDs))
		for i, id := range o.OfferIDs {
			ids[i].Value = id
		}
		call = calls.DeclineInverseOffers(ids...)
		if o.Accept {
			call = calls.AcceptInverseOffers(ids...)
		}
		call = call.With(calls.RefuseSeconds(o.Refuse))
	case sched.ReviveOffers:
		call = calls.ReviveWith(o.Roles)
	case sched.SuppressOffers:
		call = calls.SuppressWith(o.Roles)
	case sched.SetRoles:
		now := s.client.roles.snapshot()
		call = &scheduler.Call{Type: scheduler.Call_UPDATE_FRAMEWORK, UpdateFramework: &scheduler.Call_UpdateFramework{
			FrameworkInfo: *s.client.cfg.frameworkInfo(s.frameworkID, now.names), SuppressedRoles: now.suppressed,
		}}
	case sched.AcknowledgeUpdate:
		call = calls.Acknowledge(o.AgentID, o.TaskID, o.UUID)
	case sched.AcknowledgeOperation:
		call = calls.AcknowledgeOperationStatus(o.AgentID, o.ProviderID, o.UUID, o.ID)
	case sched.KillTask:
		call = buildKill(o)
	case sched.ShutdownExecutor:
		call = calls.Shutdown(o.TaskID, o.AgentID) // each task has an executor of its own
	case sched.ReconcileTasks:
		agentByTask := map[string]string{}
		for _, t := range o.Tasks {
			agentByTask[t.TaskID] = t.AgentID
		}
		call = calls.Reconcile(calls.ReconcileTasks(agentByTask))
	default:
		return nil, fmt.Errorf("%w: no call is known for %T", errNoCall, op)
	}
	return call.With(calls.Framework(s.frameworkID)), nil
}

// buildAccept returns the ACCEPT that launches tasks on the offers of one agent. Tasks that cannot be launched are left
// out, and their ends are emitted. The offers stay stored until the master has answered.
func (s *masterSession) buildAccept(o sched.AcceptOffers) (*scheduler.Call, error) {
	offers := s.findOffers(o.OfferIDs)
	if len(offers) < len(o.OfferIDs) {
		return nil, fmt.Errorf("%d of %d offers of agent %s are gone", len(o.OfferIDs)-len(offers), len(o.OfferIDs), o.AgentID)
	}
	tasks, refused, err := s.client.buildTasks(o, offers, s.frameworkID)
	if err != nil {
		return nil, err
	}
	for _, u := range refused {
		s.emit(u)
	}
	launch := calls.OfferOperations{calls.OpLaunch(tasks...)}
	return calls.Accept(launch.WithOffers(offerIDs(offers)...)).With(calls.RefuseSeconds(o.Refuse)), nil
}

// buildKill returns the KILL of a task, with a grace period if it is not to be the task's own.
func buildKill(o sched.KillTask) *scheduler.Call {
	call := calls.Kill(o.TaskID, o.AgentID)
	if o.Force || o.Grace > 0 { // without a policy the task's own applies
		call.Kill.KillPolicy = &mesos.KillPolicy{GracePeriod: durationInfo(o.Grace)}
	}
	return call
}

func declinedOfferIDs(o sched.DeclineOffers) []string {
	ids := make([]string, len(o.Offers))
	for i, d := range o.Offers {
		ids[i] = d.OfferID
	}
	return ids
}

func durationInfo(d time.Duration) *mesos.DurationInfo {
	return &mesos.DurationInfo{Nanoseconds: int64(d)}
}

func offerIDs(offers []mesos.Offer) []mesos.OfferID {
	ids := make([]mesos.OfferID, len(offers))
	for i := range offers {
		ids[i] = offers[i].ID
	}
	return ids
}
