package deploy

import "mesos-gpu/job"

// Event is a message of Marathon's event bus without its time. The fields
// have the names that they have there.
type Event interface {
	// EventType is the event's name: deployment_success.
	EventType() string
}

// DeploymentInfo says that a step begins.
type DeploymentInfo struct {
	Plan Plan     `json:"plan"`
	Step PlanStep `json:"currentStep"`
}

// DeploymentStepSuccess says that a step has ended well.
type DeploymentStepSuccess struct {
	Plan Plan     `json:"plan"`
	Step PlanStep `json:"currentStep"`
}

// DeploymentSuccess says that the last step has ended.
type DeploymentSuccess struct {
	ID   string `json:"id"`
	Plan Plan   `json:"plan"`
}

// DeploymentFailed says that somebody cancelled a deployment, or forced
// another over it.
type DeploymentFailed struct {
	ID     string `json:"id"`
	Plan   Plan   `json:"plan"`
	Reason string `json:"reason"`
}

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

// InstanceHealthChanged says that an instance's health checks found something
// else.
type InstanceHealthChanged struct {
	InstanceID string `json:"instanceId"`
	Version    string `json:"runSpecVersion"`
	AppID      string `json:"runSpecId"`
	Healthy    *bool  `json:"healthy"`
}

func (DeploymentInfo) EventType() string        { return "deployment_info" }
func (DeploymentStepSuccess) EventType() string { return "deployment_step_success" }
func (DeploymentSuccess) EventType() string     { return "deployment_success" }
func (DeploymentFailed) EventType() string      { return "deployment_failed" }
func (AppTerminated) EventType() string         { return "app_terminated_event" }
func (GroupChangeSuccess) EventType() string    { return "group_change_success" }
func (StatusUpdate) EventType() string          { return "status_update_event" }
func (InstanceChanged) EventType() string       { return "instance_changed_event" }
func (InstanceHealthChanged) EventType() string { return "instance_health_changed_event" }

// said is what Mesos and Marathon call a task's state; a task that waits has
// none in Mesos.
func said(state job.State) (status, condition string) {
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

// MesosState is Mesos's name of a task's state, empty before the master has
// heard of the task.
func MesosState(state job.State) string {
	status, _ := said(state)
	return status
}

// differences are the events between two sights of an app's instances.
func differences(app string, before, after []Instance) []Event {
	was := make(map[string]*Instance, len(before))
	for i := range before {
		was[before[i].TaskID] = &before[i]
	}
	var events []Event
	for i := range after {
		now := &after[i]
		old, known := was[now.TaskID]
		if !known || old.State != now.State {
			events = append(events, stateEvents(app, now)...)
		}
		if known && !sameHealth(old.Healthy, now.Healthy) {
			events = append(events, InstanceHealthChanged{InstanceID: now.TaskID, Version: now.Version, AppID: app, Healthy: now.Healthy})
		}
	}
	return events
}

func stateEvents(app string, i *Instance) []Event {
	status, condition := said(i.State)
	events := []Event{InstanceChanged{InstanceID: i.TaskID, Condition: condition, AppID: app, AgentID: i.AgentID, Host: i.Hostname, Version: i.Version}}
	if status == "" {
		return events
	}
	return append(events, StatusUpdate{
		AgentID: i.AgentID, TaskID: i.TaskID, TaskStatus: status, Message: i.Message,
		AppID: app, Host: i.Hostname, Ports: i.Ports, Version: i.Version,
	})
}

func sameHealth(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }
