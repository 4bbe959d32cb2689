package apiserver

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/documenttest"
	"mesos-gpu/internal/testing/openapitest"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

func findRoute(request string) *route {
	for _, one := range routes() {
		if one.request == request {
			return &one
		}
	}
	return nil
}

// TestOpenAPIHasAllRoutes checks that the document has exactly the registered routes.
func TestOpenAPIHasAllRoutes(t *testing.T) {
	doc := openapitest.ReadDocument(t, api.OpenAPIDocument(), "")
	var got []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			got = append(got, method+" "+path)
		}
	}
	slices.Sort(got)
	var want []string
	for _, one := range routes() {
		want = append(want, one.request)
	}
	slices.Sort(want)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			var query []string
			for _, p := range op.Parameters {
				if p.Value.In == "query" {
					query = append(query, p.Value.Name)
				}
			}
			if diff := gocmp.Diff(query, strings.Fields(findRoute(method+" "+path).parameters), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("parameters of %s %s (-document +server):\n%s", method, path, diff)
			}
		}
	}
	for _, one := range routes() {
		method, path, _ := strings.Cut(one.request, " ")
		if one.takesIfMatch && doc.Paths.Find(path).GetOperation(method).Parameters.GetByInAndName("header", "If-Match") == nil {
			t.Errorf("%s takes If-Match, and the document does not say so", one.request)
		}
	}
}

// enumValues are valid values of string types with a restricted set of values.
var enumValues = map[reflect.Type]string{
	reflect.TypeFor[job.State]():             string(job.Running),
	reflect.TypeFor[job.ChangeKind]():        string(job.EditChange),
	reflect.TypeFor[job.Containerizer]():     string(job.Docker),
	reflect.TypeFor[job.IPCMode]():           string(job.HostIPC),
	reflect.TypeFor[job.OverlapPolicy]():     string(job.SkipOverlap),
	reflect.TypeFor[job.DependencyOutcome](): string(job.OutcomeFinished),
	reflect.TypeFor[job.HoldKind]():          string(job.HeldRole),
	reflect.TypeFor[job.NotificationEvent](): string(job.NotifyEnd),
	reflect.TypeFor[api.NotificationState](): string(api.NotificationFailed),
	reflect.TypeFor[job.TimeoutAction]():     string(job.RequeueOnTimeout),
	reflect.TypeFor[gpu.Topology]():          string(gpu.NVLink),
	reflect.TypeFor[gpu.EnforcementMethod](): string(gpu.EnforcedByMPS),
	reflect.TypeFor[api.GPUState]():          string(api.HeldGPU),
	reflect.TypeFor[api.GPUReason]():         string(api.ReasonForeignTask),
	reflect.TypeFor[gpu.Health]():            string(gpu.Healthy),
	reflect.TypeFor[api.ProblemCode]():       string(api.CodeJobNotFound),
}

// filledValue returns a value with all fields set.
func filledValue[T any]() T { return documenttest.Filled[T](enumValues) }

// TestOpenAPISchemasMatchTypes checks that the document has exactly the fields of the types
// that are encoded and decoded.
func TestOpenAPISchemasMatchTypes(t *testing.T) {
	doc := openapitest.ReadDocument(t, api.OpenAPIDocument(), "")
	outputPart := filledValue[api.OutputPart]()
	outputPart.Stream = "stderr"
	schemas := map[string]any{
		"Problem":           filledValue[api.Problem](),
		"ClusterHistory":    filledValue[api.ClusterHistory](),
		"JobUsageHistory":   filledValue[api.JobUsageHistory](),
		"Identity":          filledValue[api.RequesterIdentity](),
		"CodeExchange":      filledValue[api.CodeExchange](),
		"IssuedToken":       filledValue[api.IssuedToken](),
		"ValidatedJob":      filledValue[api.ValidatedJob](),
		"Job":               filledValue[api.JobView](),
		"JobList":           filledValue[api.JobList](),
		"Task":              filledValue[job.Task](),
		"Spec":              filledValue[job.Spec](),
		"ClientKey":         filledValue[job.ClientKey](),
		"Warning":           filledValue[job.Warning](),
		"Matrix":            filledValue[job.Matrix](),
		"Request":           filledValue[gpu.Request](),
		"Choice":            filledValue[gpu.DeviceSelector](),
		"TypeChoice":        filledValue[gpu.TypeSelector](),
		"Share":             filledValue[gpu.ShareRequest](),
		"DeviceShare":       filledValue[gpu.DeviceShare](),
		"Volume":            filledValue[job.Volume](),
		"Artifact":          filledValue[job.FetchArtifact](),
		"Limits":            filledValue[job.ResourceLimits](),
		"Port":              filledValue[job.Port](),
		"Ulimit":            filledValue[job.Ulimit](),
		"Parameter":         filledValue[job.DockerParameter](),
		"Check":             filledValue[job.Check](),
		"HealthCheck":       filledValue[job.HealthCheck](),
		"HTTPCheck":         filledValue[job.HTTPCheck](),
		"TCPCheck":          filledValue[job.TCPCheck](),
		"Constraint":        filledValue[job.Constraint](),
		"Dependency":        filledValue[job.Dependency](),
		"Timing":            filledValue[job.Schedule](),
		"Service":           filledValue[job.Service](),
		"Rerun":             filledValue[api.RerunRequest](),
		"Scaling":           filledValue[api.ScaleRequest](),
		"Stopping":          filledValue[api.StopRequest](),
		"Schedule":          filledValue[api.ScheduleView](),
		"ScheduleList":      filledValue[api.ScheduleList](),
		"Agent":             filledValue[api.AgentSummary](),
		"AgentView":         filledValue[api.AgentDetail](),
		"AgentList":         filledValue[api.AgentList](),
		"StrayTask":         filledValue[api.StrayTask](),
		"Device":            filledValue[gpu.Device](),
		"GPU":               filledValue[api.GPUView](),
		"Shared":            filledValue[api.SharedCapacity](),
		"GPUList":           filledValue[api.GPUList](),
		"Queued":            filledValue[api.QueuedJob](),
		"QueueList":         filledValue[api.QueueList](),
		"Role":              filledValue[api.RoleStatus](),
		"Holding":           filledValue[api.HoldRequest](),
		"Requeueing":        filledValue[api.RequeueRequest](),
		"Hold":              filledValue[job.Hold](),
		"HeldTarget":        filledValue[api.HoldView](),
		"HoldList":          filledValue[api.HoldList](),
		"NotificationRule":  filledValue[job.NotificationRule](),
		"NotificationView":  filledValue[api.NotificationView](),
		"NotificationList":  filledValue[api.NotificationList](),
		"RoleList":          filledValue[api.RoleList](),
		"QuotaChange":       filledValue[api.QuotaChange](),
		"Cordoning":         filledValue[api.CordonRequest](),
		"Demand":            filledValue[api.UnmetDemand](),
		"DemandList":        filledValue[api.DemandList](),
		"Event":             filledValue[api.TaskEvent](),
		"Health":            filledValue[api.HealthStatus](),
		"DeviceUsage":       filledValue[gpu.DeviceUsage](),
		"TaskUsage":         filledValue[api.TaskUsage](),
		"UsageList":         filledValue[api.UsageList](),
		"UsagePast":         filledValue[api.UsageHistory](),
		"DevicePast":        filledValue[api.DeviceHistory](),
		"StoredWorkdir":     filledValue[api.StoredWorkdir](),
		"ArtifactReport":    filledValue[api.ArtifactReport](),
		"ArtifactFile":      filledValue[api.Artifact](),
		"ArtifactList":      filledValue[api.ArtifactList](),
		"StoredOutput":      filledValue[api.StoredOutput](),
		"SandboxFile":       filledValue[api.SandboxFile](),
		"SandboxList":       filledValue[api.SandboxList](),
		"HealthFailure":     filledValue[job.HealthFailure](),
		"AutoscalingPolicy": filledValue[job.AutoscalingPolicy](),
		"LoadTarget":        filledValue[job.LoadTarget](),
		"Change":            filledValue[job.Change](),
		"AutoscalingStatus": filledValue[api.AutoscalingStatus](),
		"SharedGPUs":        filledValue[api.SharedGPUs](),
		"OutputPart":        outputPart,
		"StartEstimate":     filledValue[api.StartEstimate](),
		"TimeRange":         filledValue[api.TimeRange](),
		"HostUse":           filledValue[api.HostUse](),
		"MesosQuota":        filledValue[api.MesosQuota](),
		"BudgetUse":         filledValue[api.BudgetUse](),
		"RoleUserLimits":    filledValue[api.RoleUserLimits](),
		"UserLimits":        filledValue[api.UserLimits](),
		"LimitedUser":       filledValue[api.LimitedUser](),
		"UserUsage":         filledValue[api.UserUsage](),
		"MeasuredUsage":     filledValue[api.MeasuredUsage](),
		"AccountingSums":    filledValue[api.AccountingSums](),
		"AccountingGroup":   filledValue[api.AccountingGroup](),
		"AccountingReport":  filledValue[api.AccountingReport](),
		"AccountedAttempt":  filledValue[api.AccountedAttempt](),
		"AccountingList":    filledValue[api.AccountingList](),
		"JobAccounting":     filledValue[api.JobAccounting](),
		"UsageTotals":       filledValue[gpu.UsageTotals](),
		"JobHistory":        filledValue[api.JobHistory](),
	}
	for name, schema := range doc.Components.Schemas {
		if _, ok := schemas[name]; !ok && schema.Value.Type.Is("object") && !slices.Contains([]string{"Edit", "Nothing"}, name) {
			t.Errorf("the schema %s is not compared with a type: add it above", name)
		}
	}
	editable := doc.Components.Schemas["Edit"].Value.Properties // its fields have no type: they are keys of a job file
	if diff := gocmp.Diff(jobfile.EditableKeys(), slices.Sorted(maps.Keys(editable))); diff != "" {
		t.Errorf("Edit: %s", diff)
	}
	for name, v := range schemas {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var keys map[string]any
		if err := json.Unmarshal(text, &keys); err != nil {
			t.Fatal(err)
		}
		schema := doc.Components.Schemas[name].Value
		if diff := gocmp.Diff(slices.Sorted(maps.Keys(keys)), slices.Sorted(maps.Keys(schema.Properties))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err := schema.VisitJSON(keys, openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOpenAPIEnumsAreComplete checks that each enumeration of the document that has values of a type has all of them.
func TestOpenAPIEnumsAreComplete(t *testing.T) {
	var document struct{ Components struct{ Schemas any } }
	if err := yaml.Unmarshal(api.OpenAPIDocument(), &document); err != nil {
		t.Fatal(err)
	}
	var enums [][]any
	collectEnums(document.Components.Schemas, &enums)
	for _, all := range [][]string{
		toStrings(job.States()), toStrings(job.NotificationEvents()), toStrings(gpu.AllTopologies()), toStrings(gpu.EnforcementMethods()),
		toStrings(job.ChangeKinds()),
	} {
		found := 0
		for _, enum := range enums {
			var values []string
			for _, v := range enum {
				values = append(values, fmt.Sprint(v))
			}
			known := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !slices.Contains(all, v) })
			if len(known) < min(3, len(all)) {
				continue
			}
			found++
			slices.Sort(values)
			if diff := gocmp.Diff(slices.Sorted(slices.Values(all)), values); diff != "" {
				t.Errorf("an enumeration (-code +document):\n%s", diff)
			}
		}
		if found == 0 {
			t.Errorf("the document has no enumeration of %s", all)
		}
	}
}

// collectEnums appends the values of all keys enum of a document.
func collectEnums(node any, enums *[][]any) {
	switch n := node.(type) {
	case map[string]any:
		if values, ok := n["enum"].([]any); ok {
			*enums = append(*enums, values)
		}
		for _, child := range n {
			collectEnums(child, enums)
		}
	case []any:
		for _, child := range n {
			collectEnums(child, enums)
		}
	}
}

func toStrings[T ~string](values []T) []string {
	var texts []string
	for _, v := range values {
		texts = append(texts, string(v))
	}
	return texts
}

// fullBackend is a Backend whose responses have all fields set.
type fullBackend struct{ *fakeBackend }

func (f fullBackend) SubmitJob(_ context.Context, _ *access.Grant, s job.Spec) (api.JobView, string, error) {
	v := filledValue[api.JobView]()
	v.AlreadySubmitted = s.ClientKey != nil
	return v, "", f.err
}
func (f fullBackend) ListJobs(context.Context, request.JobQuery) (api.JobList, error) {
	return filledValue[api.JobList](), f.err
}
func (f fullBackend) EditJob(context.Context, request.Change, string, func(*job.Spec) error) (api.JobView, error) {
	return filledValue[api.JobView](), f.err
}
func (f fullBackend) UpdateJob(context.Context, request.Change, string, job.Spec) (api.JobView, error) {
	return filledValue[api.JobView](), f.err
}
func (f fullBackend) RerunJob(_ context.Context, _ *access.Grant, _ string, q request.RerunQuery) (api.JobView, error) {
	v := filledValue[api.JobView]()
	v.AlreadySubmitted = q.ClientKey != nil
	return v, f.err
}
func (f fullBackend) ValidateJob(context.Context, *access.Grant, job.Spec) (api.ValidatedJob, error) {
	return filledValue[api.ValidatedJob](), f.err
}
func (f fullBackend) ValidateUpdate(context.Context, request.Change, string, job.Spec) (api.ValidatedJob, error) {
	return filledValue[api.ValidatedJob](), f.err
}
func (f fullBackend) ClusterUsage(context.Context, int) (api.ClusterHistory, error) {
	return filledValue[api.ClusterHistory](), f.err
}
func (f fullBackend) JobUsage(context.Context, string) (api.JobUsageHistory, error) {
	return filledValue[api.JobUsageHistory](), f.err
}
func (f fullBackend) DescribeSignIn(context.Context) *api.OIDCSignIn {
	v := filledValue[api.OIDCSignIn]()
	return &v
}
func (f fullBackend) ExchangeCode(context.Context, api.CodeExchange) (string, error) {
	return "token", f.err
}
func (f fullBackend) GetJob(context.Context, string) (api.JobView, error) {
	return filledValue[api.JobView](), f.err
}
func (f fullBackend) ListAgents(context.Context, bool) ([]api.AgentSummary, error) {
	return filledValue[[]api.AgentSummary](), f.err
}
func (f fullBackend) GetAgent(context.Context, string) (api.AgentDetail, error) {
	return filledValue[api.AgentDetail](), f.err
}
func (f fullBackend) ListGPUs(context.Context, bool) ([]api.GPUView, error) {
	return filledValue[[]api.GPUView](), f.err
}
func (f fullBackend) GetHealth(context.Context) (api.HealthStatus, error) {
	return filledValue[api.HealthStatus](), f.err
}
func (f fullBackend) ListQueue(context.Context, *access.Grant, api.PageRequest) (api.QueueList, error) {
	return filledValue[api.QueueList](), f.err
}
func (f fullBackend) ListHolds(context.Context) ([]api.HoldView, error) {
	return filledValue[[]api.HoldView](), f.err
}
func (f fullBackend) ListNotifications(context.Context) ([]api.NotificationView, error) {
	list := filledValue[[]api.NotificationView]()
	list[0].ID = "train.0" // the id in the paths of the test
	return list, f.err
}
func (f fullBackend) ListRoles(context.Context) ([]api.RoleStatus, error) {
	return filledValue[[]api.RoleStatus](), f.err
}
func (f fullBackend) CordonAgent(context.Context, request.Change, string, string, bool) error {
	return f.err
}
func (f fullBackend) UncordonAgent(context.Context, request.Change, string) error { return f.err }
func (f fullBackend) GetDemand(context.Context) (api.DemandList, error) {
	return filledValue[api.DemandList](), f.err
}
func (f fullBackend) ListUsage(context.Context, *access.Grant, request.UsageQuery) (api.UsageList, error) {
	return filledValue[api.UsageList](), f.err
}
func (f fullBackend) ReportAccounting(context.Context, *access.Grant, api.AccountingQuery) (api.AccountingReport, error) {
	return filledValue[api.AccountingReport](), f.err
}
func (f fullBackend) ListAttempts(context.Context, *access.Grant, api.AccountingQuery, int, []byte) ([]api.AccountedAttempt, []byte, error) {
	return filledValue[[]api.AccountedAttempt](), []byte("x"), f.err
}
func (f fullBackend) AccountJob(context.Context, string, time.Duration) (api.JobAccounting, error) {
	return filledValue[api.JobAccounting](), f.err
}
func (f fullBackend) ListSchedules(context.Context) ([]api.ScheduleView, error) {
	return filledValue[[]api.ScheduleView](), f.err
}
func (f fullBackend) GetSchedule(context.Context, *access.Grant, string) (api.ScheduleView, error) {
	return filledValue[api.ScheduleView](), f.err
}
func (f fullBackend) FindWorkdir(context.Context, *access.Grant, string) (api.StoredWorkdir, error) {
	return filledValue[api.StoredWorkdir](), f.err
}
func (f fullBackend) ListArtifacts(context.Context, string) (api.ArtifactList, error) {
	return filledValue[api.ArtifactList](), f.err
}
func (f fullBackend) OpenWorkdir(context.Context, job.RunID, string) (*os.File, error) {
	if f.err != nil {
		return nil, f.err
	}
	return os.Open(os.DevNull)
}
func (f fullBackend) EndSchedule(context.Context, request.Change, string) error { return f.err }
func (f fullBackend) SetQuota(context.Context, request.Change, string, *string) (api.RoleStatus, error) {
	return filledValue[api.RoleStatus](), f.err
}
func (f fullBackend) AddSchedule(context.Context, *access.Grant, job.Spec) (api.ScheduleView, string, error) {
	return filledValue[api.ScheduleView](), "", f.err
}

// upgrade is the headers of a WebSocket request.
var upgrade = []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="}

// validRequests are successful requests: values of the path's parameters, the query, and the body.
var validRequests = map[string]struct {
	query, body string
	header      []string
	status      int
}{
	"GET /v1/jobs":      {query: "?limit=5&after=a.b&state=live&role=web&owner=ada&name=t*&label=team%3Dvision,tier&order=newest"},
	"GET /v1/schedules": {query: "?limit=5&after=" + request.EncodeCursor("schedules", request.SortKey{"a", ""})},
	"GET /v1/agents":    {query: "?limit=5&after=" + request.EncodeCursor("agents", request.SortKey{"a", "b", ""})},
	"GET /v1/gpus":      {query: "?limit=5&after=" + request.EncodeCursor("gpus", request.SortKey{"a", "b", "c"})},
	"GET /v1/queue":     {query: "?limit=5&after=a"},
	"GET /v1/roles":     {query: "?limit=5&after=" + request.EncodeCursor("roles", request.SortKey{"a"})},
	"POST /v1/jobs": {body: `{"name":"x","command":["true"],"request":{"gpus":1,"types":{"include":["V100"]}},"env":{"A":"b"}}`,
		status: 201},
	"POST /v1/validate":        {query: "?when=true", body: `{"name":"x","command":["true"]}`},
	"POST /v1/sign-in":         {body: `{"code":"c","code_verifier":"v","redirect_uri":"https://s1/"}`},
	"GET /v1/tasks/{id}/files": {query: "?path=d"},
	"GET /v1/tasks/{id}/file":  {query: "?path=model&offset=1"},
	"PUT /v1/tasks/{id}/file": {query: "?path=d/&mode=755&name=x", body: "content",
		header: []string{"Content-Type", "application/octet-stream"}, status: 204},
	"PUT /v1/tasks/{id}/files":      {query: "?path=d", body: "tar", header: []string{"Content-Type", "application/x-tar"}, status: 204},
	"PUT /v1/workdirs/{digest}":     {body: "archive", header: []string{"Content-Type", "application/gzip"}, status: 201},
	"GET /v1/jobs/{reference}/runs": {query: "?limit=5&after=a.b&order=newest"},
	"DELETE /v1/jobs/{reference}":   {header: []string{"If-Match", `"a"`}, status: 202},
	"PUT /v1/jobs/{reference}":      {body: `{"name":"train","command":["true"],"service":{}}`, header: []string{"If-Match", `"a"`}},
	"PATCH /v1/jobs/{reference}": {body: `{"priority":5,"gpu_type":["A100"],"timeout":"2h","run_time":null,"labels":{"a":"b","c":null}}`, header: []string{
		"If-Match", `"a"`,
	}},
	"POST /v1/jobs/{reference}/validate":         {body: `{"name":"train","command":["true"],"service":{}}`},
	"POST /v1/jobs/{reference}/rerun":            {body: `{"failed":true}`, status: 201},
	"PUT /v1/jobs/{reference}/hold":              {body: `{"reason":"x"}`, header: []string{"If-Match", `"a"`}, status: 202},
	"DELETE /v1/jobs/{reference}/hold":           {header: []string{"If-Match", `"a"`}, status: 202},
	"POST /v1/jobs/{reference}/requeue":          {body: `{"reason":"x","hold":true}`, header: []string{"If-Match", `"a"`}, status: 202},
	"PUT /v1/roles/{role}/hold":                  {body: `{"reason":"x","drain":true}`, status: 202},
	"DELETE /v1/roles/{role}/hold":               {status: 202},
	"PUT /v1/users/{user}/hold":                  {body: `{}`, status: 202},
	"DELETE /v1/users/{user}/hold":               {status: 202},
	"POST /v1/jobs/{reference}/scale":            {body: `{"tasks":2}`, status: 202},
	"POST /v1/notifications/{id}/retry":          {status: 202},
	"DELETE /v1/notifications/{id}":              {status: 202},
	"POST /v1/tasks/{id}/stop":                   {body: `{"retire":true}`, status: 202},
	"GET /v1/tasks/{id}/log":                     {query: "?stream=stdout&offset=1&follow=false"},
	"GET /v1/tasks/{id}/output":                  {query: "?stream=stdout&since=2026-01-01T00:00:00Z&tail=5&follow=false"},
	"POST /v1/schedules":                         {body: `{"name":"x","command":["true"],"schedule":{"cron":"0 3 * * *"}}`, status: 201},
	"DELETE /v1/schedules/{name}":                {status: 202},
	"POST /v1/agents/{id}/cordon":                {body: `{"reason":"fan"}`, status: 202},
	"POST /v1/agents/{id}/drain":                 {body: `{}`, status: 202},
	"POST /v1/agents/{id}/uncordon":              {body: `{}`, status: 202},
	"PUT /v1/roles/{role}/quota":                 {body: `{"quota":null}`},
	"GET /v1/jobs/{reference}/tasks/{task}/exec": {query: "?argv=sh&argv=-c&argv=id&tty=true&stdin=true&rows=24&cols=80", header: upgrade, status: 101},
	"GET /v1/usage":                              {query: "?limit=5&after=a&job=train&task=train.0&agent=a&minutes=15"},
	"GET /v1/usage/history":                      {query: "?hours=720"},
	"GET /v1/accounting":                         {query: "?by=user,role&since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00Z&user=ada&role=web&job=train&state=FAILED"},
	"GET /v1/accounting/attempts":                {query: "?limit=5&since=2026-01-01T00:00:00Z&job=train@2"},
	"GET /v1/jobs/{reference}/accounting":        {query: "?wait=3"},
	"GET /v1/events":                             {query: "?job=train&state=live"},

	"GET /v1/jobs/{reference}/tasks/{task}/port-forward": {query: "?port=web", header: upgrade, status: 409}, // the task has no such port
	"GET /v1/jobs/{reference}/tasks/{task}/attach":       {query: "?rows=24&cols=80", header: upgrade, status: 101},
}

// TestResponsesMatchOpenAPI checks each route's request, response and possible errors
// against the document.
func TestResponsesMatchOpenAPI(t *testing.T) {
	doc := openapitest.ReadDocument(t, api.OpenAPIDocument(), "")
	for _, registered := range routes() {
		route := registered.request
		method, path, _ := strings.Cut(route, " ")
		one := validRequests[route]
		want := cmp.Or(one.status, http.StatusOK)
		path = strings.NewReplacer("{name}", "train", "{reference}", "train", "{id}", "train.0", "{role}", "x", "{user}", "u", "{task}", "7", "{digest}",
			"sha256:0", "{run}", "1", "{token}", "t").Replace(path)
		t.Run(route, func(t *testing.T) {
			op := doc.Paths.Find(strings.TrimPrefix(route, method+" ")).GetOperation(method)
			if got := checkAgainstSchema(t, doc, nil, method, path+one.query, one.body, one.header...); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
			for text := range op.Responses.Map() {
				status, err := strconv.Atoi(text)
				if err != nil {
					t.Fatalf("status %q is not a number", text)
				}
				if status < 300 {
					continue
				}
				if got := checkAgainstSchema(t, doc, api.NewProblemf(status, "no"), method, path+one.query, one.body, one.header...); got != status {
					t.Errorf("got %d, want %d", got, status)
				}
			}
		})
	}
	for _, kind := range []string{"application/yaml", "application/yaml; charset=utf-8"} {
		if got := checkAgainstSchema(t, doc, nil, "POST", "/v1/jobs", "name: train\ngpus: 1\ncommand: \"true\"\n", "Content-Type", kind); got != http.StatusCreated {
			t.Errorf("a job file as %s: got %d, want 201", kind, got)
		}
	}
	if got := checkAgainstSchema(t, doc, nil, "POST", "/v1/jobs", validRequests["POST /v1/jobs"].body, api.IdempotencyKey, "k"); got != http.StatusOK {
		t.Errorf("a submission made again: got %d, want 200", got)
	}
}

// TestBooleanParameters checks that all boolean parameters of the document accept the same values.
func TestBooleanParameters(t *testing.T) {
	doc, checked := openapitest.ReadDocument(t, api.OpenAPIDocument(), ""), 0
	changes := make(chan api.TaskEvent)
	close(changes)
	f := fullBackend{&fakeBackend{
		changes: changes,
		task:    job.Task{ID: "train.0", AgentID: "a", State: job.Finished},
		readLog: func(uint64) ([]byte, error) { return nil, nil },
	}}
	handler := NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger())
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for _, p := range op.Parameters {
				if p.Value.In != "query" || !p.Value.Schema.Value.Type.Is("boolean") {
					continue
				}
				checked++
				for value, valid := range map[string]bool{"true": true, "True": true, "1": true, "false": true, "yes": false} {
					route := method + " " + path
					r := httptest.NewRequest(method, path+"?"+p.Value.Name+"="+value, strings.NewReader(validRequests[route].body))
					r.Header.Set("Content-Type", "application/json")
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, r)
					if refused := w.Code == http.StatusBadRequest && strings.Contains(w.Body.String(), "is neither true nor false"); refused == valid {
						t.Errorf("%s with %s=%s: %d %s", route, p.Value.Name, value, w.Code, w.Body)
					}
				}
			}
		}
	}
	if checked < 7 {
		t.Errorf("the document has %d boolean parameters", checked)
	}
}

// hijackableRecorder is a recorder that supports hijacking, with a peer that disconnects at
// the first message.
type hijackableRecorder struct{ *httptest.ResponseRecorder }

func (hijackableRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = theirs.Read(make([]byte, 1))
		_ = theirs.Close()
	}()
	return ours, bufio.NewReadWriter(bufio.NewReader(ours), bufio.NewWriter(ours)), nil
}

// checkAgainstSchema sends a request, validates request and response against the document,
// and returns the status.
func checkAgainstSchema(t *testing.T, doc *openapitest.APIDocument, fault error, method, path, body string, header ...string) int {
	t.Helper()
	changes := make(chan api.TaskEvent)
	close(changes)
	f := fullBackend{&fakeBackend{
		err:     fault,
		changes: changes,
		task:    job.Task{ID: "train.0", AgentID: "a", State: job.Finished},
		readLog: func(uint64) ([]byte, error) { return nil, nil },
	}}
	if method == http.MethodPut {
		f.task.State = job.Running
	}
	request := func() *http.Request {
		r := httptest.NewRequest(method, "http://scheduler"+path, strings.NewReader(body))
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return r
	}
	exchange := doc.FindOperation(t, request())
	if err := exchange.CheckRequest(t.Context()); err != nil {
		t.Errorf("the request: %v", err)
	}
	w := hijackableRecorder{httptest.NewRecorder()}
	NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger(), WithSignIn(f)).ServeHTTP(w, request())
	if err := exchange.CheckAnswer(t.Context(), w.Code, w.Header(), w.Body.Bytes()); err != nil {
		t.Errorf("the answer %d: %v", w.Code, err)
	}
	return w.Code
}
