// Package shares checks on running clusters that roles and users receive the part of the GPUs that they are entitled to.
// One description of who competes runs on an embedded master, by mesos-gpu local, on Apache Mesos and in the simulator.
package shares

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	mesosgo "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/resources"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sim/replay"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/local/master"
	"mesos-gpu/job"
)

// shareCase describes who competes for the GPUs of a cluster, and which parts of them the scheduler promises. The same
// description runs on the embedded master, by "mesos-gpu local" with real processes, on Apache Mesos and in the simulator.
type shareCase struct {
	name string
	// quick cases run in every run of the tests, mesos ones on Apache Mesos.
	quick, mesos bool
	// roles is the text of the roles file. halfLife is the scheduler's half-life.
	roles    string
	halfLife time.Duration
	// withoutMesosWeights leaves the weights of roles in Mesos at 1: the master does not permit the scheduler to set them.
	withoutMesosWeights bool
	// settle is the time before the measurement, window that of the measurement. 0 means that of the cluster.
	settle, window time.Duration
	loads          []shareLoad
	// by returns the group of an attempt, want the part of all GPU seconds that each group is entitled to.
	by   func(role, owner string) string
	want map[string]float64
}

// shareLoad is the demand of one user in one role. Its tasks wait until the measurement has ended: demand is stable.
type shareLoad struct {
	role, owner string
	// gpus is the number of GPUs of each task, runs the time for which each runs.
	gpus int
	runs time.Duration
	// after is when the demand begins.
	after time.Duration
}

func byRole(role, _ string) string { return role }

func byOwner(_, owner string) string { return owner }

// maxShareError is the largest accepted difference between a share and the entitlement, as a part of the cluster.
const maxShareError = 0.02

// shareCases returns the promises about shares for a cluster with this number of GPUs.
func shareCases(gpus int) []shareCase {
	backlogOf := func(gpus int, runs time.Duration, roles ...string) (loads []shareLoad) {
		for _, role := range roles {
			loads = append(loads, shareLoad{role: role, gpus: gpus, runs: runs})
		}
		return loads
	}
	backlog := func(roles ...string) []shareLoad { return backlogOf(2, 2*time.Second, roles...) }
	// users returns the loads of users of the role lab with tasks of that many GPUs.
	users := func(runs time.Duration, gpus map[string]int) (loads []shareLoad) {
		for _, owner := range slices.Sorted(maps.Keys(gpus)) {
			loads = append(loads, shareLoad{role: "lab", owner: owner, gpus: gpus[owner], runs: runs})
		}
		return loads
	}
	const long = 12 * time.Second // a return of an offer takes up to a second, in which GPUs are idle
	equal := map[string]float64{"alice": 0.5, "bob": 0.5}
	weighted := map[string]float64{"gold": 0.75, "bronze": 0.25}
	deserved := fmt.Sprintf("prod: {deserved: \"*=%d\"}\nlab: {deserved: \"*=%d\"}\n", gpus*3/4, gpus/4)
	return []shareCase{
		{
			name:  "weights 3 and 1",
			quick: true,
			mesos: true,
			roles: "gold: {weight: 3}\nbronze: {weight: 1}\n",
			loads: backlog("gold", "bronze"),
			by:    byRole,
			want:  weighted,
		},
		{
			name:  "large tasks at the smaller weight",
			roles: "gold: {weight: 3}\nbronze: {weight: 1}\n",
			loads: []shareLoad{{role: "gold", gpus: 1, runs: 2 * time.Second}, {role: "bronze", gpus: 4, runs: 2 * time.Second}},
			by:    byRole,
			want:  weighted,
		},
		{
			name:                "weights that the scheduler may not set in Mesos",
			mesos:               true,
			roles:               "gold: {weight: 3}\nbronze: {weight: 1}\n",
			withoutMesosWeights: true,
			loads:               backlogOf(2, long, "gold", "bronze"),
			by:                  byRole,
			want:                weighted,
		},
		{
			name:   "a tree divides level by level",
			window: time.Minute,
			roles:  "prod: {weight: 3}\nlab: {weight: 2}\nlab/x: {weight: 3}\nlab/y: {weight: 3}\n",
			loads:  backlogOf(1, 4*time.Second, "prod", "lab/x", "lab/y"),
			by:     byRole,
			want:   map[string]float64{"prod": 0.6, "lab/x": 0.2, "lab/y": 0.2},
		},
		{
			name:  "three quarters deserved",
			mesos: true,
			roles: deserved,
			loads: backlogOf(2, 30*time.Second, "prod", "lab"),
			by:    byRole,
			want:  map[string]float64{"prod": 0.75, "lab": 0.25},
		},
		{
			name:   "deserved GPUs are reclaimed",
			mesos:  true,
			settle: 20 * time.Second,
			roles:  deserved,
			loads: []shareLoad{
				{role: "lab", gpus: 1, runs: 10 * time.Minute}, {role: "prod", gpus: 1, runs: 10 * time.Minute, after: 5 * time.Second},
			},
			by:   byRole,
			want: map[string]float64{"prod": 0.75, "lab": 0.25},
		},
		{
			name:     "weights 3 and 1 with a half-life",
			roles:    "gold: {weight: 3}\nbronze: {weight: 1}\n",
			halfLife: time.Minute,
			loads:    backlog("gold", "bronze"),
			by:       byRole,
			want:     weighted,
		},
		{
			name:  "two users of a role",
			quick: true,
			mesos: true,
			roles: "lab: {}\n",
			loads: users(2*time.Second, map[string]int{"alice": 2, "bob": 2}),
			by:    byOwner,
			want:  equal,
		},
		{
			name:  "two users, one with large tasks",
			roles: "lab: {}\n",
			loads: users(4*time.Second, map[string]int{"alice": 1, "bob": 4}),
			by:    byOwner,
			want:  equal,
		},
		{
			name:  "two users, one with three jobs",
			roles: "lab: {}\n",
			loads: append(users(4*time.Second, map[string]int{"alice": 2, "bob": 2}), slices.Repeat(users(4*time.Second, map[string]int{"alice": 2}), 2)...),
			by:    byOwner,
			want:  equal,
		},
		{
			name:  "a user with a limit of a quarter",
			roles: fmt.Sprintf("lab: {user: {gpus: \"*=%d\"}, users: {bob: {gpus: none}}}\n", gpus/4),
			loads: users(4*time.Second, map[string]int{"alice": 2, "bob": 2}),
			by:    byOwner,
			want:  map[string]float64{"alice": 0.25, "bob": 0.75},
		},
		{
			name:  "two users with a half-life",
			roles: "lab: {half_life: 1m}\n",
			loads: users(4*time.Second, map[string]int{"alice": 2, "bob": 2}),
			by:    byOwner,
			want:  equal,
		},
		{
			// Alice has all GPUs for a minute. Bob then has all until both have used as much, where past use decays: for t minutes
			// with 2^t = 1 + 1/2, which is 0.585. Then each has half.
			name:   "a user who comes later catches up with a half-life",
			settle: time.Minute,
			window: time.Minute,
			roles:  "lab: {half_life: 1m}\n",
			loads: []shareLoad{
				{role: "lab", owner: "alice", gpus: 2, runs: 2 * time.Second}, {role: "lab", owner: "bob", gpus: 2, runs: 2 * time.Second, after: time.Minute},
			},
			by:   byOwner,
			want: map[string]float64{"alice": (1 - math.Log2(1.5)) / 2, "bob": (1 + math.Log2(1.5)) / 2},
		},
		{
			name:   "a user who comes later has half without a half-life",
			settle: 20 * time.Second,
			roles:  "lab: {}\n",
			loads: []shareLoad{
				{role: "lab", owner: "alice", gpus: 2, runs: 4 * time.Second},
				{role: "lab", owner: "bob", gpus: 2, runs: 4 * time.Second, after: 10 * time.Second},
			},
			by:   byOwner,
			want: equal,
		},
	}
}

// times returns the times before and of the measurement, which are those of the case or else the given ones.
func (c *shareCase) times(settle, window time.Duration) (time.Duration, time.Duration) {
	return cmp.Or(c.settle, settle), cmp.Or(c.window, window)
}

// jobs returns the jobs of each load, with tasks for all GPUs during the given time, by their arrival.
func (c *shareCase) jobs(gpus int, during time.Duration) (jobs []replay.JobRecord) {
	for i, l := range c.loads {
		for left := gpus / l.gpus * int(during/l.runs+2); left > 0; left -= job.MaxTasks {
			jobs = append(jobs, replay.JobRecord{ArrivesAt: l.after, RunTimes: replay.TaskRunTimes{l.runs}, Spec: job.Spec{
				Name: fmt.Sprintf("load-%d-%d", i, left), Role: l.role, Owner: l.owner,
				Tasks:   min(left, job.MaxTasks),
				Request: gpu.Request{GPUs: l.gpus}, CPUs: 0.1, MemMiB: 32,
				Containerizer: job.Mesos,
				Command:       []string{"sleep", strconv.FormatFloat(l.runs.Seconds(), 'f', -1, 64)},
			}})
		}
	}
	slices.SortStableFunc(jobs, func(a, b replay.JobRecord) int { return cmp.Compare(a.ArrivesAt, b.ArrivesAt) })
	return jobs
}

// shareMeter sums what groups hold between two times.
type shareMeter struct {
	from, until time.Time
	seconds     map[string]float64
}

func (m *shareMeter) add(group string, gpus int, launched, ended time.Time) {
	if launched.Before(m.from) {
		launched = m.from
	}
	if ended.After(m.until) {
		ended = m.until
	}
	m.seconds[group] += float64(gpus) * max(ended.Sub(launched), 0).Seconds()
}

// shares returns the part of each group, and the part of the cluster's GPUs that was held.
func (m *shareMeter) shares(gpus int) (parts map[string]float64, used float64) {
	all := 0.0
	for _, n := range m.seconds {
		all += n
	}
	parts = map[string]float64{}
	for group, n := range m.seconds {
		parts[group] = n / max(all, 1e-9)
	}
	return parts, all / (float64(gpus) * m.until.Sub(m.from).Seconds())
}

// compareShares fails the test where parts differ by more than maxShareError.
func compareShares(t *testing.T, where string, got, want map[string]float64) {
	t.Helper()
	for _, group := range slices.Sorted(maps.Keys(want)) {
		if off := got[group] - want[group]; math.Abs(off) > maxShareError {
			t.Errorf("%s: %s has %.1f %% of the GPU seconds, want %.1f %%", where, group, 100*got[group], 100*want[group])
		}
	}
}

// measureShares submits the loads, each at its time, to a scheduler and returns the parts of the GPU seconds between settle and
// settle + window by its accounting, and the part of the GPUs that was held.
func measureShares(t *testing.T, address string, c *shareCase, gpus int, settle, window time.Duration) (parts map[string]float64, used float64) {
	t.Helper()
	owners := map[string]*client.Client{}
	for _, l := range c.loads {
		if owners[l.owner] == nil {
			owners[l.owner] = newClient(t, address, l.owner)
			if _, err := owners[l.owner].ListRoles(t.Context()); err != nil { // the first use of a token takes seconds on a busy machine
				t.Fatal(err)
			}
		}
	}
	from, jobs := time.Now().Add(settle), c.jobs(gpus, settle+window+30*time.Second)
	for i := range jobs {
		time.Sleep(time.Until(from.Add(jobs[i].ArrivesAt - settle)))
		if _, err := owners[jobs[i].Spec.Owner].SubmitJob(t.Context(), jobs[i].Spec); err != nil {
			t.Fatal(err)
		}
	}
	m := &shareMeter{from: from, until: from.Add(window), seconds: map[string]float64{}}
	time.Sleep(time.Until(m.until))
	for i := range jobs {
		if err := owners[jobs[i].Spec.Owner].KillJob(t.Context(), jobs[i].Spec.Name); err != nil {
			t.Fatal(err)
		}
	}
	scheduler := owners[jobs[0].Spec.Owner]
	for i := range jobs {
		for late := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if v, err := scheduler.GetJob(t.Context(), jobs[i].Spec.Name); err != nil || v.Terminal || time.Now().After(late) {
				break
			}
		}
	}
	time.Sleep(time.Second) // the accounting writes the ends in the background
	for a, err := range scheduler.EachAccountedAttempt(t.Context(), api.AccountingQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if !a.Launched.IsZero() {
			held := 0.0
			for _, n := range a.GPUTypes {
				held += n
			}
			m.add(c.by(a.Role, a.Owner), int(held), a.Launched, a.Ended)
		}
	}
	return m.shares(gpus)
}

// tokens returns the tokens of the users of all cases, and the access file that lets them submit jobs.
var tokens = sync.OnceValues(func() (map[string]string, string) {
	made, file := map[string]string{}, "tokens:\n"
	for _, owner := range []string{"alice", "bob"} {
		token, hash, err := access.NewToken(owner)
		if err != nil {
			panic(err) // the name is valid
		}
		made[owner] = token
		file += fmt.Sprintf("- {name: %s, hash: '%s'}\n", owner, hash)
	}
	return made, file + "permissions:\n- {may: operate, roles: [/], users: [alice, bob]}\njobs:\n- {roles: [/], networks: [host], without_image: true}\n"
})

// newClient returns a client of a scheduler's API, with the token of a user if one is named.
func newClient(t *testing.T, address, owner string) *client.Client {
	t.Helper()
	var options []client.Option
	if owner != "" {
		made, _ := tokens()
		options = append(options, client.WithToken(made[owner]))
	}
	c, err := client.New(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// simulateShares plays the case in the simulator.
func simulateShares(t *testing.T, c *shareCase, agents, gpusEach int, settle, window time.Duration) (parts map[string]float64, used float64) {
	t.Helper()
	roles, err := framework.LoadRoles(writeFile(t, c.roles))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Unix(0, 0)
	m := &shareMeter{from: start.Add(settle), until: start.Add(settle + window), seconds: map[string]float64{}}
	cfg := replay.ReplaySettings{
		Sched:             sched.SchedulerSettings{HalfLife: c.halfLife, Policy: sched.Policy{Policy: placement.Policy{Roles: roles}}},
		EqualMesosWeights: c.withoutMesosWeights,
		TaskEnded: func(spec *job.Spec, started, ended time.Duration) {
			m.add(c.by(spec.Role, spec.Owner), spec.Request.GPUs, start.Add(started), start.Add(ended))
		},
	}
	for i := range agents {
		cfg.Agents = append(cfg.Agents, replay.ReplayAgent{
			ID: fmt.Sprintf("agent-%03d", i), Has: sched.Amount{CPUs: 64, MemMiB: 1 << 18}, GPUs: gpusEach, Model: "V100",
		})
	}
	if _, err := replay.RunReplay(cfg, slices.Values(c.jobs(agents*gpusEach, settle+window))); err != nil {
		t.Fatal(err)
	}
	return m.shares(agents * gpusEach)
}

// timedAgent is an agent of an embedded master whose tasks run for as long as their command, "sleep SECONDS", says, without
// processes.
type timedAgent struct {
	master *master.EmbeddedMaster
	id     mesosgo.AgentID
	mu     sync.Mutex
	// timers end the running tasks, by task id.
	timers map[string]*time.Timer
}

func (a *timedAgent) Run(f mesosgo.FrameworkInfo, e mesosgo.ExecutorInfo, t mesosgo.TaskInfo) {
	a.sendStatus(*f.ID, t.TaskID, mesosgo.TASK_RUNNING)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timers[t.TaskID.Value] = time.AfterFunc(sleepOf(&t), func() { a.endTask(*f.ID, e.ExecutorID, t.TaskID, mesosgo.TASK_FINISHED) })
}

func (a *timedAgent) Kill(f mesosgo.FrameworkID, t mesosgo.TaskID, _ *mesosgo.KillPolicy) {
	a.mu.Lock()
	timer := a.timers[t.Value]
	a.mu.Unlock()
	if timer != nil && timer.Stop() {
		a.endTask(f, mesosgo.ExecutorID(t), t, mesosgo.TASK_KILLED)
	}
}

func (a *timedAgent) endTask(f mesosgo.FrameworkID, e mesosgo.ExecutorID, t mesosgo.TaskID, state mesosgo.TaskState) {
	a.sendStatus(f, t, state)
	a.master.ExecutorExited(a.id, f, e, 0)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.timers, t.Value)
}

func (a *timedAgent) sendStatus(f mesosgo.FrameworkID, t mesosgo.TaskID, state mesosgo.TaskState) {
	id := uuid.New()
	a.master.Status(a.id, f, mesosgo.TaskStatus{TaskID: t, State: &state, Source: mesosgo.SOURCE_EXECUTOR.Enum(), UUID: id[:]})
}

func (*timedAgent) Acknowledge(mesosgo.FrameworkID, mesosgo.TaskID, []byte)  {}
func (*timedAgent) ShutdownExecutor(mesosgo.FrameworkID, mesosgo.ExecutorID) {}
func (*timedAgent) ReconcileTasks(mesosgo.FrameworkInfo, []mesosgo.TaskID)   {}
func (*timedAgent) Message(mesosgo.FrameworkID, mesosgo.ExecutorID, []byte)  {}
func (*timedAgent) ShutdownFramework(mesosgo.FrameworkID)                    {}

// sleepOf returns the time for which a task sleeps.
func sleepOf(t *mesosgo.TaskInfo) time.Duration {
	launch, _, err := job.ParseLaunch(t.Data)
	if err != nil {
		panic(err)
	}
	seconds, err := strconv.ParseFloat(launch.Command[1], 64)
	if err != nil {
		panic(err)
	}
	return time.Duration(seconds * float64(time.Second))
}

// registerTimedAgents registers agents with V100.
func registerTimedAgents(t *testing.T, m *master.EmbeddedMaster, agents, gpus int) {
	t.Helper()
	for i := range agents {
		a := &timedAgent{master: m, timers: map[string]*time.Timer{}}
		var err error
		a.id, err = m.Register(mesosgo.AgentInfo{
			Hostname:   fmt.Sprintf("10.0.%d.%d", i/250, i%250),
			Attributes: []mesosgo.Attribute{{Name: "gpu_type", Type: mesosgo.TEXT, Text: &mesosgo.Value_Text{Value: "V100"}}},
		}, []mesosgo.Resource{
			resources.NewCPUs(64).Resource, resources.NewMemory(1 << 18).Resource, resources.NewGPUs(uint(gpus)).Resource,
			resources.Build().Name(resources.NamePorts).Ranges(resources.BuildRanges().Span(31000, 32000).Ranges).Resource,
		}, nil, a)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// startScheduler starts an embedded master with agents and a scheduler, until the test ends. It returns the address of the
// scheduler's API.
func startScheduler(t *testing.T, c *shareCase, agents, gpus int) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	m := master.New(master.MasterConfig{Addr: server.Listener.Addr().String()})
	if server.Config.Handler = m.Handler(); c.withoutMesosWeights {
		server.Config.Handler = refuseWeights(m.Handler())
	}
	server.Start()
	registerTimedAgents(t, m, agents, gpus)
	t.Cleanup(server.Close)
	runUntilEnd(t, m.Run)
	return runScheduler(t, c, server.URL, "/bin/true")
}

// runScheduler runs a scheduler of the master until the test ends, and returns the address of its API. executor is the path of
// mesos-gpu on the agents.
func runScheduler(t *testing.T, c *shareCase, masterURL, executor string) (address string) {
	t.Helper()
	up := make(chan string, 1)
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	dir := t.TempDir()
	var security framework.APIConfig
	if slices.ContainsFunc(c.loads, func(l shareLoad) bool { return l.owner != "" }) {
		_, file := tokens()
		security.AccessFile = writeFile(t, file)
	}
	s, err := framework.New(framework.SchedulerConfig{
		API:    security,
		Master: masterURL, APIAddr: "127.0.0.1:0", ExecutorPath: executor, Log: quiet,
		RolesFile: writeFile(t, c.roles), Sched: sched.SchedulerSettings{HalfLife: c.halfLife},
		JournalPath: filepath.Join(dir, "journal"), Accounting: filepath.Join(dir, "accounting.db"),
		Ready: func(addr string) { up <- "http://" + addr },
	})
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, s.Run)
	return <-up
}

// runUntilEnd runs a part of a cluster until the test ends.
func runUntilEnd(t *testing.T, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// refuseWeights returns a handler that refuses calls of the type UPDATE_WEIGHTS, and passes others to h.
func refuseWeights(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1" {
			body, err := io.ReadAll(r.Body)
			var call operator.Call
			if err != nil || call.Unmarshal(body) != nil {
				http.Error(w, "not a call", http.StatusBadRequest)
				return
			}
			if call.GetType() == operator.Call_UPDATE_WEIGHTS {
				http.Error(w, "not permitted", http.StatusForbidden)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		h.ServeHTTP(w, r)
	})
}

func isLong() bool { return os.Getenv("MESOS_GPU_TEST_LONG") != "" }

// On a machine that other tests keep busy, tasks may start so late that most GPUs are idle, and no role has a stable demand. A
// measurement in which less than minUse of what the simulator uses was held is repeated, up to maxMeasurements; the last one
// counts.
const (
	maxMeasurements = 3
	minUse          = 0.85
)

// TestSharesHold checks that roles and users with stable demand receive what they are entitled to, on the embedded master
// with agents without processes, and in the simulator.
func TestSharesHold(t *testing.T) {
	t.Parallel()
	const agents, gpusEach = 12, 8
	window := 24 * time.Second
	if isLong() {
		window = time.Minute
	}
	for _, c := range shareCases(agents * gpusEach) {
		if !c.quick && !isLong() {
			continue // they take minutes
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			settle, window := c.times(2*c.loads[0].runs+4*time.Second, window) // the first job has all GPUs until its first tasks end
			later, longer := c.times(settle+10*time.Second, 2*window)
			simulated, simulatedUse := simulateShares(t, &c, agents, gpusEach, later, longer)
			var live map[string]float64
			used := 0.0
			for n := 1; n <= maxMeasurements && used < minUse*simulatedUse; n++ {
				t.Run(fmt.Sprint("measurement ", n), func(t *testing.T) {
					live, used = measureShares(t, startScheduler(t, &c, agents, gpusEach), &c, agents*gpusEach, settle, window)
				})
			}
			t.Logf("live %v, %.0f %% of the GPUs held; simulated %v, %.0f %%", formatShares(live), 100*used, formatShares(simulated), 100*simulatedUse)
			compareShares(t, "live", live, c.want)
			compareShares(t, "simulated", simulated, c.want)
			compareShares(t, "live, of the simulated part", live, simulated)
		})
	}
}

func formatShares(parts map[string]float64) string {
	var list []string
	for _, group := range slices.Sorted(maps.Keys(parts)) {
		list = append(list, fmt.Sprintf("%s %.1f %%", group, 100*parts[group]))
	}
	return strings.Join(list, ", ")
}

// writeFile writes a file of configuration and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSharesHoldOnLocal checks the first case by "mesos-gpu local" with real processes.
func TestSharesHoldOnLocal(t *testing.T) {
	if !isLong() {
		t.Skip("takes a minute: MESOS_GPU_TEST_LONG=1 runs it")
	}
	const agents, gpusEach = 4, 4
	c := shareCases(agents * gpusEach)[0]
	cmd := exec.Command(buildProgram(t), "local", "--free-ports", "--process-user=", "--work-dir", t.TempDir(),
		"--agents", fmt.Sprintf("%dx%dxV100", agents, gpusEach), "--roles", writeFile(t, c.roles))
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		_ = cmd.Wait()                          // the status after SIGTERM is not checked here
	})
	address := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if m := regexp.MustCompile(`API (http://[0-9.:]+)`).FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			}
		}
	}()
	got, used := measureShares(t, <-address, &c, agents*gpusEach, 10*time.Second, 30*time.Second)
	t.Logf("%s, %.0f %% of the GPUs held", formatShares(got), 100*used)
	compareShares(t, "local", got, c.want)
}

// buildProgram builds mesos-gpu and returns its path.
func buildProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mesos-gpu")
	if out, err := exec.Command("go", "build", "-o", path, "mesos-gpu/cmd/mesos-gpu").CombinedOutput(); err != nil {
		t.Fatalf("build mesos-gpu: %v\n%s", err, out)
	}
	return path
}
