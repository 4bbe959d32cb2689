package deploy

import (
	"cmp"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// BusEvent is a message of Marathon's event bus, without its time. Its JSON is Marathon's.
type BusEvent interface {
	// EventType is the name of the event, for example deployment_success.
	EventType() string
}

// PlanEvent is an event that contains a Plan.
type PlanEvent interface {
	BusEvent
	// WithoutGroups returns the event without the groups of its plan.
	WithoutGroups() BusEvent
}

// EventPlan is a Plan in an event, with all groups before and after the deployment. The
// groups are nil if they are left out.
type EventPlan struct {
	Plan
	Original *marathon.Group `json:"original,omitempty"`
	Target   *marathon.Group `json:"target,omitempty"`
}

// DeploymentInfo reports the start of a step.
type DeploymentInfo struct {
	Plan EventPlan `json:"plan"`
	Step PlanStep  `json:"currentStep"`
}

// DeploymentStepSuccess reports the success of a step.
type DeploymentStepSuccess struct {
	Plan EventPlan `json:"plan"`
	Step PlanStep  `json:"currentStep"`
}

// DeploymentSuccess reports the success of the last step.
type DeploymentSuccess struct {
	ID   string    `json:"id"`
	Plan EventPlan `json:"plan"`
}

// DeploymentFailed reports that a deployment was cancelled, or replaced by another with
// force.
type DeploymentFailed struct {
	ID     string    `json:"id"`
	Plan   EventPlan `json:"plan"`
	Reason string    `json:"reason"`
}

func (p EventPlan) withoutGroups() EventPlan { return EventPlan{Plan: p.Plan} }

// WithoutGroups implements PlanEvent, as the other three methods do.
func (e DeploymentInfo) WithoutGroups() BusEvent        { e.Plan = e.Plan.withoutGroups(); return e }
func (e DeploymentStepSuccess) WithoutGroups() BusEvent { e.Plan = e.Plan.withoutGroups(); return e }
func (e DeploymentSuccess) WithoutGroups() BusEvent     { e.Plan = e.Plan.withoutGroups(); return e }
func (e DeploymentFailed) WithoutGroups() BusEvent      { e.Plan = e.Plan.withoutGroups(); return e }

// AppTerminated reports that a removed app has no instances any more.
type AppTerminated struct {
	AppID string `json:"appId"`
}

// GroupChangeSuccess reports that a change of the group's apps was accepted.
type GroupChangeSuccess struct {
	GroupID string `json:"groupId"`
	Version string `json:"version"`
}

// StatusUpdate reports the new state of an instance by its name in Mesos.
type StatusUpdate struct {
	AgentID    string `json:"slaveId"`
	TaskID     string `json:"taskId"`
	TaskStatus string `json:"taskStatus"`
	Message    string `json:"message"`
	AppID      string `json:"appId"`
	Host       string `json:"host"`
	Ports      []int  `json:"ports"`
	Version    string `json:"version"`
	// Ports and IPAddresses are empty rather than nil, because Marathon writes
	// empty lists.
	IPAddresses []IPAddress `json:"ipAddresses"`
}

// InstanceChanged reports the new state of an instance by its name in Marathon.
type InstanceChanged struct {
	InstanceID string `json:"instanceId"`
	Condition  string `json:"condition"`
	AppID      string `json:"runSpecId"`
	AgentID    string `json:"agentId"`
	Host       string `json:"host"`
	Version    string `json:"runSpecVersion"`
}

// UnknownInstanceTerminated reports the end of an instance that the app had given up.
type UnknownInstanceTerminated struct {
	InstanceID string `json:"instanceId"`
	AppID      string `json:"runSpecId"`
	Condition  string `json:"condition"`
}

// InstanceHealthChanged reports a new result of an instance's health checks.
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

// stateNames returns the names of a task's state in Mesos and in Marathon. A waiting task
// has no state in Mesos.
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

// UnknownTermination returns the event of an instance that ended after it was given up.
func UnknownTermination(app string, i AppInstance) BusEvent {
	_, condition := stateNames(i.State)
	return UnknownInstanceTerminated{InstanceID: i.ID, AppID: app, Condition: condition}
}

// MesosState returns Mesos's name of a task's state. It is empty before the task was sent
// to the master.
func MesosState(state job.State) string {
	status, _ := stateNames(state)
	return status
}

// updateHealth stores the health of the app's instances and returns an event for each that
// has changed.
func (a *appRecord) updateHealth(instances []AppInstance) []BusEvent {
	var events []BusEvent
	before := a.health
	a.health = make(map[string]*bool, len(instances))
	for _, now := range instances {
		if old, known := before[now.ID]; known && !sameHealth(old, now.Healthy) {
			events = append(events, InstanceHealthChanged{InstanceID: now.ID, Version: cmp.Or(now.StartedFor, now.Version), AppID: a.id, Healthy: now.Healthy})
		}
		a.health[now.ID] = now.Healthy
	}
	return events
}

// StateChangeEvents returns the events of an instance that has entered its State. The caller
// sees each change of state and publishes the events; Step only sees some of the states.
func StateChangeEvents(app string, i AppInstance) []BusEvent {
	version := cmp.Or(i.StartedFor, i.Version)
	status, condition := stateNames(i.State)
	events := []BusEvent{InstanceChanged{InstanceID: i.ID, Condition: condition, AppID: app, AgentID: i.AgentID, Host: i.Hostname, Version: version}}
	if status == "" {
		return events
	}
	return append(events, StatusUpdate{
		AgentID: i.AgentID, TaskID: i.ID, TaskStatus: status, Message: i.Message,
		AppID: app, Host: i.Hostname, Ports: append([]int{}, i.Ports...), Version: version, IPAddresses: append([]IPAddress{}, i.Addresses...),
	})
}

func sameHealth(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }
