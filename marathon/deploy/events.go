package deploy

import (
	"cmp"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// BusEvent is a message of Marathon's event bus without its time. The fields
// have the names that they have there.
type BusEvent interface {
	// EventType is the event's name: deployment_success.
	EventType() string
}

// PlanEvent is an event that tells a whole Plan.
type PlanEvent interface {
	BusEvent
	// WithoutGroups is the event without the groups of its plan.
	WithoutGroups() BusEvent
}

// EventPlan is a Plan as events tell it: with all groups as they were before
// the deployment and as they are to be, nil where that is left out.
type EventPlan struct {
	Plan
	Original *marathon.Group `json:"original,omitempty"`
	Target   *marathon.Group `json:"target,omitempty"`
}

// DeploymentInfo says that a step begins.
type DeploymentInfo struct {
	Plan EventPlan `json:"plan"`
	Step PlanStep  `json:"currentStep"`
}

// DeploymentStepSuccess says that a step has ended well.
type DeploymentStepSuccess struct {
	Plan EventPlan `json:"plan"`
	Step PlanStep  `json:"currentStep"`
}

// DeploymentSuccess says that the last step has ended.
type DeploymentSuccess struct {
	ID   string    `json:"id"`
	Plan EventPlan `json:"plan"`
}

// DeploymentFailed says that somebody cancelled a deployment, or forced
// another over it.
type DeploymentFailed struct {
	ID     string    `json:"id"`
	Plan   EventPlan `json:"plan"`
	Reason string    `json:"reason"`
}

func (p EventPlan) withoutGroups() EventPlan { return EventPlan{Plan: p.Plan} }

// WithoutGroups implements Planned, as the other three do.
func (e DeploymentInfo) WithoutGroups() BusEvent        { e.Plan = e.Plan.withoutGroups(); return e }
func (e DeploymentStepSuccess) WithoutGroups() BusEvent { e.Plan = e.Plan.withoutGroups(); return e }
func (e DeploymentSuccess) WithoutGroups() BusEvent     { e.Plan = e.Plan.withoutGroups(); return e }
func (e DeploymentFailed) WithoutGroups() BusEvent      { e.Plan = e.Plan.withoutGroups(); return e }

// AppTerminated says that a removed app has no instances any more.
type AppTerminated struct {
	AppID string `json:"appId"`
}

// GroupChangeSuccess says that a change of the group's apps was accepted.
type GroupChangeSuccess struct {
	GroupID string `json:"groupId"`
	Version string `json:"version"`
}

// StatusUpdate says that an instance is in another state, under Mesos's name
// of it.
type StatusUpdate struct {
	AgentID    string `json:"slaveId"`
	TaskID     string `json:"taskId"`
	TaskStatus string `json:"taskStatus"`
	Message    string `json:"message"`
	AppID      string `json:"appId"`
	Host       string `json:"host"`
	Ports      []int  `json:"ports"`
	Version    string `json:"version"`
	// Ports and IPAddresses are empty, not nil, where there are none: Marathon
	// writes lists.
	IPAddresses []IPAddress `json:"ipAddresses"`
}

// InstanceChanged says the same in Marathon's words.
type InstanceChanged struct {
	InstanceID string `json:"instanceId"`
	Condition  string `json:"condition"`
	AppID      string `json:"runSpecId"`
	AgentID    string `json:"agentId"`
	Host       string `json:"host"`
	Version    string `json:"runSpecVersion"`
}

// UnknownInstanceTerminated says that an instance has ended that the app had
// given up before.
type UnknownInstanceTerminated struct {
	InstanceID string `json:"instanceId"`
	AppID      string `json:"runSpecId"`
	Condition  string `json:"condition"`
}

// InstanceHealthChanged says that an instance's health checks found something
// else.
type InstanceHealthChanged struct {
	InstanceID string `json:"instanceId"`
	Version    string `json:"runSpecVersion"`
	AppID      string `json:"runSpecId"`
	Healthy    *bool  `json:"healthy"`
}

func (DeploymentInfo) EventType() string            { return "deployment_info" }
func (DeploymentStepSuccess) EventType() string     { return "deployment_step_success" }
func (DeploymentSuccess) EventType() string         { return "deployment_success" }
func (DeploymentFailed) EventType() string          { return "deployment_failed" }
func (AppTerminated) EventType() string             { return "app_terminated_event" }
func (GroupChangeSuccess) EventType() string        { return "group_change_success" }
func (StatusUpdate) EventType() string              { return "status_update_event" }
func (InstanceChanged) EventType() string           { return "instance_changed_event" }
func (UnknownInstanceTerminated) EventType() string { return "unknown_instance_terminated_event" }
func (InstanceHealthChanged) EventType() string     { return "instance_health_changed_event" }

// stateNames is what Mesos and Marathon call a task's state; a task that waits has
// none in Mesos.
func stateNames(state job.State) (status, condition string) {
	switch state {
	case job.Waiting:
		return "", "Scheduled"
	case job.Launching:
		return "TASK_STAGING", "Provisioned"
	case job.Staging:
		return "TASK_STAGING", "Staging"
	case job.Starting:
		return "TASK_STARTING", "Starting"
	case job.Running:
		return "TASK_RUNNING", "Running"
	case job.Unreachable:
		return "TASK_UNREACHABLE", "Unreachable"
	case job.Killing:
		return "TASK_KILLING", "Killing"
	case job.Finished:
		return "TASK_FINISHED", "Finished"
	case job.Failed:
		return "TASK_FAILED", "Failed"
	case job.Killed:
		return "TASK_KILLED", "Killed"
	case job.Lost:
		return "TASK_LOST", "Gone"
	case job.Refused:
		return "TASK_ERROR", "Error"
	}
	return "", ""
}

// UnknownTermination is the event of an instance that has ended after it was given up.
func UnknownTermination(app string, i AppInstance) BusEvent {
	_, condition := stateNames(i.State)
	return UnknownInstanceTerminated{InstanceID: i.TaskID, AppID: app, Condition: condition}
}

// MesosState is Mesos's name of a task's state, empty before the master has
// heard of the task.
func MesosState(state job.State) string {
	status, _ := stateNames(state)
	return status
}

// healthChanges are the events between two sights of an app's instances.
func healthChanges(app string, before, after []AppInstance) []BusEvent {
	was := make(map[string]*AppInstance, len(before))
	for i := range before {
		was[before[i].TaskID] = &before[i]
	}
	var events []BusEvent
	for i := range after {
		now := &after[i]
		if old, known := was[now.TaskID]; known && !sameHealth(old.Healthy, now.Healthy) {
			events = append(events, InstanceHealthChanged{InstanceID: now.TaskID, Version: cmp.Or(now.StartedFor, now.Version), AppID: app, Healthy: now.Healthy})
		}
	}
	return events
}

// StateChangeEvents are the events of an instance that has come into its State, under the
// version of the app that it was started for. Whoever sees each change tells
// it: between two sights that Step is told of, instances come and go.
func StateChangeEvents(app, version string, i AppInstance) []BusEvent {
	status, condition := stateNames(i.State)
	events := []BusEvent{InstanceChanged{InstanceID: i.TaskID, Condition: condition, AppID: app, AgentID: i.AgentID, Host: i.Hostname, Version: version}}
	if status == "" {
		return events
	}
	return append(events, StatusUpdate{
		AgentID: i.AgentID, TaskID: i.TaskID, TaskStatus: status, Message: i.Message,
		AppID: app, Host: i.Hostname, Ports: append([]int{}, i.Ports...), Version: version, IPAddresses: append([]IPAddress{}, i.Addresses...),
	})
}

func sameHealth(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }
