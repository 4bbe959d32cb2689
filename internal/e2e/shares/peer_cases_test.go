package shares

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/internal/local"
	"mesos-gpu/internal/testing/peercases"
	"mesos-gpu/internal/testing/reexec"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/job"
)

// casesPage has the cases of other schedulers. TestReclaimCases of framework/sched/placement makes one plan for each.
const casesPage = "../../../framework/sched/placement/testdata/peer-cases.md"

// peerReclaims are the policies of reclaim, in the order of the columns of the page.
var peerReclaims = []placement.ReclaimPolicy{placement.ReclaimDeserved, placement.ReclaimEntitled}

// TestMain lets the agents of clusters in this process start the test binary as the executor.
func TestMain(m *testing.M) {
	reexec.Main(m, reexec.CommandTable{"executor": reexec.ExecutorCommand(nil)})
}

// TestPeerCasesOnLocal plays the cases that casesPage lists for running clusters, with an embedded master, agents with
// simulated GPUs and real processes, and compares the jobs that end and those that then run with the page. Where the page
// expects the same with both policies of reclaim, only long runs of the tests play both. It is not parallel with the tests
// that measure shares, because the start of clusters takes the processors.
func TestPeerCasesOnLocal(t *testing.T) {
	page := peercases.ReadPage(t, casesPage)
	cases := map[string][]string{}
	for _, row := range page.Rows(t, slices.Concat([]string{"case"}, peercases.Columns, peercases.ResultColumns)...) {
		cases[row.Cells[0]] = row.Cells[1:]
	}
	slots := make(chan struct{}, maxPeerClusters)
	var playing sync.WaitGroup
	defer playing.Wait()
	for _, row := range page.Rows(t, "case", "theirs run", "deserved run", "entitled run", "not played, because") {
		name, why := row.Cells[0], row.Cells[4]
		cells, ok := cases[name]
		if !ok || slices.Contains(row.Cells[1:4], "") != (why != "") {
			t.Errorf("the page has no case %s, or says neither what runs nor why it is not played", name)
			continue
		}
		var outcomes []peerOutcome // theirs, and those of peerReclaims
		for i := range 1 + len(peerReclaims) {
			outcomes = append(outcomes, peerOutcome{ends: cells[len(peercases.Columns)+i], runs: row.Cells[1+i]})
		}
		for i, reclaim := range peerReclaims {
			want, title := outcomes[1+i], fmt.Sprintf("%s, %s", name, reclaim)
			if want.runs == "" {
				t.Run(title, func(t *testing.T) { t.Skip(why) })
				continue
			}
			if want.ends == outcomes[0].ends && want.runs != outcomes[0].runs {
				t.Errorf("%s: the same jobs end as theirs, but others run: %s instead of %s", name, want.runs, outcomes[0].runs)
			}
			if i > 0 && want == outcomes[1] && !isLong() {
				continue
			}
			// Parallel tests are as many as the processors at a time, but clusters mostly wait.
			playing.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				t.Run(title, func(t *testing.T) {
					c := peercases.Parse(t, cells)
					p := startPeerCluster(t, &c, reclaim)
					p.startRunning(&c)
					p.submitWaiting(&c)
					p.awaitOutcome(want)
				})
			})
		}
	}
}

const (
	// maxPeerClusters is the number of clusters at a time.
	maxPeerClusters = 12
	// peerTimeout bounds the wait for a state of a cluster.
	peerTimeout = 90 * time.Second
	// peerSettle is the time for which an outcome must last. Nothing ends in the first 5 s after a job was submitted, because GPUs
	// may be free that are not offered yet.
	peerSettle = 8 * time.Second
)

// peerCluster is a running cluster with the agents and roles of a case.
type peerCluster struct {
	t   *testing.T
	api *client.Client
	// agents has the IDs of the agents, by their number in the case. cordoned are those that get no tasks.
	agents   []string
	cordoned map[int]bool
	// devices has the UUIDs of the shared devices, by agent and device of the case.
	devices map[string]string
	// changed receives a value after events of tasks.
	changed chan struct{}
}

// startPeerCluster runs a cluster until the test ends. It returns when the scheduler knows all GPUs.
func startPeerCluster(t *testing.T, c *peercases.Case, reclaim placement.ReclaimPolicy) *peerCluster {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.ArtifactDir(), "cluster.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	log := logrus.New()
	log.SetOutput(file)
	log.SetLevel(logrus.DebugLevel)
	cfg := local.ClusterConfig{
		WorkDir: t.TempDir(), API: "127.0.0.1:0", Master: "127.0.0.1:0", Agent: "127.0.0.1:0", Binary: binary, Log: log,
		ExecutorEnv: map[string]string{"GORACE": "atexit_sleep_ms=0"},
		Scheduler: framework.SchedulerConfig{Sched: sched.SchedulerSettings{
			Policy: sched.Policy{Policy: placement.Policy{Roles: c.Roles, Reclaim: reclaim}},
		}},
	}
	if c.Shared {
		cfg.Share = "all"
	}
	for i, a := range c.Agents {
		host, err := simulated.NewHost(fmt.Sprintf("%dx%s", a.GPUs, a.Type), fmt.Sprint("agent-", i))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Hosts = append(cfg.Hosts, host)
		cfg.Amounts = append(cfg.Amounts, sched.Amount{CPUs: a.CPUs, MemMiB: a.MemMiB})
	}
	up := make(chan local.ClusterURLs, 1)
	runUntilEnd(t, func(ctx context.Context) error {
		return local.Run(ctx, cfg, func(at local.ClusterURLs) { up <- at })
	})
	var at local.ClusterURLs
	select {
	case at = <-up:
	case <-time.After(peerTimeout):
		t.Fatal("the cluster did not start")
	}
	p := &peerCluster{
		t: t, api: newClient(t, at.API, ""), agents: make([]string, len(c.Agents)), cordoned: map[int]bool{},
		devices: map[string]string{}, changed: make(chan struct{}, 1),
	}
	p.follow()
	p.await("the GPUs of all agents", func() bool {
		known, err := p.api.ListAgents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range known {
			n := slices.Index(at.Agents, strings.TrimSuffix(known[i].URL, "/slave(1)"))
			if n < 0 {
				t.Fatalf("agent %s has the URL %s, the cluster's are %s", known[i].ID, known[i].URL, at.Agents)
			}
			p.agents[n] = known[i].ID
		}
		return !slices.Contains(p.agents, "")
	})
	return p
}

// follow signals p.changed after each event of a task or an agent, until the test ends.
func (p *peerCluster) follow() {
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() {
		for _, err := range p.api.FollowEvents(ctx, "") {
			if err != nil {
				if ctx.Err() == nil {
					p.t.Error(err)
				}
				return
			}
			select {
			case p.changed <- struct{}{}:
			default: // one is due already
			}
		}
	})
	p.t.Cleanup(func() { cancel(); following.Wait() })
}

// await waits until done, which it calls after each event.
func (p *peerCluster) await(what string, done func() bool) {
	p.t.Helper()
	late := time.After(peerTimeout)
	for !done() {
		select {
		case <-p.changed:
		case <-late:
			p.logJobs()
			p.t.Fatalf("%s: not reached after %s", what, peerTimeout)
		}
	}
}

func (p *peerCluster) getJob(name string) *api.JobView {
	p.t.Helper()
	view, err := p.api.GetJob(p.t.Context(), name)
	if err != nil {
		p.t.Fatal(err)
	}
	return &view
}

func (p *peerCluster) submit(spec *job.Spec) {
	p.t.Helper()
	if _, err := p.api.SubmitJob(p.t.Context(), *spec); err != nil {
		p.t.Fatal(err)
	}
}

// startRunning starts the running jobs one after the other, each on its agents: the others are cordoned.
func (p *peerCluster) startRunning(c *peercases.Case) {
	p.t.Helper()
	for _, r := range c.Running {
		p.openAgents(r.Agents)
		p.submit(r.Spec)
		p.await(r.Spec.Name+" runs", func() bool { return p.getJob(r.Spec.Name).State == job.Running })
		p.checkPlaces(&r)
	}
	p.openAgents(nil)
}

// openAgents cordons the agents without these numbers, and uncordons the others; nil stands for all.
func (p *peerCluster) openAgents(numbers []int) {
	p.t.Helper()
	for i, id := range p.agents {
		open := numbers == nil || slices.Contains(numbers, i)
		if open != p.cordoned[i] {
			continue
		}
		var err error
		if open {
			err = p.api.UncordonAgent(p.t.Context(), id)
		} else {
			err = p.api.CordonAgent(p.t.Context(), id, "the case has the next job elsewhere")
		}
		if err != nil {
			p.t.Fatal(err)
		}
		p.cordoned[i] = !open
	}
}

// checkPlaces checks that a job runs on its agents and shares the devices that it has in the case.
func (p *peerCluster) checkPlaces(r *peercases.RunningJob) {
	p.t.Helper()
	tasks := p.getJob(r.Spec.Name).Tasks
	var got []int
	for i := range tasks {
		got = append(got, slices.Index(p.agents, tasks[i].AgentID))
	}
	slices.Sort(got)
	if !slices.Equal(got, r.Agents) {
		p.t.Fatalf("%s runs on the agents %d, want %d", r.Spec.Name, got, r.Agents)
	}
	if r.Device < 0 {
		return
	}
	key, uuid := fmt.Sprintf("%d#%d", r.Agents[0], r.Device), tasks[0].DeviceIDs[0]
	for other, taken := range p.devices {
		if (other == key) != (taken == uuid) {
			p.t.Fatalf("%s runs on device %s, but the device %s of the case is %s", r.Spec.Name, uuid, other, taken)
		}
	}
	p.devices[key] = uuid
}

func (p *peerCluster) submitWaiting(c *peercases.Case) {
	p.t.Helper()
	for _, spec := range c.Waiting {
		p.submit(spec)
	}
}

// peerOutcome is the outcome of a case in the notation of the page: the running jobs that have ended, and the jobs that run
// after they waited or ended.
type peerOutcome struct{ ends, runs string }

func (o peerOutcome) String() string { return fmt.Sprintf("ended: %s; then run: %s", o.ends, o.runs) }

// awaitOutcome waits until the cluster reaches the outcome, and then for peerSettle, in which it must not change.
func (p *peerCluster) awaitOutcome(want peerOutcome) {
	p.t.Helper()
	began, last := time.Now(), ""
	p.await(want.String(), func() bool {
		got := p.readOutcome()
		if got != last {
			p.t.Logf("after %s %s", time.Since(began).Round(100*time.Millisecond), got)
			last = got
		}
		return got == want.String()
	})
	for settled := time.After(peerSettle); ; {
		select {
		case <-p.changed:
			if got := p.readOutcome(); got != want.String() {
				p.logJobs()
				p.t.Fatalf("got %s; and after it %s", want, got)
			}
		case <-settled:
			return
		}
	}
}

// readOutcome returns the present outcome. It appends jobs that are starting or ending, and those that ended more often than
// once or should not have ended.
func (p *peerCluster) readOutcome() string {
	p.t.Helper()
	jobs, err := p.api.ListJobs(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	slices.SortFunc(jobs, func(a, b api.JobView) int { return a.Number - b.Number })
	var ends []int
	var runs, others []string
	for i := range jobs {
		j := &jobs[i]
		number := peercases.ParseNumber(p.t, j.Spec.Name[1:])
		ranBefore := strings.HasPrefix(j.Spec.Name, "r")
		attempt := 0 // of the task that ended most often
		for k := range j.Tasks {
			attempt = max(attempt, j.Tasks[k].Attempt)
		}
		requeued := attempt > 1
		if requeued && ranBefore {
			p.checkPreempted(j.Spec.Name)
			ends = append(ends, number)
		}
		switch {
		case attempt > 2, requeued && !ranBefore:
			others = append(others, fmt.Sprintf("; %s ended %d times", j.Spec.Name, attempt-1))
		case j.State != job.Running && j.State != job.Waiting, j.State != job.Running && ranBefore && !requeued:
			others = append(others, fmt.Sprintf("; %s is %s", j.Spec.Name, j.State))
		}
		if j.State == job.Running && (requeued || !ranBefore) {
			runs = append(runs, j.Spec.Name)
		}
	}
	o := peerOutcome{peercases.FormatNumbers(ends), strings.Join(runs, " ")}
	if len(runs) == 0 {
		o.runs = "none"
	}
	return o.String() + strings.Join(others, "")
}

// checkPreempted checks that all attempts of a job that have ended did so for another job.
func (p *peerCluster) checkPreempted(name string) {
	p.t.Helper()
	for _, a := range p.getJob(name).Attempts {
		if a.KillReason != job.KillByPreemption {
			p.t.Errorf("%s ended as %s: %s %s", a.ID, a.State, a.Reason, a.Message)
		}
	}
}

// logJobs logs the jobs, with the reasons why they wait.
func (p *peerCluster) logJobs() {
	jobs, err := p.api.ListJobs(p.t.Context())
	if err != nil {
		p.t.Error(err)
	}
	for i := range jobs {
		p.t.Logf("%s of %s is %s %s", jobs[i].Spec.Name, jobs[i].Spec.Role, jobs[i].State, jobs[i].WaitReason)
	}
}
