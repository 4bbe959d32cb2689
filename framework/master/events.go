package master

import (
	"errors"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/sched"
)

// handle turns one event of the master into events of the scheduler. Those it
// does not know, of a newer Mesos, say nothing to us.
func (s *session) handle(ev *scheduler.Event) error {
	switch ev.GetType() {
	case scheduler.Event_SUBSCRIBED:
		s.emit(sched.Subscribed{FrameworkID: ev.GetSubscribed().GetFrameworkID().GetValue()})
	case scheduler.Event_OFFERS:
		offers := s.offered(ev.GetOffers().GetOffers())
		s.client.news.offers(offers.Offers)
		s.emit(offers)
	case scheduler.Event_RESCIND:
		id := ev.GetRescind().GetOfferID().Value
		s.take([]string{id})
		s.emit(sched.Rescind{OfferID: id})
	case scheduler.Event_INVERSE_OFFERS:
		s.client.news.stir()
		s.emit(inverseOf(ev.GetInverseOffers().GetInverseOffers()))
	case scheduler.Event_UPDATE:
		status := ev.GetUpdate().GetStatus()
		update := updateOf(&status)
		if update.Drained {
			s.client.news.stir()
		}
		s.emit(update)
	case scheduler.Event_UPDATE_OPERATION_STATUS:
		s.emit(operationOf(ev.GetUpdateOperationStatus().GetStatus()))
	case scheduler.Event_FAILURE:
		// An executor's failure says nothing that its task's status does not.
		if f := ev.GetFailure(); f.GetAgentID() != nil && f.GetExecutorID() == nil {
			s.client.news.stir()
			s.emit(sched.AgentLost{AgentID: f.GetAgentID().GetValue()})
		}
	case scheduler.Event_ERROR:
		return errorOf(ev.GetError().GetMessage())
	}
	return nil
}

// inverseOf says inverse offers in the scheduler's terms.
func inverseOf(offers []mesos.InverseOffer) sched.InverseOffers {
	var ev sched.InverseOffers
	for i := range offers {
		o := &offers[i]
		ev.Offers = append(ev.Offers, sched.InverseOffer{
			ID: o.OfferID.Value, AgentID: o.GetAgentID().GetValue(), Start: startOf(&o.Unavailability),
			Duration: time.Duration(o.Unavailability.GetDuration().GetNanoseconds()),
		})
	}
	return ev
}

func operationOf(status mesos.OperationStatus) sched.OperationUpdate {
	return sched.OperationUpdate{
		ID: status.GetOperationID().GetValue(), AgentID: status.GetAgentID().GetValue(),
		ProviderID: status.GetResourceProviderID().GetValue(), UUID: status.GetUUID().GetValue(),
	}
}

func startOf(u *mesos.Unavailability) time.Time {
	if u == nil {
		return time.Time{}
	}
	return time.Unix(0, u.Start.Nanoseconds)
}

// errorOf tells the ends of a framework from those of a subscription.
func errorOf(message string) error {
	switch lower := strings.ToLower(message); {
	case strings.Contains(lower, "has been removed"):
		return ErrRemoved
	case strings.Contains(lower, "failed over"):
		return ErrReplaced
	default:
		return errors.New("error from the master: " + message)
	}
}
