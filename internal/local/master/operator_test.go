package master

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mesos-gpu/internal/minimesos/events"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpmaster"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	operatorcalls "github.com/mesos/mesos-go/api/v1/lib/master/calls"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// paths returns the members of a JSON value, such as "agents[].agent_info.port".
func paths(v any) map[string]bool {
	out := map[string]bool{}
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, member := range v {
				out[prefix+key] = true
				walk(prefix+key+".", member)
			}
		case []any:
			for _, item := range v {
				walk(strings.TrimSuffix(prefix, ".")+"[].", item)
			}
		}
	}
	walk("", v)
	return out
}

// wantShape fails for each member that Mesos's response has and got lacks, except
// those listed with a reason. Mesos's response was recorded from a 1.12 master
// whose agent advertised GPUs through a resource provider.
func wantShape(t *testing.T, what string, got, recorded []byte, without ...string) {
	t.Helper()
	var g, r any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s: %s: %v", what, got, err)
	}
	if err := json.Unmarshal(recorded, &r); err != nil {
		t.Fatal(err)
	}
	has := paths(g)
	for _, path := range slices.Sorted(maps.Keys(paths(r))) {
		known := slices.ContainsFunc(without, func(w string) bool {
			return path == w || strings.HasPrefix(path, w+".") || strings.HasPrefix(path, w+"[")
		})
		if !has[path] && !known {
			t.Errorf("%s lacks %s", what, path)
		}
	}
}

// busy returns a master with an offer and a framework whose task has ended.
func busy(t *testing.T) (*EmbeddedMaster, *masterClient, *registeringAgent) {
	m := New(MasterConfig{})
	total := res(gpuAgent)
	for i := range total {
		if strings.HasPrefix(total[i].Name, "gpu") {
			total[i].ProviderID = &mesos.ResourceProviderID{Value: "provider"}
		}
	}
	ports := mesos.RANGES
	total = append(total, mesos.Resource{Name: "ports", Type: &ports, Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: 1, End: 9}}}})
	c := subscribe(t, m, info())
	a := newAgent()
	id, err := m.Register(agentInfo(), total, nil, a)
	if err != nil {
		t.Fatal(err)
	}
	a.id = id
	job := taskInfo("job", a.id, "cpus:1;gpus:1;gpu_ids:{A}")
	for i := range job.Resources[1:] {
		job.Resources[i+1].ProviderID = &mesos.ResourceProviderID{Value: "provider"}
	}
	job.Executor, job.Command = &mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: "job"}, Command: job.Command}, nil
	c.accept(t, 0, c.offers(t), launch(job))
	m.withLock(m.allocateAll)
	return m, c, a
}

func (a *registeringAgent) finish(t *testing.T, m *EmbeddedMaster, c *masterClient) {
	t.Helper()
	message, pid := "Command exited with status 0", uint32(7)
	ip, v4 := "127.0.0.1", mesos.IPv4
	m.Status(a.id, *c.id, mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: "job"}, State: mesos.TASK_FINISHED.Enum(), UUID: make([]byte, 16), Message: &message,
		Source: mesos.SOURCE_EXECUTOR.Enum(), ExecutorID: &mesos.ExecutorID{Value: "job"}, Timestamp: new(float64),
		ContainerStatus: &mesos.ContainerStatus{
			ContainerID: &mesos.ContainerID{Value: "c"}, ExecutorPID: &pid,
			NetworkInfos: []mesos.NetworkInfo{{IPAddresses: []mesos.NetworkInfo_IPAddress{{IPAddress: &ip, Protocol: &v4}}}},
		},
	})
}

func TestEventsLookLikeMesos(t *testing.T) {
	recorded, err := os.ReadFile("testdata/scheduler-events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	master, c, a := busy(t)
	again := info()
	again.ID = c.id
	c = subscribe(t, master, again)
	a.finish(t, master, c)
	got := map[string][]byte{"SUBSCRIBED": []byte(text(events.NewSubscribed(*c.id, time.Second, &master.info)))}
	for _, kind := range []scheduler.Event_Type{scheduler.Event_HEARTBEAT, scheduler.Event_OFFERS, scheduler.Event_UPDATE} {
		got[kind.String()] = []byte(text(c.event(t, kind)))
	}
	for line := range strings.Lines(string(recorded)) {
		var head struct{ Type string }
		if err := json.Unmarshal([]byte(line), &head); err != nil {
			t.Fatal(err)
		}
		wantShape(t, head.Type, got[head.Type], []byte(line))
	}
}

func ask(t *testing.T, m *EmbeddedMaster, kind string) []byte {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/api/v1", strings.NewReader(`{"type":"`+kind+`"}`))
	r.Header.Set("Content-Type", asJSON)
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Body)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: got %d %s", kind, w.Code, body)
	}
	return body
}

func TestAnswersLookLikeMesos(t *testing.T) {
	m, c, a := busy(t)
	a.finish(t, m, c)
	c.acknowledge(t, a, "job", make([]byte, 16))
	defer c.disconnect()
	// Empty lists are omitted; Mesos writes some of them.
	for kind, without := range map[string][]string{
		"GET_AGENTS": {
			"get_agents.agents[].agent_info.checkpoint", // mesos-go does not know it
			"get_agents.agents[].agent_info.resources",  // the total says it
			"get_agents.agents[].resource_providers",    // agents tell only the total
			"get_agents.recovered_agents",
		},
		"GET_FRAMEWORKS": {
			"get_frameworks.completed_frameworks", // compared below, for one that is there
		},
		"GET_TASKS": {"get_tasks.tasks", "get_tasks.unreachable_tasks"},
	} {
		recorded, err := os.ReadFile("testdata/" + kind + ".json")
		if err != nil {
			t.Fatal(err)
		}
		wantShape(t, kind, ask(t, m, kind), recorded, without...)
	}
	c.call(t, scheduler.Call_TEARDOWN)
	recorded, _ := os.ReadFile("testdata/GET_FRAMEWORKS.json")
	removed := "get_frameworks.completed_frameworks[]."
	wantShape(t, "GET_FRAMEWORKS", ask(t, m, "GET_FRAMEWORKS"), recorded,
		"get_frameworks.frameworks", removed+"offer_constraints", removed+"framework_info.checkpoint")
}

func TestOperatorAnswers(t *testing.T) {
	m, c, a := busy(t)
	c.offers(t)
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	sender := httpmaster.NewSender(httpcli.New(httpcli.Endpoint(server.URL + "/api/v1")).Send)
	get := func(call *operator.Call) *operator.Response {
		t.Helper()
		answer, err := sender.Send(t.Context(), operatorcalls.NonStreaming(call))
		if err != nil {
			t.Fatalf("%v: %v", call.Type, err)
		}
		defer answer.Close()
		out := new(operator.Response)
		if err := answer.Decode(out); err != nil {
			t.Fatalf("%v: %v", call.Type, err)
		}
		return out
	}
	if !get(operatorcalls.GetHealth()).GetHealth.Healthy {
		t.Error("not healthy")
	}
	if tasks := get(operatorcalls.GetTasks()).GetTasks.Tasks; len(tasks) != 1 || tasks[0].GetState() != mesos.TASK_STAGING {
		t.Errorf("got tasks %v", tasks)
	}
	agent := get(operatorcalls.GetAgents()).GetAgents.Agents[0]
	if scalar(agent.AllocatedResources, "gpus") != 1 || scalar(agent.TotalResources, "gpus") != 2 || *agent.AgentInfo.ID != a.id {
		t.Errorf("agent: %v", agent)
	}
	if got := get(operatorcalls.GetFrameworks()).GetFrameworks.Frameworks[0]; !got.Connected || !got.Active {
		t.Errorf("framework: %v", got)
	}
	answer := post(t, server.URL+"/api/v1", `{"type":"GET_VERSION"}`, "Content-Type", asJSON)
	if answer.StatusCode != http.StatusNotImplemented {
		t.Errorf("GET_VERSION: got %v, want 501", answer.Status)
	}
}

func TestOperatorSetsWeights(t *testing.T) {
	m := New(MasterConfig{})
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	update := func(weights string) int {
		return post(t, server.URL+"/api/v1", `{"type":"UPDATE_WEIGHTS","update_weights":{"weight_infos":[`+weights+`]}}`, "Content-Type", asJSON).StatusCode
	}
	if status := update(`{"role":"lab/x","weight":2.5},{"role":"gold","weight":3}`); status != http.StatusOK {
		t.Errorf("UPDATE_WEIGHTS: got %d, want 200", status)
	}
	for _, invalid := range []string{`{"role":"gold","weight":0}`, `{"role":"gold","weight":-1}`, `{"role":"a b","weight":1}`} {
		if status := update(`{"role":"other","weight":9},` + invalid); status != http.StatusBadRequest {
			t.Errorf("UPDATE_WEIGHTS with %s: got %d, want 400", invalid, status)
		}
	}
	var got []string
	for _, w := range m.describeWeights().WeightInfos {
		got = append(got, fmt.Sprint(w.GetRole(), " ", w.Weight))
	}
	if text := strings.Join(got, ", "); text != "gold 3, lab/x 2.5" {
		t.Errorf("got weights %s", text)
	}
}
