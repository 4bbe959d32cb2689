// Package events builds the events and the task states of Mesos's v1 scheduler
// API, for the embedded master and for the masters of tests.
package events

import (
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// Subscribed is the first event of a subscription. master may be nil.
func Subscribed(framework mesos.FrameworkID, heartbeat time.Duration, master *mesos.MasterInfo) *scheduler.Event {
	seconds := heartbeat.Seconds()
	return &scheduler.Event{Type: scheduler.Event_SUBSCRIBED, Subscribed: &scheduler.Event_Subscribed{
		FrameworkID: &framework, HeartbeatIntervalSeconds: &seconds, MasterInfo: master,
	}}
}

// Heartbeat shows that a connection is alive.
func Heartbeat() *scheduler.Event { return &scheduler.Event{Type: scheduler.Event_HEARTBEAT} }

// Error ends a subscription.
func Error(message string) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: message}}
}

// Offers offers resources.
func Offers(list ...mesos.Offer) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: list}}
}

// InverseOffer requests an agent's resources back.
func InverseOffer(o mesos.InverseOffer) *scheduler.Event {
	return &scheduler.Event{
		Type: scheduler.Event_INVERSE_OFFERS, InverseOffers: &scheduler.Event_InverseOffers{InverseOffers: []mesos.InverseOffer{o}},
	}
}

// Rescind withdraws an offer.
func Rescind(id mesos.OfferID) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: id}}
}

// RescindInverse withdraws an inverse offer.
func RescindInverse(id mesos.OfferID) *scheduler.Event {
	return &scheduler.Event{
		Type: scheduler.Event_RESCIND_INVERSE_OFFER, RescindInverseOffer: &scheduler.Event_RescindInverseOffer{InverseOfferID: id},
	}
}

// Update reports a task's status.
func Update(s mesos.TaskStatus) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: s}}
}

// Failure reports the loss of an agent or, if executor is not nil, the exit of
// an executor with a wait status.
func Failure(agent mesos.AgentID, executor *mesos.ExecutorID, status *int32) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &agent, ExecutorID: executor, Status: status}}
}

// IsTerminal reports whether a task in that state has ended.
func IsTerminal(state mesos.TaskState) bool {
	switch state {
	case mesos.TASK_FINISHED, mesos.TASK_FAILED, mesos.TASK_KILLED, mesos.TASK_ERROR,
		mesos.TASK_LOST, mesos.TASK_DROPPED, mesos.TASK_GONE, mesos.TASK_GONE_BY_OPERATOR:
		return true
	}
	return false
}
