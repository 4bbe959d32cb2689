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

// errNotSent means that there is no call to make of an operation.
var errNotSent = errors.New("not sent")

// callOf makes the call of an operation; nil where none is needed any more.
func (s *session) callOf(op sched.Op) (*scheduler.Call, error) {
	var call *scheduler.Call
	switch o := op.(type) {
	case sched.Accept:
		var err error
		if call, err = s.acceptOf(o); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
	case sched.Decline:
		offers := s.take(declined(o))
		if len(offers) == 0 {
			return nil, nil // all were rescinded
		}
		call = calls.Decline(offerIDs(offers)...).With(calls.RefuseSeconds(o.Refuse))
	case sched.AnswerInverse:
		ids := make([]mesos.OfferID, len(o.OfferIDs))
		for i, id := range o.OfferIDs {
			ids[i].Value = id
		}
		call = calls.DeclineInverseOffers(ids...)
		if o.Accept {
			call = calls.AcceptInverseOffers(ids...)
		}
		call = call.With(calls.RefuseSeconds(o.Refuse))
	case sched.Revive:
		call = calls.ReviveWith(o.Roles)
	case sched.Suppress:
		call = calls.SuppressWith(o.Roles)
	case sched.SetRoles:
		now := s.client.roles.now()
		call = &scheduler.Call{Type: scheduler.Call_UPDATE_FRAMEWORK, UpdateFramework: &scheduler.Call_UpdateFramework{
			FrameworkInfo: *s.client.cfg.framework(s.frameworkID, now.names), SuppressedRoles: now.suppressed,
		}}
	case sched.Acknowledge:
		call = calls.Acknowledge(o.AgentID, o.TaskID, o.UUID)
	case sched.AcknowledgeOperation:
		call = calls.AcknowledgeOperationStatus(o.AgentID, o.ProviderID, o.UUID, o.ID)
	case sched.KillTask:
		call = killOf(o)
	case sched.Reconcile:
		ask := map[string]string{}
		for _, t := range o.Tasks {
			ask[t.TaskID] = t.AgentID
		}
		call = calls.Reconcile(calls.ReconcileTasks(ask))
	default:
		return nil, fmt.Errorf("%w: no call is known for %T", errNotSent, op)
	}
	return call.With(calls.Framework(s.frameworkID)), nil
}

func (s *session) acceptOf(o sched.Accept) (*scheduler.Call, error) {
	offers := s.held(o.OfferIDs)
	if len(offers) < len(o.OfferIDs) {
		return nil, fmt.Errorf("%d of %d offers of agent %s are gone", len(o.OfferIDs)-len(offers), len(o.OfferIDs), o.AgentID)
	}
	tasks, err := s.client.tasksOf(o, offers, s.frameworkID)
	if err != nil {
		return nil, err
	}
	launch := calls.OfferOperations{calls.OpLaunch(tasks...)}
	return calls.Accept(launch.WithOffers(offerIDs(offers)...)).With(calls.RefuseSeconds(o.Refuse)), nil
}

func killOf(o sched.KillTask) *scheduler.Call {
	call := calls.Kill(o.TaskID, o.AgentID)
	if o.Force { // without a policy the task's own holds
		call.Kill.KillPolicy = &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{}}
	}
	return call
}

func declined(o sched.Decline) []string {
	ids := make([]string, len(o.Offers))
	for i, d := range o.Offers {
		ids[i] = d.OfferID
	}
	return ids
}

func duration(d time.Duration) *mesos.DurationInfo { return &mesos.DurationInfo{Nanoseconds: int64(d)} }

func offerIDs(offers []mesos.Offer) []mesos.OfferID {
	ids := make([]mesos.OfferID, len(offers))
	for i := range offers {
		ids[i] = offers[i].ID
	}
	return ids
}
