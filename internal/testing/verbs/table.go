// Package verbs lists what users can request: the request of the REST API, the command, the method of the Go client,
// and the place on the web page for each. The tests of these four check that they agree.
package verbs

import (
	"slices"
	"strings"

	"mesos-gpu/framework/access"
)

// Verb is a request of users: a change, what they can read, or a connection to a task.
type Verb struct {
	// Name is the command's verb, with the object that it changes, reads or connects to.
	Name string
	// Request is the route of the REST API. Those of changes are not GET.
	Request string
	// Command is an example of the command, whose names are train (a job and a schedule), lab (a role), carol (a user)
	// and gpu1 (an agent). FILE stands for a job file.
	Command string
	// Method is the method of the Go client.
	Method string
	// Page is, on the web page, the label of the button of a change, and the view of what is read. It is "" if the page
	// has neither.
	Page string
	// Permission is the permission required on the role that Scope describes.
	Permission access.Permission
	Scope      string
	// Own means that the owner of the job, the schedule or the user name may request it with the permission submit.
	Own bool
}

// Changes reports whether the verb changes something, and does not only read or connect.
func (v Verb) Changes() bool { return !strings.HasPrefix(v.Request, "GET ") }

// IsRequest reports whether a request such as "GET /v1/jobs/train" is one of the verb.
func (v Verb) IsRequest(request string) bool {
	pattern, parts := strings.Split(v.Request, "/"), strings.Split(request, "/")
	return slices.EqualFunc(pattern, parts, func(wanted, part string) bool {
		return wanted == part || strings.HasPrefix(wanted, "{") && part != ""
	})
}

// Scopes of permissions.
const (
	onRole     = "the role"
	onAnyRole  = "any role"
	onAllRoles = "all roles"
)

// List returns the verbs. Lists omit what their reader may not see.
func List() []Verb {
	return []Verb{
		{"submit a job", "POST /v1/jobs", "submit FILE", "SubmitJob", "Submit", access.Submit, onRole, false},
		{"rerun a job", "POST /v1/jobs/{reference}/rerun", "rerun train", "RerunJob", "Rerun", access.Submit, onRole, false},
		{"edit a job", "PATCH /v1/jobs/{reference}", "edit train --priority 7", "EditJob", "Edit", access.Operate, onRole, true},
		{"apply a service", "PUT /v1/jobs/{reference}", "apply FILE", "UpdateJob", "Apply", access.Operate, onRole, true},
		{"scale a service", "POST /v1/jobs/{reference}/scale", "scale train 4", "ScaleJob", "Scale", access.Operate, onRole, true},
		{"hold a job", "PUT /v1/jobs/{reference}/hold", "hold train", "HoldJob", "Hold", access.Operate, onRole, true},
		{"release a job", "DELETE /v1/jobs/{reference}/hold", "release train", "ReleaseJob", "Release", access.Operate, onRole, true},
		{"requeue a job", "POST /v1/jobs/{reference}/requeue", "requeue train", "RequeueJob", "Requeue", access.Operate, onRole, true},
		{"kill a job", "DELETE /v1/jobs/{reference}", "kill train", "KillJob", "Kill", access.Operate, onRole, true},
		{"stop a task", "POST /v1/tasks/{id}/stop", "stop train.0", "StopTask", "Stop task", access.Operate, onRole, true},
		{"submit a schedule", "POST /v1/schedules", "submit SCHEDULE", "AddSchedule", "Submit", access.Submit, onRole, false},
		{"kill a schedule", "DELETE /v1/schedules/{name}", "kill nightly", "EndSchedule", "Kill", access.Operate, onRole, true},
		{"notifications retry", "POST /v1/notifications/{id}/retry", "notifications retry n1", "RetryNotification", "Retry", access.Operate, onRole, true},
		{"notifications drop", "DELETE /v1/notifications/{id}", "notifications drop n1", "DropNotification", "Drop", access.Operate, onRole, true},
		{"hold a role", "PUT /v1/roles/{role}/hold", "hold --role lab", "HoldJobsOf", "Hold", access.Operate, onRole, false},
		{"release a role", "DELETE /v1/roles/{role}/hold", "release --role lab", "ReleaseJobsOf", "Release", access.Operate, onRole, false},
		{"hold a user", "PUT /v1/users/{user}/hold", "hold --user carol", "HoldJobsOf", "Hold", access.Operate, onAllRoles, true},
		{"release a user", "DELETE /v1/users/{user}/hold", "release --user carol", "ReleaseJobsOf", "Release", access.Operate, onAllRoles, true},
		{"quota set", "PUT /v1/roles/{role}/quota", "quota set lab V100=8", "SetQuota", "Set quota", access.Admin, onRole, false},
		{"quota unset", "PUT /v1/roles/{role}/quota", "quota unset lab", "SetQuota", "Unset quota", access.Admin, onRole, false},
		{"cordon an agent", "POST /v1/agents/{id}/cordon", "cordon gpu1", "CordonAgent", "Cordon", access.Operate, onAllRoles, false},
		{"uncordon an agent", "POST /v1/agents/{id}/uncordon", "uncordon gpu1", "UncordonAgent", "Uncordon", access.Operate, onAllRoles, false},
		{"drain an agent", "POST /v1/agents/{id}/drain", "drain gpu1", "DrainAgent", "Drain", access.Operate, onAllRoles, false},

		{"exec in a task", "GET /v1/jobs/{reference}/tasks/{task}/exec", "exec train -- nvidia-smi", "Exec", "", access.Operate, onRole, true},
		{"attach to a job", "GET /v1/jobs/{reference}/tasks/{task}/attach", "attach train", "Attach", "", access.Operate, onRole, true},
		{"port-forward to a task", "GET /v1/jobs/{reference}/tasks/{task}/port-forward", "port-forward train 0:http", "ForwardPort", "", access.Operate, onRole, true},
		{"notebook of a job", "GET /v1/jobs/{reference}/tasks/{task}/port-forward", "notebook train", "ProbePort", "", access.Operate, onRole, true},
		{"cp a file into a task", "PUT /v1/tasks/{id}/file", "cp FILE train:", "CopyIntoTask", "", access.Operate, onRole, true},
		{"cp a folder into a task", "PUT /v1/tasks/{id}/files", "cp FOLDER train:", "CopyIntoTask", "", access.Operate, onRole, true},
		{"cp a file out of a task", "GET /v1/tasks/{id}/file", "cp train:log.txt -", "OpenTaskFile", "Job", access.View, onRole, false},
		{"ls a sandbox", "GET /v1/tasks/{id}/files", "ls train", "ListTaskFiles", "Job", access.View, onRole, false},
		{"artifacts of a job", "GET /v1/jobs/{reference}/artifacts", "artifacts train", "ListArtifacts", "Job", access.View, onRole, false},
		{"logs of a task", "GET /v1/tasks/{id}/output", "logs train", "ReadTaskOutput", "Job", access.View, onRole, false},
		{"ps", "GET /v1/jobs", "ps", "ListJobs", "Jobs", access.View, onAnyRole, false},
		{"ps of the runs of a job", "GET /v1/jobs/{reference}/runs", "ps --runs train", "ListRuns", "Job", access.View, onRole, false},
		{"describe a job", "GET /v1/jobs/{reference}", "describe train", "GetJob", "Job", access.View, onRole, false},
		{"describe a schedule", "GET /v1/schedules/{name}", "describe nightly", "GetSchedule", "", access.View, onRole, false},
		{"events of a job", "GET /v1/jobs/{reference}/history", "events train", "GetJobHistory", "Job", access.View, onRole, false},
		{"events of all jobs", "GET /v1/events", "events -f", "StreamEvents", "Overview", access.View, onAnyRole, false},
		{"schedules", "GET /v1/schedules", "schedules", "ListSchedules", "Schedules", access.View, onAnyRole, false},
		{"notifications", "GET /v1/notifications", "notifications", "ListNotifications", "Notifications", access.View, onAnyRole, false},
		{"queue", "GET /v1/queue", "queue", "ListQueue", "Queue", access.View, onAnyRole, false},
		{"agents", "GET /v1/agents", "agents", "ListAgents", "Agents", access.View, onAnyRole, false},
		{"gpus", "GET /v1/gpus", "gpus", "ListGPUs", "Overview", access.View, onAnyRole, false},
		{"top", "GET /v1/usage", "top", "ListUsage", "Job", access.View, onAnyRole, false},
		{"usage of jobs that ended", "GET /v1/accounting", "usage", "ReportAccounting", "Usage", access.View, onAnyRole, false},
		{"usage of attempts", "GET /v1/accounting/attempts", "usage --attempts", "EachAccountedAttempt", "", access.View, onAnyRole, false},
		{"quota get", "GET /v1/roles", "quota get", "ListRoles", "Roles", access.View, onAnyRole, false},
		{"holds", "GET /v1/holds", "holds", "ListHolds", "Roles", access.View, onAnyRole, false},
	}
}
