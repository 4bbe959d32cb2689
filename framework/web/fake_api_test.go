package web_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/web"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// fakeAPI is a scheduler's API with the data that a test sets.
type fakeAPI struct {
	agents []api.AgentSummary
	gpus   []api.GPUView
	jobs   []api.JobView
	health api.HealthStatus
	age    string         // Age header of responses, "" for none
	more   map[string]any // other responses by path
	token  string         // the required token, "" for none
	// identity answers whoami; the zero value may do everything.
	identity api.RequesterIdentity
	// reject answers changes with this error, if it is not empty.
	reject string
	hold   chan struct{} // if not nil, blocks all responses except the stream until it is closed
	// usageOverrides modifies the GPU usage of tasks, by task.
	usageOverrides map[string]func(*api.TaskUsage)

	// inventoryChanges, if not nil, has an element for each change of agents or GPUs. lists counts the
	// requests for agents.
	inventoryChanges chan struct{}
	lists            atomic.Int32

	mu      sync.Mutex
	changes []string      // the changes that were requested: method, path and body
	down    bool          // whether to reject all requests
	drop    chan struct{} // closed to end the streams
}

func (f *fakeAPI) serve(t testing.TB) *httptest.Server {
	f.drop = make(chan struct{})
	s := httptest.NewServer(web.NewHandler(f))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// setFailing ends the streams and sets whether to reject all requests.
func (f *fakeAPI) setFailing(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down = down; down {
		close(f.drop)
		f.drop = make(chan struct{})
	}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	down, drop := f.down, f.drop
	f.mu.Unlock()
	switch {
	case down:
		writeProblem(w, http.StatusServiceUnavailable, "the scheduler is starting: ask again")
		return
	case r.URL.Path == "/v1/whoami" && r.Header.Get("Authorization") == "":
		f.writeIdentity(w, false)
		return
	case f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token:
		writeProblem(w, http.StatusUnauthorized, "no token")
		return
	}
	if f.hold != nil && r.URL.Path != "/v1/events" {
		select {
		case <-f.hold:
		case <-r.Context().Done():
			return
		}
	}
	if f.age != "" {
		w.Header().Set("Age", f.age)
	}
	if r.Method != http.MethodGet {
		f.recordChange(w, r)
		return
	}
	switch r.URL.Path {
	case "/v1/events":
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // fails if the page is closed
		f.streamInventory(w, r, drop)
	case "/v1/whoami":
		f.writeIdentity(w, true)
	case "/v1/usage/history":
		writeJSON(w, f.clusterHistory(r.URL.Query().Get("hours")))
	case "/v1/jobs":
		writeJSON(w, api.JobList{Jobs: f.jobs})
	case "/v1/agents":
		f.lists.Add(1)
		f.mu.Lock()
		agents := f.agents
		f.mu.Unlock()
		writeJSON(w, api.AgentList{Agents: agents})
	case "/v1/gpus":
		writeJSON(w, api.GPUList{GPUs: f.gpus})
	case "/healthz":
		writeJSON(w, f.health)
	case "/v1/usage":
		writeJSON(w, f.usage(r.URL.Query()))
	default:
		f.serveOther(w, r)
	}
}

// writeIdentity answers whoami. Without a required token everyone may do everything.
func (f *fakeAPI) writeIdentity(w http.ResponseWriter, hasToken bool) {
	who := f.identity
	if who.Permissions == nil {
		who.Permissions = []api.RolePermission{{Permission: "admin", Roles: []string{"/"}}}
	}
	if who.AccessControl = f.token != ""; !hasToken && who.AccessControl {
		who.User, who.Permissions = "", []api.RolePermission{}
	}
	writeJSON(w, who)
}

// recordChange records a change and accepts it, unless it is to be rejected.
func (f *fakeAPI) recordChange(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.changes = append(f.changes, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
	f.mu.Unlock()
	if f.reject != "" {
		writeProblem(w, http.StatusForbidden, f.reject)
		return
	}
	if answer, ok := f.more[r.Method+" "+r.URL.Path]; ok {
		writeJSON(w, answer)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// takeChanges returns the changes since the last call, without validations.
func (f *fakeAPI) takeChanges() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.DeleteFunc(f.changes, func(c string) bool { return strings.HasPrefix(c, "POST ") && strings.Contains(c, "/validate") })
	f.changes = nil
	return list
}

// streamInventory sends only inventory events, until drop is closed.
func (f *fakeAPI) streamInventory(w http.ResponseWriter, r *http.Request, drop <-chan struct{}) {
	for {
		select {
		case <-f.inventoryChanges:
			_, _ = io.WriteString(w, "event: inventory\ndata: {}\n\n")
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		case <-drop:
			return
		}
	}
}

func (f *fakeAPI) serveOther(w http.ResponseWriter, r *http.Request) {
	for _, address := range []string{r.URL.RequestURI(), r.URL.Path} {
		if body, ok := f.more[address]; ok {
			writeJSON(w, body)
			return
		}
	}
	for i := range f.jobs {
		if r.URL.Path == "/v1/jobs/"+f.jobs[i].Spec.Name {
			writeJSON(w, f.jobs[i])
			return
		}
	}
	writeProblem(w, http.StatusNotFound, "there is nothing at "+r.URL.Path)
}

func writeJSON(w http.ResponseWriter, body any) {
	if text, ok := body.(string); ok { // a log
		_, _ = w.Write([]byte(text))
		return
	}
	_ = json.NewEncoder(w).Encode(body)
}

func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Problem{Status: status, Detail: detail})
}

// newFakeCluster returns a fakeAPI with so many agents of 8 GPUs and so many jobs, every third
// of which waits. It has examples of everything that the page shows.
func newFakeCluster(agents, jobs int) *fakeAPI {
	f := &fakeAPI{
		agents: []api.AgentSummary{}, gpus: []api.GPUView{}, jobs: []api.JobView{},
		health: api.HealthStatus{Connected: true, Role: api.Leader}, more: map[string]any{},
	}
	types := []string{"A100", "V100", "H100"}
	models := map[string]string{"A100": "NVIDIA A100-SXM4-80GB", "V100": "Tesla V100-SXM2-32GB", "H100": "NVIDIA H100 80GB HBM3"}
	for i := range agents {
		kind := types[i%len(types)]
		a := api.AgentSummary{
			ID: fmt.Sprintf("c1d9a6f0-S%d", i), Hostname: fmt.Sprintf("gpu-%03d.example.org", i), URL: "http://10.0.0.1:5051/slave(1)",
			Types: []string{kind}, GPUs: 8, GPUsFree: 8, CPUs: 96, MemMiB: 1 << 20, Driver: "550.54.15", CUDA: "12.4",
		}
		for d := range 8 {
			f.gpus = append(f.gpus, fakeGPU(&a, models[kind], i, d))
		}
		f.agents = append(f.agents, a)
	}
	for i := range jobs {
		f.jobs = append(f.jobs, f.newJob(i))
	}
	return f
}

func fakeGPU(a *api.AgentSummary, model string, i, d int) api.GPUView {
	g := api.GPUView{
		UUID: fmt.Sprintf("GPU-5a1c7d3e-0000-4000-%04d-%012d", i, d), Model: model, Type: a.Types[0], MemMiB: 81920,
		Agent: a.ID, Hostname: a.Hostname, State: api.FreeGPU,
	}
	switch n := 8*i + d; {
	case n%53 == 7:
		g.State, g.Reason, g.Note = api.WithheldGPU, api.ReasonUnhealthy, "GPU is sick: XID 79 (GPU has fallen off the bus); needs a reset"
	case n%61 == 9:
		g.State, g.Reason, g.Note = api.WithheldGPU, api.ReasonCordoned, "GPU is cordoned: new fans"
	case n%97 == 11:
		g.State, g.Reason, g.Note = api.WithheldGPU, api.ReasonNotOffered, "sick, or cordoned there"
	case n%31 == 5:
		g.State = api.HeldGPU // held by another framework
	case n%29 == 4:
		g.Shared = &api.SharedCapacity{MemMiB: 81920, MemFreeMiB: 40960, Cores: 100, CoresFree: 40, LimitedBy: "preload"}
	}
	return g
}

// newJob returns the nth job: one task with two GPUs of the nth agent, or one that waits.
func (f *fakeAPI) newJob(n int) api.JobView {
	name := fmt.Sprintf("train-%03d", n)
	began := time.Now().Add(-time.Duration(n) * time.Minute)
	kind := f.agents[n%len(f.agents)].Types[0]
	j := &job.Job{Submitted: began, Spec: &job.Spec{
		Name: name, Tasks: 1, CPUs: 8, MemMiB: 32768, Role: []string{"research", "prod", ""}[n%3],
		Request: gpu.Request{GPUs: 2, Types: gpu.TypeSelector{Include: []string{kind}}}, Image: "nvcr.io/nvidia/pytorch:24.01-py3",
		Command: []string{"python", "train.py", "--epochs", "90"}, Containerizer: job.Docker,
	}}
	t := job.Task{ID: name + ".0.1.c8dbz5x2q6a5", Job: name, Attempt: 1, State: job.Waiting, Changed: began}
	waits := ""
	if n%3 == 2 {
		waits = "2 free " + kind + " on one agent; 41 agents have the type, 5 have 1 free"
	} else {
		a := &f.agents[n%len(f.agents)]
		first := 8 * (n % len(f.agents))
		t.State, t.Started, t.AgentID, t.Hostname, t.AgentURL = job.Running, began, a.ID, a.Hostname, a.URL
		t.DeviceIDs, t.GPUTypes = []string{f.gpus[first].UUID, f.gpus[first+1].UUID}, map[string]int{kind: 2}
	}
	j.Tasks = []job.Task{t}
	return api.NewJobView(j, waits)
}
