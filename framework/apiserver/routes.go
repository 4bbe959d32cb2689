package apiserver

import (
	"net/http"
	"slices"
	"strings"

	"mesos-gpu/framework/access"
	"mesos-gpu/job"
)

// route is a request of the API: what it requires, what it accepts, and its handler.
type route struct {
	// request is the method and the pattern, as of http.ServeMux.
	request string
	// scope checks the permission on the roles of the request. A route without one
	// requires Admin on all roles, so that a forgotten check opens nothing.
	permission access.Permission
	scope      scopeCheck
	handle     handlerFunc
	// parameters are the names of the query parameters, separated by spaces.
	parameters string
	// takesIfMatch is true if the request accepts If-Match.
	takesIfMatch bool
}

// handlerFunc answers a request, or returns an error before it has written anything.
type handlerFunc func(s *apiServer, w http.ResponseWriter, r *http.Request) error

// signInPath needs no token, because its answer is one.
const signInPath = "/v1/sign-in"

// routes returns all requests of the API.
func routes() []route {
	const page = "limit after"
	cordon, drain := cordonHandler(false), cordonHandler(true)
	return []route{
		{"GET /healthz", access.None, allowAnyone, onReads((*apiServer).handleHealth), "", false},
		{"GET /readyz", access.None, allowAnyone, onReads((*apiServer).handleReady), "", false},
		{"GET /v1/openapi.yaml", access.None, allowAnyone, (*apiServer).handleOpenAPI, "", false},
		{"GET /v1/job.schema.json", access.None, allowAnyone, (*apiServer).handleJobSchema, "", false},
		{"GET /metrics", access.View, requireMetricsAccess, onReads((*apiServer).handleMetrics), "", false},
		{"GET /metrics/prometheus", access.View, requireMetricsAccess, onReads((*apiServer).handleMetrics), "", false},

		{"GET /v1/whoami", access.View, allowAnyone, (*apiServer).handleWhoAmI, "", false},
		{"POST " + signInPath, access.None, allowAnyone, (*apiServer).handleSignIn, "", false},
		{"POST /v1/validate", access.Submit, requireInAnyRole, (*apiServer).handleValidateJob, "when", false}, // the leader also checks the job's role

		// These omit entries that the requester may not see.
		{"GET /v1/jobs", access.View, requireInAnyRole, onReads((*apiServer).handleListJobs), page + " state role owner name label order", false},
		{"GET /v1/events", access.View, requireInAnyRole, (*apiServer).handleEvents, "job state inventory", false},
		{"GET /v1/gpus", access.View, requireInAnyRole, onReads((*apiServer).handleListGPUs), page, false},
		{"GET /v1/usage", access.View, requireInAnyRole, (*apiServer).handleListUsage, page + " job role task agent minutes", false},
		{"GET /v1/usage/history", access.View, requireInAnyRole, onLeader((*apiServer).handleClusterUsage), "hours", false}, // all roles share the agents
		{"GET /v1/accounting", access.View, requireInAnyRole, onLeader((*apiServer).handleReportAccounting), "by" + accountingFilters, false},
		{"GET /v1/accounting/attempts", access.View, requireInAnyRole, onLeader((*apiServer).handleListAttempts), page + accountingFilters, false},
		{"GET /v1/agents", access.View, requireInAnyRole, onReads((*apiServer).handleListAgents), page, false},
		{"GET /v1/queue", access.View, requireInAnyRole, onReads((*apiServer).handleListQueue), page, false},
		{"GET /v1/roles", access.View, requireInAnyRole, onReads((*apiServer).handleListRoles), page, false},
		{"GET /v1/holds", access.View, requireInAnyRole, onReads((*apiServer).handleListHolds), "", false},
		{"GET /v1/notifications", access.View, requireInAnyRole, onReads((*apiServer).handleListNotifications), "state job", false},
		{"GET /v1/schedules", access.View, requireInAnyRole, onLeader((*apiServer).handleListSchedules), page, false},

		{"GET /v1/workdirs/{digest}", access.Submit, requireInAnyRole, onLeader((*apiServer).handleFindWorkdir), "", false},
		{"PUT /v1/workdirs/{digest}", access.Submit, requireInAnyRole, onLeader((*apiServer).handleStoreWorkdir), "", false},
		// Agents make this request. The token in its path is the permission.
		{"GET " + WorkdirPattern, access.None, allowAnyone, onLeader((*apiServer).handleFetchWorkdir), "", false},
		{"HEAD " + WorkdirPattern, access.None, allowAnyone, onLeader((*apiServer).handleFetchWorkdir), "", false},

		{"POST /v1/jobs", access.Submit, requireInAnyRole, (*apiServer).handleSubmitJob, "", false}, // the leader also checks the job's role
		{"GET /v1/jobs/{reference}", access.View, requireOnJob, onReads((*apiServer).handleGetJob), "", false},
		{"GET /v1/jobs/{reference}/file", access.View, ofOutput(requireOnJob), onReads((*apiServer).handleGetJobFile), "", false}, // it has the environment
		{"GET /v1/jobs/{reference}/runs", access.View, requireOnJob, onReads((*apiServer).handleListRuns), page + " order", false},
		{"PUT /v1/jobs/{reference}", access.Operate, requireOnJob, (*apiServer).handleUpdateJob, "", true},
		{"POST /v1/jobs/{reference}/validate", access.Operate, requireOnJob, (*apiServer).handleValidateUpdate, "", false}, // as for the update
		{"PATCH /v1/jobs/{reference}", access.Operate, requireOnJob, (*apiServer).handleEditJob, "", true},                 // the leader also checks a new role
		{"POST /v1/jobs/{reference}/rerun", access.Submit, requireOnJob, (*apiServer).handleRerunJob, "", false},           // the leader also checks the owner of the name
		{"GET /v1/jobs/{reference}/history", access.View, requireOnJob, onReads((*apiServer).handleJobHistory), "limit", false},
		{"GET /v1/jobs/{reference}/usage", access.View, requireOnJob, onLeader((*apiServer).handleJobUsage), "", false},
		{"GET /v1/jobs/{reference}/artifacts", access.View, ofOutput(requireOnJob), onLeader((*apiServer).handleListArtifacts), "", false},
		{"GET /v1/jobs/{reference}/accounting", access.View, requireOnJob, onLeader((*apiServer).handleAccountJob), "wait", false},
		{"DELETE /v1/jobs/{reference}", access.Operate, requireOnJob, (*apiServer).handleKillJob, "force", true},
		{"PUT /v1/jobs/{reference}/hold", access.Operate, requireOnJob, (*apiServer).handleHoldJob, "", true}, // the leader also checks who holds it
		{"DELETE /v1/jobs/{reference}/hold", access.Operate, requireOnJob, (*apiServer).handleReleaseJob, "", true},
		{"POST /v1/jobs/{reference}/requeue", access.Operate, requireOnJob, (*apiServer).handleRequeueJob, "", true},
		{"POST /v1/jobs/{reference}/scale", access.Operate, requireOnJob, (*apiServer).handleScaleJob, "", true},
		{"GET /v1/jobs/{reference}/tasks/{task}/exec", access.Operate, ifExecEnabled(requireOnJob), (*apiServer).handleExec, "argv tty stdin rows cols", false}, // as for killing the job
		{"GET /v1/jobs/{reference}/tasks/{task}/port-forward", access.Operate, ifExecEnabled(requireOnJob), (*apiServer).handlePortForward, "port", false},
		{"GET /v1/jobs/{reference}/tasks/{task}/attach", access.Operate, ifExecEnabled(requireOnJob), (*apiServer).handleAttach, "rows cols", false},
		{"POST /v1/tasks/{id}/stop", access.Operate, requireOnTask, (*apiServer).handleStopTask, "", false},
		{"GET /v1/tasks/{id}/files", access.View, ofOutput(requireOnTask), onReads((*apiServer).handleListTaskFiles), "path", false}, // as for logs
		{"GET /v1/tasks/{id}/file", access.View, ofOutput(requireOnTask), onReads((*apiServer).handleReadTaskFile), "path offset", false},
		{"PUT /v1/tasks/{id}/files", access.Operate, requireOnTask, (*apiServer).handleWriteTaskFiles, "path", false}, // as for commands in containers
		{"PUT /v1/tasks/{id}/file", access.Operate, requireOnTask, (*apiServer).handleWriteTaskFile, "path mode name", false},
		{"GET /v1/tasks/{id}/log", access.View, ofOutput(requireOnTask), (*apiServer).handleTaskLog, "stream offset tail follow", false},
		{"GET /v1/tasks/{id}/output", access.View, ofOutput(requireOnTask), (*apiServer).handleTaskOutput, "stream since tail follow after", false},

		{"GET /v1/roles/{role}", access.View, requireOnRole, onReads((*apiServer).handleGetRole), "", false},
		{"PUT /v1/roles/{role}/quota", access.Admin, requireOnRole, (*apiServer).handleSetQuota, "", true},
		{"PUT /v1/roles/{role}/hold", access.Operate, requireOnRole, holdHandler(job.HeldRole), "", false}, // as for killing its jobs
		{"DELETE /v1/roles/{role}/hold", access.Operate, requireOnRole, releaseHandler(job.HeldRole), "", false},
		{"PUT /v1/users/{user}/hold", access.Operate, requireOnUser, holdHandler(job.HeldUser), "", false},
		{"DELETE /v1/users/{user}/hold", access.Operate, requireOnUser, releaseHandler(job.HeldUser), "", false},
		{"POST /v1/notifications/{id}/retry", access.Operate, requireOnNotification, (*apiServer).handleRetryNotification, "", false},
		{"DELETE /v1/notifications/{id}", access.Operate, requireOnNotification, (*apiServer).handleDropNotification, "", false},
		{"GET /v1/demand", access.View, requireInAllRoles, onLeader((*apiServer).handleGetDemand), "", false},
		{"GET /v1/agents/{id}", access.View, requireInAnyRole, onReads((*apiServer).handleGetAgent), "", false},
		{"POST /v1/agents/{id}/cordon", access.Operate, requireInAllRoles, cordon, "", true}, // all roles share the agents
		{"POST /v1/agents/{id}/uncordon", access.Operate, requireInAllRoles, (*apiServer).handleUncordonAgent, "", true},
		{"POST /v1/agents/{id}/drain", access.Operate, requireInAllRoles, drain, "", true},
		{"POST /v1/schedules", access.Submit, requireInAnyRole, (*apiServer).handleAddSchedule, "", false}, // the leader also checks the role of its jobs
		{"GET /v1/schedules/{name}", access.View, requireOnSchedule, onLeader((*apiServer).handleGetSchedule), "", false},
		{"DELETE /v1/schedules/{name}", access.Operate, requireOnSchedule, (*apiServer).handleEndSchedule, "", true},
	}
}

// onReads returns the handler of a request that the leader and a standby answer.
func onReads(handle func(*apiServer, *ReadBackend, http.ResponseWriter, *http.Request) error) handlerFunc {
	return func(s *apiServer, w http.ResponseWriter, r *http.Request) error {
		reads, err := s.reads(r.Context())
		if err != nil {
			return err
		}
		return handle(s, reads, w, r)
	}
}

// onLeader returns the handler of a request that only the leader answers.
func onLeader(handle func(*apiServer, *LeaderBackend, http.ResponseWriter, *http.Request) error) handlerFunc {
	return func(s *apiServer, w http.ResponseWriter, r *http.Request) error {
		leader, err := s.leader(r.Context())
		if err != nil {
			return err
		}
		return handle(s, leader, w, r)
	}
}

// acceptChange makes a change on the leader and answers that it is accepted.
func (s *apiServer) acceptChange(w http.ResponseWriter, r *http.Request, change func(*LeaderBackend) error) error {
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	if err := change(leader); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// path returns the route's pattern without its method.
func (one *route) path() string {
	_, path, _ := strings.Cut(one.request, " ")
	return path
}

// servesMonitoring reports whether third-party programs such as load balancers and
// monitoring systems make the request.
func (one *route) servesMonitoring() bool {
	return one.permission == access.None && one.path() != WorkdirPattern && one.path() != signInPath || !strings.HasPrefix(one.path(), "/v1/")
}

// OpenPaths returns the paths that need no token.
func OpenPaths() []string {
	return pathsWhere(func(one *route) bool { return one.permission == access.None && one.path() != WorkdirPattern })
}

// pathsWhere returns the sorted paths of the routes to which a condition applies.
func pathsWhere(applies func(*route) bool) (paths []string) {
	for _, one := range routes() {
		if applies(&one) {
			paths = append(paths, one.path())
		}
	}
	slices.Sort(paths)
	return paths
}
