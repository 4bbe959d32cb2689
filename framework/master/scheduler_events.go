package master

import (
	"errors"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/sched"
)

// handleEvent converts one event of the master to events of the scheduler. It
// ignores unknown events of newer Mesos versions. It returns an error for an
// ERROR, after which the master closes the subscription.
func (s *masterSession) handleEvent(ev *scheduler.Event) error {
	switch ev.GetType() {
	case scheduler.Event_SUBSCRIBED:
		s.emit(sched.Subscribed{FrameworkID: ev.GetSubscribed().GetFrameworkID().GetValue()})
	case scheduler.Event_OFFERS:
		offers := s.storeOffers(ev.GetOffers().GetOffers())
		s.client.listTrigger.noteOffers(offers.Offers)
		s.emit(offers)
	case scheduler.Event_RESCIND:
		id := ev.GetRescind().GetOfferID().Value
		s.takeOffers([]string{id})
		s.emit(sched.OfferRescinded{OfferID: id})
	case scheduler.Event_INVERSE_OFFERS:
		s.client.listTrigger.notify()
		s.emit(convertInverseOffers(ev.GetInverseOffers().GetInverseOffers()))
	case scheduler.Event_UPDATE:
		status := ev.GetUpdate().GetStatus()
		update := convertUpdate(&status)
		if update.Drained {
			s.client.listTrigger.notify()
		}
		s.emit(update)
	case scheduler.Event_UPDATE_OPERATION_STATUS:
		s.emit(convertOperationStatus(ev.GetUpdateOperationStatus().GetStatus()))
	case scheduler.Event_FAILURE:
		// The failure of an executor is also reported by its task's status.
		if f := ev.GetFailure(); f.GetAgentID() != nil && f.GetExecutorID() == nil {
			s.client.listTrigger.notify()
			s.emit(sched.AgentLost{AgentID: f.GetAgentID().GetValue()})
		}
	case scheduler.Event_ERROR:
		return classifyError(ev.GetError().GetMessage())
	}
	return nil
}

// convertInverseOffers converts inverse offers for the scheduler.
func convertInverseOffers(offers []mesos.InverseOffer) sched.InverseOffersReceived {
	var ev sched.InverseOffersReceived
	for i := range offers {
		o := &offers[i]
		ev.Offers = append(ev.Offers, sched.InverseOffer{
			ID: o.OfferID.Value, AgentID: o.GetAgentID().GetValue(), Start: unavailabilityStart(&o.Unavailability),
			Duration: time.Duration(o.Unavailability.GetDuration().GetNanoseconds()),
		})
	}
	return ev
}

func convertOperationStatus(status mesos.OperationStatus) sched.OperationUpdated {
	return sched.OperationUpdated{
		ID: status.GetOperationID().GetValue(), AgentID: status.GetAgentID().GetValue(),
		ProviderID: status.GetResourceProviderID().GetValue(), UUID: status.GetUUID().GetValue(),
	}
}

// unavailabilityStart returns when a maintenance begins, zero without one.
func unavailabilityStart(u *mesos.Unavailability) time.Time {
	if u == nil {
		return time.Time{}
	}
	return time.Unix(0, u.Start.Nanoseconds)
}

// classifyError distinguishes errors that end the framework from those that
// end only the subscription.
func classifyError(message string) error {
	switch lower := strings.ToLower(message); {
	case strings.Contains(lower, "has been removed"):
		return ErrRemoved
	case strings.Contains(lower, "failed over"):
		return ErrReplaced
	default:
		return errors.New("error from the master: " + message)
	}
}
