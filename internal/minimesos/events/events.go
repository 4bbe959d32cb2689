// Package events builds the events of Mesos's v1 scheduler API and classifies task
// states, for the embedded master and agent and for the masters of tests.
package events

import (
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// NewSubscribed returns the first event of a subscription. master may be nil.
func NewSubscribed(framework mesos.FrameworkID, heartbeat time.Duration, master *mesos.MasterInfo) *scheduler.Event {
	seconds := heartbeat.Seconds()
	return &scheduler.Event{Type: scheduler.Event_SUBSCRIBED, Subscribed: &scheduler.Event_Subscribed{
		FrameworkID: &framework, HeartbeatIntervalSeconds: &seconds, MasterInfo: master,
	}}
}

// NewHeartbeat returns an event that shows that a connection is alive.
func NewHeartbeat() *scheduler.Event { return &scheduler.Event{Type: scheduler.Event_HEARTBEAT} }

// NewError returns an event that ends a subscription.
func NewError(message string) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: message}}
}

// NewOffers returns an event that offers resources.
func NewOffers(list ...mesos.Offer) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: list}}
}

// NewInverseOffer returns an event that requests an agent's resources back.
func NewInverseOffer(o mesos.InverseOffer) *scheduler.Event {
	return &scheduler.Event{
		Type: scheduler.Event_INVERSE_OFFERS, InverseOffers: &scheduler.Event_InverseOffers{InverseOffers: []mesos.InverseOffer{o}},
	}
}

// NewRescind returns an event that withdraws an offer.
func NewRescind(id mesos.OfferID) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_RESCIND, Rescind: &scheduler.Event_Rescind{OfferID: id}}
}

// NewRescindInverse returns an event that withdraws an inverse offer.
func NewRescindInverse(id mesos.OfferID) *scheduler.Event {
	return &scheduler.Event{
		Type: scheduler.Event_RESCIND_INVERSE_OFFER, RescindInverseOffer: &scheduler.Event_RescindInverseOffer{InverseOfferID: id},
	}
}

// NewUpdate returns an event that reports a task's status.
func NewUpdate(s mesos.TaskStatus) *scheduler.Event {
	return &scheduler.Event{Type: scheduler.Event_UPDATE, Update: &scheduler.Event_Update{Status: s}}
}

// NewFailure returns an event that reports the loss of an agent or, if executor
// is not nil, the exit of an executor with a wait status.
func NewFailure(agent mesos.AgentID, executor *mesos.ExecutorID, status *int32) *scheduler.Event {
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

// NewTask returns a task of the operator API. executor is nil for a task without one.
func NewTask(info mesos.TaskInfo, framework mesos.FrameworkID, executor *mesos.ExecutorID, state mesos.TaskState) mesos.Task {
	return mesos.Task{
		Name: info.Name, TaskID: info.TaskID, FrameworkID: framework, ExecutorID: executor, AgentID: info.AgentID,
		State: &state, Resources: info.Resources, Labels: info.Labels, Discovery: info.Discovery,
		Container: info.Container, HealthCheck: info.HealthCheck, KillPolicy: info.KillPolicy,
	}
}

// HasCapability reports whether a framework declares the capability.
func HasCapability(info mesos.FrameworkInfo, capability mesos.FrameworkInfo_Capability_Type) bool {
	return slices.ContainsFunc(info.Capabilities, func(c mesos.FrameworkInfo_Capability) bool { return c.Type == capability })
}

// OrLost returns state for PARTITION_AWARE frameworks and TASK_LOST for others.
func OrLost(info mesos.FrameworkInfo, state mesos.TaskState) mesos.TaskState {
	if HasCapability(info, mesos.FrameworkInfo_Capability_PARTITION_AWARE) {
		return state
	}
	return mesos.TASK_LOST
}
