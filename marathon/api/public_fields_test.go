package api

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/testing/documenttest"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// TestPublicFieldsAreListed checks which keys remain of apps, tasks and events in which every field is set, for a user who may not
// read all fields. A key that is added to one of the types is absent until public_fields.go and this list have it: it must not
// contain what an app keeps to itself.
func TestPublicFieldsAreListed(t *testing.T) {
	status := publicStatus(documenttest.Filled[AppStatus](nil))
	for name, c := range map[string]struct {
		public any
		want   string
	}{
		"app": {publicApp(new(documenttest.Filled[marathon.App](nil))), `acceptedResourceRoles backoffFactor backoffSeconds constraints
			container.docker.forcePullImage container.docker.image container.docker.privileged container.portMappings.containerPort
			container.portMappings.hostPort container.portMappings.labels.x container.portMappings.name
			container.portMappings.networkNames container.portMappings.protocol container.portMappings.servicePort container.type cpus
			dependencies disk executor executorResources.cpus executorResources.disk executorResources.mem gpus
			healthChecks.delaySeconds healthChecks.gracePeriodSeconds healthChecks.ignoreHttp1xx healthChecks.intervalSeconds
			healthChecks.ipProtocol healthChecks.maxConsecutiveFailures healthChecks.path healthChecks.port healthChecks.portIndex
			healthChecks.protocol healthChecks.timeoutSeconds id instances killSelection labels.x maxLaunchDelaySeconds mem
			networks.mode networks.name portDefinitions.labels.x portDefinitions.name portDefinitions.port portDefinitions.protocol
			requirePorts resourceLimits.cpus resourceLimits.mem role taskKillGracePeriodSeconds tty unreachableStrategy
			upgradeStrategy.maximumOverCapacity upgradeStrategy.minimumHealthCapacity user version versionInfo.lastConfigChangeAt
			versionInfo.lastScalingAt`},
		"tasks": {status.Tasks, `appId healthCheckResults.alive healthCheckResults.consecutiveFailures healthCheckResults.firstSuccess
			healthCheckResults.instanceId healthCheckResults.lastFailure healthCheckResults.lastSuccess host id ipAddresses.ipAddress
			ipAddresses.protocol ports region role servicePorts slaveId stagedAt startedAt state version zone`},
		"readiness": {status.Readiness, `name ready taskId`},
		"failure":   {status.LastFailure, `appId host slaveId state taskId timestamp version`},
		"status_update_event": {publicEvent(documenttest.Filled[deploy.StatusUpdate](nil)),
			`appId host ipAddresses.ipAddress ipAddresses.protocol ports slaveId taskId taskStatus version`},
	} {
		want := strings.Fields(c.want)
		slices.Sort(want)
		if diff := gocmp.Diff(want, documenttest.ListKeys(t, c.public)); diff != "" {
			t.Errorf("%s (-listed +readable):\n%s", name, diff)
		}
	}
}

// queuedAppService has all apps in the queue.
type queuedAppService struct{ rolesService }

func (q queuedAppService) ListQueue(ctx context.Context) (list []deploy.QueuedApp, err error) {
	apps, err := q.ListApps(ctx)
	for _, a := range apps {
		list = append(list, deploy.QueuedApp{App: a.App})
	}
	return list, err
}

// TestViewersReadPublicFields checks each way to an app: a user who may see it, and not read all of its fields, gets neither its
// command nor its environment, and cannot find it by a part of its command.
func TestViewersReadPublicFields(t *testing.T) {
	a, b := newAuthorizedServer(t)
	*b = roleAccess{sees: []string{"/"}, changes: []string{"/"}, reads: []string{"/"}}
	const app = `{"id": "/prod/secret", "cmd": "run --key hush", "env": {"TOKEN": "hush"}, "labels": {"team": "infra"}, "instances": 1}`
	a.send("POST", "/v2/apps", app, 201)
	var versions struct{ Versions []string }
	a.mustSend("GET", "/v2/apps/prod/secret/versions", "", &versions)
	version := versions.Versions[0]
	a.handler = NewHandler(WithAuthorization(queuedAppService{rolesService{a.fakeService}}, b.may, noJobRole), a.bus, logrus.New())
	for _, path := range []string{
		"/v2/apps", "/v2/apps/prod/secret", "/v2/apps/prod/secret/versions/" + version, "/v2/apps?embed=apps.tasks&embed=apps.failures",
		"/v2/apps//prod/*", "/v2/groups", "/v2/groups/prod", "/v2/groups/prod/apps", "/v2/groups/prod/versions/" + version,
		"/v2/groups?embed=group.groups&embed=group.apps&embed=group.apps.tasks", "/v2/queue",
	} {
		for _, reads := range []bool{true, false} {
			*b = roleAccess{sees: []string{"prod"}}
			if reads {
				b.reads = b.sees
			}
			text := a.send("GET", path, "", 200).Body.String()
			if strings.Contains(text, "hush") != reads || !strings.Contains(text, "/prod/secret") || !strings.Contains(text, "infra") {
				t.Errorf("%s, reads all fields %t: %s", path, reads, text)
			}
		}
	}
	if text := a.send("GET", "/v2/apps?cmd=hush", "", 200).Body.String(); strings.Contains(text, "secret") {
		t.Errorf("a part of the command finds the app: %s", text)
	}
}

// neighbourService has apps that wait behind a job of role lab, for which an instance was stopped.
type neighbourService struct{ queuedAppService }

func (s neighbourService) ListApps(ctx context.Context) ([]AppStatus, error) {
	apps, err := s.queuedAppService.ListApps(ctx)
	for i := range apps {
		apps[i].LastFailure = &TaskFailure{AppID: apps[i].App.ID, Message: "makes room for train: role lab deserves the GPUs"}
	}
	return apps, err
}

func (s neighbourService) ListQueue(ctx context.Context) ([]deploy.QueuedApp, error) {
	list, err := s.queuedAppService.ListQueue(ctx)
	for i := range list {
		list[i].Message = "free ones are reserved for train, whose role deserves them"
	}
	return list, err
}

// TestMessagesNameNoHiddenJobs: messages name jobs and roles only to users who may see them.
func TestMessagesNameNoHiddenJobs(t *testing.T) {
	a, b := newAuthorizedServer(t)
	roleOf := func(name string) (string, bool) { return "lab", name == "train" }
	a.handler = NewHandler(WithAuthorization(neighbourService{queuedAppService{rolesService{a.fakeService}}}, b.may, roleOf), a.bus, logrus.New())
	for _, path := range []string{"/v2/queue", "/v2/apps?embed=apps.lastTaskFailure"} {
		for _, sees := range [][]string{{"prod"}, {"prod", "lab"}, {"/"}} {
			*b = roleAccess{sees: sees, reads: sees}
			text := a.send("GET", path, "", 200).Body.String()
			if hidden := len(sees) == 1 && sees[0] == "prod"; hidden == strings.Contains(text, "train") || hidden && strings.Contains(text, "lab ") ||
				hidden != strings.Contains(text, "another job") || !strings.Contains(text, "/prod/a") {
				t.Errorf("%s of a user who sees %v: %s", path, sees, text)
			}
		}
	}
}

// TestViewersReadPublicEvents checks that the definitions in events have their public fields for a user who may see all apps, and
// all fields for one who may read them.
func TestViewersReadPublicEvents(t *testing.T) {
	a, b := newAuthorizedServer(t)
	*b = roleAccess{sees: []string{"/"}}
	public, _ := openEventStream(t, a, "?plan-format=heavy&event_type=api_post_event&event_type=deployment_info")
	*b = roleAccess{sees: []string{"/"}, changes: []string{"/"}, reads: []string{"/"}}
	whole, _ := openEventStream(t, a, "?plan-format=heavy&event_type=api_post_event&event_type=deployment_info")
	a.send("POST", "/v2/apps", `{"id": "/prod/secret", "cmd": "hush", "env": {"TOKEN": "hush"}, "role": "prod"}`, 201)
	for range 2 {
		for reads, next := range map[bool]func() (string, map[string]any){false: public, true: whole} {
			kind, data := next()
			if text, err := json.Marshal(data); err != nil || strings.Contains(string(text), "hush") != reads || !strings.Contains(string(text), "/prod/secret") {
				t.Errorf("%s, reads all fields %t: %s, %v", kind, reads, text, err)
			}
		}
	}
}
