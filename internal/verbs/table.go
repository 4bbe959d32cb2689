// Package verbs lists the changes that users can request, with the request of the REST API, the
// command and the button of the web page for each. The tests of these three check that they agree.
package verbs

import "mesos-gpu/framework/access"

// Verb is a change that users can request.
type Verb struct {
	// Name is the command's verb, with the object that it changes.
	Name string
	// Request is the route of the REST API.
	Request string
	// Command is an example of the command, whose names are train (a job and a schedule), lab (a role), carol (a user)
	// and gpu1 (an agent). FILE stands for a job file.
	Command string
	// Page is the label of the button on the web page, "" if it has none.
	Page string
	// Permission is what a user needs on the role that Scope describes.
	Permission access.Permission
	Scope      string
	// Own means that the owner of the job, the schedule or the user name may request it with the permission submit.
	Own bool
}

// Scopes of permissions.
const (
	onRole     = "the role"
	onAllRoles = "all roles"
)

// List returns the verbs.
func List() []Verb {
	return []Verb{
		{"submit a job", "POST /v1/jobs", "submit FILE", "Submit", access.Submit, onRole, false},
		{"rerun a job", "POST /v1/jobs/{name}/rerun", "rerun train", "Rerun", access.Operate, onRole, true},
		{"edit a job", "PATCH /v1/jobs/{name}", "edit train --priority 7", "Edit", access.Operate, onRole, true},
		{"apply a service", "PUT /v1/jobs/{name}", "apply FILE", "", access.Operate, onRole, true},
		{"scale a service", "POST /v1/jobs/{name}/scale", "scale train 4", "Scale", access.Operate, onRole, true},
		{"hold a job", "PUT /v1/jobs/{name}/hold", "hold train", "Hold", access.Operate, onRole, true},
		{"release a job", "DELETE /v1/jobs/{name}/hold", "release train", "Release", access.Operate, onRole, true},
		{"requeue a job", "POST /v1/jobs/{name}/requeue", "requeue train", "Requeue", access.Operate, onRole, true},
		{"kill a job", "DELETE /v1/jobs/{name}", "kill train", "Kill", access.Operate, onRole, true},
		{"stop a task", "POST /v1/tasks/{id}/stop", "stop train.0", "Stop task", access.Operate, onRole, true},
		{"submit a schedule", "POST /v1/schedules", "submit SCHEDULE", "Submit", access.Submit, onRole, false},
		{"kill a schedule", "DELETE /v1/schedules/{name}", "kill nightly", "Kill", access.Operate, onRole, true},
		{"notifications retry", "POST /v1/notifications/{id}/retry", "notifications retry n1", "", access.Operate, onRole, true},
		{"notifications drop", "DELETE /v1/notifications/{id}", "notifications drop n1", "", access.Operate, onRole, true},
		{"hold a role", "PUT /v1/roles/{role}/hold", "hold --role lab", "Hold", access.Operate, onRole, false},
		{"release a role", "DELETE /v1/roles/{role}/hold", "release --role lab", "Release", access.Operate, onRole, false},
		{"hold a user", "PUT /v1/users/{user}/hold", "hold --user carol", "Hold", access.Operate, onAllRoles, true},
		{"release a user", "DELETE /v1/users/{user}/hold", "release --user carol", "Release", access.Operate, onAllRoles, true},
		{"quota set", "PUT /v1/roles/{role}/quota", "quota set lab V100=8", "Set quota", access.Admin, onRole, false},
		{"quota unset", "PUT /v1/roles/{role}/quota", "quota unset lab", "Unset quota", access.Admin, onRole, false},
		{"cordon an agent", "POST /v1/agents/{id}/cordon", "cordon gpu1", "Cordon", access.Operate, onAllRoles, false},
		{"uncordon an agent", "POST /v1/agents/{id}/uncordon", "uncordon gpu1", "Uncordon", access.Operate, onAllRoles, false},
		{"drain an agent", "POST /v1/agents/{id}/drain", "drain gpu1", "Drain", access.Operate, onAllRoles, false},
	}
}
