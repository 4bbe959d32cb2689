package control

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/job"
)

// clientCalls are requests of Marathon's clients, and the fields of the answer that each reads, with their types. A star
// stands for each element of a list, which must have one.
var clientCalls = []struct{ client, method, path, body, reads string }{
	{"go-marathon", "GET", "/ping", "", ""},
	{"go-marathon", "GET", "/v2/apps", "", "apps.*.id:string apps.*.tasksRunning:number apps.*.tasksHealthy:number apps.*.instances:number apps.*.version:string"},
	{"go-marathon", "GET", "/v2/apps/web", "",
		"app.id:string app.tasks.*.id:string app.deployments.*.id:string app.versionInfo.lastScalingAt:string app.upgradeStrategy.minimumHealthCapacity:number"},
	{"go-marathon", "GET", "/v2/apps/web/versions", "", "versions.*:string"},
	{"go-marathon", "PUT", "/v2/apps/web?force=true", `{"id": "/web", "instances": 2}`, "deploymentId:string version:string"},
	{"go-marathon", "GET", "/v2/apps/web/tasks", "", "tasks.*.id:string tasks.*.appId:string tasks.*.host:string " +
		"tasks.*.ports.*:number tasks.*.servicePorts.*:number tasks.*.slaveId:string " +
		"tasks.*.stagedAt:string tasks.*.startedAt:string tasks.*.state:string tasks.*.version:string " +
		"tasks.*.ipAddresses.*.ipAddress:string tasks.*.healthCheckResults.*.alive:bool"},
	{"go-marathon", "GET", "/v2/deployments", "",
		"*.id:string *.version:string *.affectedApps.*:string *.steps.*.actions.*.action:string *.currentActions.*.app:string " +
			"*.currentStep:number *.totalSteps:number"},
	{"go-marathon", "GET", "/v2/queue", "",
		"queue.*.count:number queue.*.delay.overdue:bool queue.*.delay.timeLeftSeconds:number queue.*.app.id:string " +
			"queue.*.role:string queue.*.since:string queue.*.processedOffersSummary:object"},
	{"go-marathon", "GET", "/v2/groups", "", "id:string apps.*.id:string groups:list dependencies:list"},
	{"go-marathon", "GET", "/v2/info", "",
		"frameworkId:string leader:string name:string version:string http_config.http_port:number marathon_config.checkpoint:bool " +
			"marathon_config.failover_timeout:number marathon_config.framework_name:string marathon_config.mesos_leader_ui_url:string"},
	{"go-marathon", "GET", "/v2/leader", "", "leader:string"},
	{"marathon-lb", "GET", "/v2/apps?embed=apps.tasks", "", "apps.*.id:string apps.*.labels:object apps.*.instances:number " +
		"apps.*.portDefinitions.*.port:number apps.*.networks.*.mode:string apps.*.versionInfo.lastScalingAt:string " +
		"apps.*.tasks:list"},
	{"marathon-lb", "GET", "/v2/apps/web?embed=app.tasks", "", "app.healthChecks.*.protocol:string " +
		"app.healthChecks.*.portIndex:number app.healthChecks.*.timeoutSeconds:number app.healthChecks.*.intervalSeconds:number " +
		"app.healthChecks.*.gracePeriodSeconds:number app.healthChecks.*.maxConsecutiveFailures:number app.tasks.*.host:string " +
		"app.tasks.*.ports.*:number app.tasks.*.state:string app.tasks.*.healthCheckResults.*.alive:bool"},
	{"Traefik", "GET", "/v2/apps?embed=apps.tasks&embed=apps.deployments&embed=apps.readiness&id=/web", "", "apps.*.deployments.*.id:string apps.*.readinessChecks.*.timeoutSeconds:number apps.*.readinessCheckResults.*.taskId:string " +
		"apps.*.readinessCheckResults.*.ready:bool apps.*.tasks.*.id:string apps.*.tasks.*.startedAt:string " +
		"apps.*.tasks.*.state:string apps.*.networks.*.mode:string apps.*.labels:object"},
	{"marathon-consul", "GET", "/v2/leader", "", "leader:string"},
	{"marathon-consul", "GET", "/v2/apps?embed=apps.tasks&label=consul", "",
		"apps.*.id:string apps.*.labels.consul:string apps.*.healthChecks.*.path:string apps.*.portDefinitions.*.name:string " +
			"apps.*.tasks.*.healthCheckResults.*.alive:bool apps.*.tasks.*.ports.*:number"},
	{"marathon-consul", "GET", "/v2/apps//web?embed=apps.tasks", "", "app.labels.consul:string app.tasks.*.id:string"},
	{"marathon-ui", "GET", "/v2/plugins", "", "plugins:list"},
	{"marathon-ui", "GET", "/v2/info", "", "marathon_config.features.*:string marathon_config.mesos_leader_ui_url:string version:string"},
	{"marathon-python", "POST", "/v2/tasks/delete?scale=false", `{"ids": ["gone.0.1.0"]}`, "tasks:list"},
	{"marathon-python", "PUT", "/v2/apps/web?force=true",
		`{"ports": [], "portDefinitions": [{"port": 0, "name": "http"}], "labels": {}, "env": {}, "constraints": [], "fetch": [], "uris": []}`,
		"deploymentId:string version:string"},
}

// clientEvents are the events that marathon-consul, marathon-lb and Traefik handle, and the fields that they read.
var clientEvents = map[string]string{
	"status_update_event": "taskId:string taskStatus:string appId:string slaveId:string host:string ports:list " +
		"version:string timestamp:string eventType:string",
	"health_status_changed_event": "instanceId:string appId:string alive:bool version:string timestamp:string eventType:string",
	"api_post_event":              "appDefinition.id:string clientIp:string uri:string eventType:string",
	"deployment_info":             "plan.id:string plan.steps.*.actions.*.action:string currentStep.actions.*.app:string",
	"deployment_success":          "id:string plan.version:string",
	"deployment_step_success":     "plan.id:string currentStep.actions.*.app:string",
}

// strictObjects are answers, or parts of them, in which marathon-python rejects any other key. It also rejects `role` in
// /v2/queue, which Marathon has since 1.9.
var strictObjects = []struct{ path, at, keys string }{
	{"/v2/info", "", "name version buildref elected leader frameworkId marathon_config zookeeper_config http_config event_subscriber"},
	{"/v2/info", "marathon_config", "access_control_allow_origin checkpoint decline_offer_duration default_network_name " +
		"env_vars_prefix executor failover_timeout features framework_name ha hostname launch_token " +
		"launch_token_refresh_interval leader_proxy_connection_timeout_ms leader_proxy_read_timeout_ms local_port_max " +
		"local_port_min maintenance_mode master max_instances_per_offer mesos_bridge_name mesos_heartbeat_failure_threshold " +
		"mesos_heartbeat_interval mesos_leader_ui_url mesos_role mesos_user min_revive_offers_interval new_group_enforce_role " +
		"offer_matching_timeout on_elected_prepare_timeout reconciliation_initial_delay reconciliation_interval " +
		"scale_apps_initial_delay scale_apps_interval store_cache task_launch_confirm_timeout task_launch_timeout " +
		"task_lost_expunge_initial_delay task_lost_expunge_interval task_reservation_timeout webui_url"},
	{"/v2/info", "zookeeper_config",
		"zk zk_compression zk_compression_threshold zk_connection_timeout zk_max_node_size zk_max_versions zk_session_timeout zk_timeout"},
	{"/v2/info", "http_config", "assets_path http_port https_port"},
	{"/v2/deployments", "*", "id version affectedApps affectedPods steps currentActions currentStep totalSteps"},
	{"/v2/deployments", "*.currentActions.*", "action app apps pod type readinessCheckResults"},
	{"/v2/tasks", "tasks.*",
		"id appId healthCheckResults host ports servicePorts slaveId stagedAt startedAt version ipAddresses state localVolumes region zone role"},
	{"/v2/tasks", "tasks.*.healthCheckResults.*", "alive consecutiveFailures firstSuccess lastFailure lastSuccess taskId lastFailureCause instanceId"},
	{"/v2/apps/web", "app", "acceptedResourceRoles args backoffFactor backoffSeconds cmd constraints container cpus dependencies " +
		"deployments disk env executor healthChecks id role instances killSelection labels lastTaskFailure " +
		"maxLaunchDelaySeconds mem ports requirePorts tasks tasksRunning tasksStaged tasksHealthy taskKillGracePeriodSeconds " +
		"tasksUnhealthy upgradeStrategy unreachableStrategy user version versionInfo fetch readinessChecks " +
		"readinessCheckResults secrets portDefinitions residency gpus networks"},
}

// startWithApps starts a Controller with a running app in a deployment, which has health and readiness checks, and an app
// that waits.
func startWithApps(t *testing.T) (s *testController, events func() string) {
	f := newFakeCluster()
	f.ports = []int{31000}
	s = startControllerWith(t, f, ControllerConfig{
		Log: discardLogger(), client: &http.Client{Transport: probeResponder(func(*http.Request) int { return http.StatusServiceUnavailable })},
		Flags: SchedulerFlags{FrameworkName: "mesos-gpu", FailoverTimeout: time.Hour},
	})
	synctest.Wait()
	w, ended := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(ended)
		s.control.ServeHTTP(w, httptest.NewRequest("GET", "/v2/events", nil))
	}()
	synctest.Wait()
	s.mustSend("POST", "/v2/apps", `{"id": "/done", "cmd": "done"}`)
	s.mustSend("POST", "/v2/apps", `{"id": "/web", "cmd": "web", "labels": {"consul": "web"}, "portDefinitions": [{"name": "http", "port": 0}],
		"healthChecks": [{"protocol": "HTTP", "path": "/"}], "readinessChecks": [{"portName": "http"}]}`)
	f.mu.Lock()
	f.held = true
	f.mu.Unlock()
	s.mustSend("POST", "/v2/apps", `{"id": "/waits", "cmd": "waits"}`)
	for _, j := range f.ListGroupJobs("/web") {
		f.mu.Lock()
		f.notifyChange(j.Spec.Name, j.Tasks[0]) // it runs
		f.mu.Unlock()
		f.setHealth(j.Spec.Name, false, "unhealthy, 1 times of 3: refused", &job.HealthFailure{Check: 1, Failures: 1, Cause: "refused"})
	}
	synctest.Wait()
	return s, func() string { <-ended; return w.Body.String() }
}

// TestClientsOfMarathon makes the requests of other projects' clients and checks that the answers have the fields that
// they read, and for a client that rejects unknown keys no others.
func TestClientsOfMarathon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, events := startWithApps(t)
		read := func(method, path, body string) (answer any) {
			t.Helper()
			into := any(&answer)
			if path == "/ping" {
				into = nil // it is text
			}
			if code := s.sendRequest(method, path, body, into); code != http.StatusOK {
				t.Fatalf("%s %s: status %d: %v", method, path, code, answer)
			}
			synctest.Wait()
			return answer
		}
		for _, c := range strictObjects {
			known := strings.Fields(c.keys)
			seen := false
			for _, object := range valuesAt(read("GET", c.path, ""), c.at) {
				keys, _ := object.(map[string]any)
				for key := range keys {
					if seen = true; !slices.Contains(known, key) {
						t.Errorf("marathon-python rejects %s in %s of %s", key, c.at, c.path)
					}
				}
			}
			if !seen && c.at != "zookeeper_config" { // the journal is a file
				t.Errorf("%s has no %s", c.path, c.at)
			}
		}
		for _, c := range clientCalls {
			checkFields(t, c.client+": "+c.method+" "+c.path, read(c.method, c.path, c.body), c.reads)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
		missing := maps.Clone(clientEvents)
		for _, frame := range strings.Split(strings.TrimSuffix(events(), "\r\n\r\n"), "\r\n\r\n") {
			kind, text, ok := strings.Cut(strings.TrimPrefix(frame, "event: "), "\r\ndata: ")
			var data any
			if err := json.Unmarshal([]byte(text), &data); err != nil || !ok {
				t.Fatalf("%v in the frame %q", err, frame)
			}
			checkFields(t, kind, data, missing[kind])
			delete(missing, kind)
		}
		if len(missing) > 0 {
			t.Errorf("these events are missing: %v", slices.Sorted(maps.Keys(missing)))
		}
	})
}

// checkFields checks that a JSON value has fields: paths, each with a type.
func checkFields(t *testing.T, what string, value any, fields string) {
	t.Helper()
	for _, field := range strings.Fields(fields) {
		path, want, _ := strings.Cut(field, ":")
		for _, v := range valuesAt(value, path) {
			got := "nothing"
			switch v.(type) {
			case string:
				got = "string"
			case float64:
				got = "number"
			case bool:
				got = "bool"
			case []any:
				got = "list"
			case map[string]any:
				got = "object"
			}
			if got != want {
				t.Errorf("%s: %s is %v (%s), want a %s", what, path, v, got, want)
			}
		}
	}
}

// valuesAt returns the values at a path: nil for each that does not exist, and for an empty list.
func valuesAt(value any, path string) []any {
	if path == "" {
		return []any{value}
	}
	key, rest, _ := strings.Cut(path, ".")
	list, isList := value.([]any)
	object, _ := value.(map[string]any)
	switch {
	case key != "*":
		return valuesAt(object[key], rest)
	case !isList || len(list) == 0:
		return []any{nil}
	}
	var all []any
	for _, v := range list {
		all = append(all, valuesAt(v, rest)...)
	}
	return all
}
