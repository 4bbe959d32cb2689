package api

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	gocmp "github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/openapitest"
	"mesos-gpu/job"
)

// TestDocumentHasTheRoutes, all of them and no others.
func TestDocumentHasTheRoutes(t *testing.T) {
	doc := openapitest.Read(t, openAPI, "")
	var got []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			got = append(got, method+" "+path)
		}
	}
	slices.Sort(got)
	if diff := gocmp.Diff(slices.Sorted(maps.Keys(needs())), got); diff != "" {
		t.Error(diff)
	}
	for request := range params() {
		if _, ok := needs()[request]; !ok {
			t.Errorf("%s has parameters, and is no request", request)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			var query []string
			for _, p := range op.Parameters {
				if p.Value.In == "query" {
					query = append(query, p.Value.Name)
				}
			}
			if diff := gocmp.Diff(query, params()[method+" "+path]); diff != "" {
				t.Errorf("parameters of %s %s (-document +server):\n%s", method, path, diff)
			}
		}
	}
	for _, route := range conditional {
		method, path, _ := strings.Cut(route, " ")
		if doc.Paths.Find(path).GetOperation(method).Parameters.GetByInAndName("header", "If-Match") == nil {
			t.Errorf("%s takes If-Match, and the document does not say so", route)
		}
	}
}

// texts are values of types that take not just any.
var texts = map[reflect.Type]string{
	reflect.TypeFor[job.State]():         string(job.Running),
	reflect.TypeFor[job.Containerizer](): string(job.Docker),
	reflect.TypeFor[job.IPC]():           string(job.HostIPC),
	reflect.TypeFor[job.Overlap]():       string(job.SkipOverlap),
	reflect.TypeFor[job.Outcome]():       string(job.Finish),
	reflect.TypeFor[gpu.Topology]():      string(gpu.NVLink),
	reflect.TypeFor[gpu.Method]():        string(gpu.HeldByMPS),
	reflect.TypeFor[GPUState]():          string(HeldGPU),
	reflect.TypeFor[GPUReason]():         string(Foreign),
	reflect.TypeFor[gpu.Health]():        string(gpu.Healthy),
}

// fill sets all that there is in a value.
func fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 0).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		if v.SetString("x"); texts[v.Type()] != "" {
			v.SetString(texts[v.Type()])
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1.5)
	default:
		v.SetInt(7)
	}
}

func full[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

// TestSchemasHaveTheKeys of the types that are written and read, all of them
// and no others.
func TestSchemasHaveTheKeys(t *testing.T) {
	doc := openapitest.Read(t, openAPI, "")
	for name, v := range map[string]any{
		"Problem": full[Problem](), "Job": full[JobView](), "JobList": full[JobList](), "Task": full[job.Task](), "Spec": full[job.Spec](),
		"ClientKey": full[job.ClientKey](), "Matrix": full[job.Matrix](), "Request": full[gpu.Request](), "Choice": full[gpu.Types](), "Share": full[gpu.Share](),
		"Part": full[gpu.Part](), "Volume": full[job.Volume](), "Artifact": full[job.Artifact](), "Limits": full[job.Limits](), "Port": full[job.Port](),
		"Ulimit": full[job.Ulimit](), "Parameter": full[job.Parameter](), "Check": full[job.Check](), "HealthCheck": full[job.HealthCheck](),
		"HTTPCheck": full[job.HTTPCheck](), "TCPCheck": full[job.TCPCheck](), "Constraint": full[job.Constraint](), "Dependency": full[job.Dependency](),
		"Timing": full[job.Schedule](), "Service": full[job.Service](), "Scaling": full[Scaling](), "Stopping": full[Stopping](), "Schedule": full[Schedule](),
		"ScheduleList": full[ScheduleList](), "Agent": full[Agent](), "AgentView": full[AgentView](), "AgentList": full[AgentList](), "Device": full[gpu.Device](),
		"GPU": full[GPU](), "Shared": full[Shared](), "GPUList": full[GPUList](), "Queued": full[Queued](), "QueueList": full[QueueList](), "Role": full[Role](),
		"RoleList": full[RoleList](), "QuotaChange": full[QuotaChange](), "Cordoning": full[Cordoning](), "Demand": full[Demand](), "DemandList": full[DemandList](),
		"Event": full[Event](), "Health": full[Health](), "DeviceUsage": full[gpu.DeviceUsage](), "TaskUsage": full[TaskUsage](), "UsageList": full[UsageList](),
		"UsagePast": full[UsagePast](), "DevicePast": full[DevicePast](),
	} {
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

// rich is a Backend that has all there is to say of everything.
type rich struct{ *fake }

func (f rich) Submit(_ context.Context, s job.Spec) (JobView, error) {
	v := full[JobView]()
	v.Again = s.ClientKey != nil
	return v, f.err
}
func (f rich) Jobs(context.Context, JobQuery) (JobList, error)    { return full[JobList](), f.err }
func (f rich) Job(context.Context, string) (JobView, error)       { return full[JobView](), f.err }
func (f rich) Agents(context.Context) ([]Agent, error)            { return full[[]Agent](), f.err }
func (f rich) Agent(context.Context, string) (AgentView, error)   { return full[AgentView](), f.err }
func (f rich) GPUs(context.Context) ([]GPU, error)                { return full[[]GPU](), f.err }
func (f rich) Health(context.Context) (Health, error)             { return full[Health](), f.err }
func (f rich) Queue(context.Context, Page) (QueueList, error)     { return full[QueueList](), f.err }
func (f rich) Roles(context.Context) ([]Role, error)              { return full[[]Role](), f.err }
func (f rich) Cordon(context.Context, string, string, bool) error { return f.err }
func (f rich) Uncordon(context.Context, string) error             { return f.err }
func (f rich) Demand(context.Context) (DemandList, error)         { return full[DemandList](), f.err }
func (f rich) Usage(context.Context, UsageQuery) (UsageList, error) {
	return full[UsageList](), f.err
}
func (f rich) Schedules(context.Context) ([]Schedule, error)      { return full[[]Schedule](), f.err }
func (f rich) Schedule(context.Context, string) (Schedule, error) { return full[Schedule](), f.err }
func (f rich) EndSchedule(context.Context, string) error          { return f.err }
func (f rich) SetQuota(context.Context, string, *string) (Role, error) {
	return full[Role](), f.err
}
func (f rich) AddSchedule(context.Context, job.Spec) (Schedule, error) {
	return full[Schedule](), f.err
}

// upgrade are a WebSocket's headers.
var upgrade = []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="}

// asked are requests that succeed: what the path has for its parameters, the
// query, and the body.
var asked = map[string]struct {
	query, body string
	header      []string
	status      int
}{
	"GET /v1/jobs":                          {query: "?limit=5&after=a.b&state=live&order=newest"},
	"GET /v1/schedules":                     {query: "?limit=5&after=" + Cursor("schedules", Key{"a", ""})},
	"GET /v1/agents":                        {query: "?limit=5&after=" + Cursor("agents", Key{"a", "b", ""})},
	"GET /v1/gpus":                          {query: "?limit=5&after=" + Cursor("gpus", Key{"a", "b", "c"})},
	"GET /v1/queue":                         {query: "?limit=5&after=a"},
	"GET /v1/roles":                         {query: "?limit=5&after=" + Cursor("roles", Key{"a"})},
	"POST /v1/jobs":                         {body: `{"name":"x","command":["true"],"request":{"gpus":1,"types":{"include":["V100"]}},"env":{"A":"b"}}`, status: 201},
	"DELETE /v1/jobs/{name}":                {header: []string{"If-Match", `"a"`}, status: 202},
	"POST /v1/jobs/{name}/scale":            {body: `{"tasks":2}`, status: 202},
	"POST /v1/tasks/{id}/stop":              {body: `{"retire":true}`, status: 202},
	"GET /v1/tasks/{id}/log":                {query: "?stream=stdout&offset=1&follow=false"},
	"POST /v1/schedules":                    {body: `{"name":"x","command":["true"],"schedule":{"cron":"0 3 * * *"}}`, status: 201},
	"DELETE /v1/schedules/{name}":           {status: 202},
	"POST /v1/agents/{id}/cordon":           {body: `{"reason":"fan"}`, status: 202},
	"POST /v1/agents/{id}/drain":            {body: `{}`, status: 202},
	"POST /v1/agents/{id}/uncordon":         {body: `{}`, status: 202},
	"PUT /v1/roles/{role}/quota":            {body: `{"quota":null}`},
	"GET /v1/jobs/{name}/tasks/{task}/exec": {query: "?argv=sh&argv=-c&argv=id&tty=true&stdin=true&rows=24&cols=80", header: upgrade, status: 101},
	"GET /v1/usage":                         {query: "?limit=5&after=a&job=train&task=train.0&agent=a&minutes=15"},
	"GET /v1/events":                        {query: "?job=train&state=live"},
}

// TestServerAnswersAsDocumented: each route's request is one that the document
// allows, and so are its answer and all errors that it may have.
func TestServerAnswersAsDocumented(t *testing.T) {
	doc := openapitest.Read(t, openAPI, "")
	for route := range needs() {
		method, path, _ := strings.Cut(route, " ")
		one := asked[route]
		want := cmp.Or(one.status, http.StatusOK)
		path = strings.NewReplacer("{name}", "train", "{id}", "train.0", "{role}", "x", "{task}", "7").Replace(path)
		t.Run(route, func(t *testing.T) {
			op := doc.Paths.Find(strings.TrimPrefix(route, method+" ")).GetOperation(method)
			if got := checked(t, doc, nil, method, path+one.query, one.body, one.header...); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
			for text := range op.Responses.Map() {
				status, err := strconv.Atoi(text)
				if err != nil {
					t.Fatalf("status %q is no number", text)
				}
				if status < 300 {
					continue
				}
				if got := checked(t, doc, Problemf(status, "no"), method, path+one.query, one.body, one.header...); got != status {
					t.Errorf("got %d, want %d", got, status)
				}
			}
		})
	}
	for _, kind := range []string{"application/yaml", "application/yaml; charset=utf-8"} {
		if got := checked(t, doc, nil, "POST", "/v1/jobs", "name: train\ngpus: 1\ncommand: \"true\"\n", "Content-Type", kind); got != http.StatusCreated {
			t.Errorf("a job file as %s: got %d, want 201", kind, got)
		}
	}
	if got := checked(t, doc, nil, "POST", "/v1/jobs", asked["POST /v1/jobs"].body, IdempotencyKey, "k"); got != http.StatusOK {
		t.Errorf("a submission made again: got %d, want 200", got)
	}
}

// upgradable is a recorder whose connection becomes one with somebody who goes
// away at the first word.
type upgradable struct{ *httptest.ResponseRecorder }

func (upgradable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	ours, theirs := net.Pipe()
	go func() {
		_, _ = theirs.Read(make([]byte, 1))
		_ = theirs.Close()
	}()
	return ours, bufio.NewReadWriter(bufio.NewReader(ours), bufio.NewWriter(ours)), nil
}

// checked asks the server, holds request and answer against the document, and
// returns the status.
func checked(t *testing.T, doc *openapitest.Document, fault error, method, path, body string, header ...string) int {
	t.Helper()
	changes := make(chan Event)
	close(changes)
	f := rich{&fake{err: fault, changes: changes, task: job.Task{ID: "train.0", AgentID: "a", State: job.Finished}, readLog: func(uint64) ([]byte, error) { return nil, nil }}}
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
	exchange := doc.Find(t, request())
	if err := exchange.Request(t.Context()); err != nil {
		t.Errorf("the request: %v", err)
	}
	w := upgradable{httptest.NewRecorder()}
	Handler(func() Backend { return f }, quiet()).ServeHTTP(w, request())
	if err := exchange.Answer(t.Context(), w.Code, w.Header(), w.Body.Bytes()); err != nil {
		t.Errorf("the answer %d: %v", w.Code, err)
	}
	return w.Code
}
