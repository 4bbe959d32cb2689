package clustersim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/budget"
)

// World is one simulated cluster. Everything that happens in it follows from its seed.
type World struct {
	seed uint64
	// random is the only source of chance. Events draw from it in the order in which they happen.
	random *rand.Rand
	// now is the virtual time since the start; nothing else has a clock. clockOffset is by how much the scheduler's wall
	// clock is wrong.
	now, clockOffset time.Duration
	// epoch is the wall clock's time at the start.
	epoch time.Time
	queue eventQueue
	// orders counts the events that were added, steps those that happened.
	orders  uint64
	steps   int
	history history
	plan    plan
	// faulty is whether faults still happen. Faults counts them by kind.
	faulty bool
	Faults map[string]int
	// Reclaims counts the tasks that ended for a role that deserved their GPUs.
	Reclaims int
	// AppChanges counts the answered requests to Marathon's API.
	AppChanges int
	// LimitsReached counts how often a user held as much, or ran as many jobs, as a limit permits after a change.
	LimitsReached int
	// BudgetsUsedUp counts the entries of budgets that were used up when a scheduler compared them, by what happens then.
	BudgetsUsedUp map[budget.AtLimit]int
	// Reads counts the answers that readers have checked.
	Reads int
	// failure is the first violation of an invariant; it ends the run.
	failure error

	disk      *disk
	master    *masterNode
	agents    []*agentNode
	scheduler *schedulerNode
	users     *workload
	apps      *appUser // nil without Marathon
	checks    *invariants
	// budgets are the roles' budgets now, and accounting stores what counts for them; nil in a world without.
	budgets    roleBudgets
	accounting *attemptStore
	// readers read what the scheduler answers; nil in a world without.
	readers *readerChecks
}

// plan contains the parameters that vary from seed to seed. Each kind of fault is off in about half of the seeds: some faults hide others.
type plan struct {
	agents    int
	faultTime time.Duration
	tick      time.Duration
	allocate  time.Duration
	slowest   time.Duration // of a message
	jobs      int
	gangs     bool
	shares    bool
	// mig is whether every second agent offers a GPU as MIG instances, whose layout changes while they are idle.
	mig      bool
	services bool
	preempt  bool
	quota    int // of GPUs; 0 for none
	// marathon is whether a user deploys an app by Marathon's API.
	marathon bool
	// standbys is whether several schedulers share the journal. pauses is how often the leading one is stopped for a while.
	standbys bool
	pauses   int
	// executors is whether tasks have the real executor. executorKills and executorCuts are how often one is killed, or cut
	// off from its agent.
	executors                   bool
	executorKills, executorCuts int
	// lends is whether there is a second role, guests. batch and guests are then the parts of the GPUs, in percent, that
	// the roles deserve.
	lends         bool
	batch, guests int
	// limitsUsers is whether the roles limit users, budgets whether they have budgets, and readers whether jobs have secrets and
	// users without the right read what the scheduler answers. With any of them jobs have owners, and there is a role below the
	// default one.
	limitsUsers, budgets, readers bool

	killAtCommit, killAtPost, killAtTurn float64
	clockJumps                           bool
	breakSession, loseCall, loseAnswer   float64
	breakAgent                           float64
	// lateLaunch is how often a launch arrives although its connection broke.
	// pingTimeout is after how long the master gives up an agent's connection, and again until the agent is unreachable.
	lateLaunch  float64
	pingTimeout time.Duration
	// agentCuts is how often agents are cut off for about as long as their master waits for them.
	agentCuts                   int
	rescind                     float64
	masterFailovers, partitions int
	agentRestarts, agentWipes   int
	// loseUpdate is how often an executor's call or its answer is lost, breakExecutor how often its connection breaks.
	loseUpdate, breakExecutor float64
}

func newPlan(seed uint64, r *rand.Rand) plan {
	on := func() bool { return r.IntN(2) == 0 }
	rate := func(most float64) float64 {
		if on() {
			return 0
		}
		return most * r.Float64()
	}
	count := func(most int) int {
		if on() {
			return 0
		}
		return 1 + r.IntN(most)
	}
	p := plan{
		agents: 2 + r.IntN(4), faultTime: time.Duration(3+r.IntN(8)) * time.Minute, tick: time.Duration(1+r.IntN(3)) * time.Second,
		allocate: time.Duration(1+r.IntN(4)) * time.Second, slowest: time.Duration(1+r.IntN(400)) * time.Millisecond,
		jobs: 3 + r.IntN(8), gangs: on(), shares: on(), services: on(), preempt: on(),
		killAtCommit: rate(0.06), killAtPost: rate(0.02), killAtTurn: rate(0.01), clockJumps: on(),
		breakSession: rate(0.01), loseCall: rate(0.05), loseAnswer: rate(0.05), breakAgent: rate(0.02), rescind: rate(0.1),
		masterFailovers: count(3), partitions: count(4), agentRestarts: count(4), agentWipes: count(2),
	}
	if on() {
		p.quota = 2 + r.IntN(6)
	}
	if seed%4 == 1 { // not drawn from r, which decides everything else
		p.lends, p.batch = true, int(seed/4%5)*25
		p.guests = (100 - p.batch) * int(seed/20%3) / 2
	}
	p.mig, p.marathon = seed%8 == 5, seed%8 == 2
	switch seed % 16 {
	case 2, 4, 5, 8, 9, 15: // not seeds of regressions
		p.limitsUsers = true
	}
	switch seed % 10 {
	case 0, 5, 8, 9: // not seeds of regressions
		p.budgets, p.readers = seed%10 != 9, true
		p.limitsUsers = p.limitsUsers || seed%3 == 0
		if seed%10 == 5 || p.marathon { // roles take back from each other what they deserve, and name each other
			p.lends, p.batch, p.guests = true, 50, 50
		}
	}
	if seed%8 == 4 || seed%16 == 10 {
		p.standbys, p.pauses = true, 1+r.IntN(5)
	}
	p.pingTimeout = heartbeatTimeout
	if seed%2 == 1 {
		p.lateLaunch, p.pingTimeout, p.agentCuts = float64(1+seed/2%4)/4, 6*time.Second, 4+int(seed/8%8)
	}
	switch seed % 16 {
	case 3, 6, 8, 15: // not seeds of regressions
		p.executors = true
		p.executorKills, p.executorCuts = count(6), count(6)
		p.loseUpdate, p.breakExecutor = rate(0.1), rate(0.05)
	}
	return p
}

// NewWorld returns the cluster of a seed, before its first event.
func NewWorld(seed uint64) *World {
	w := &World{seed: seed, random: rand.New(rand.NewPCG(seed, 0x6d65736f73)), faulty: true, Faults: map[string]int{}, epoch: start}
	w.BudgetsUsedUp = map[budget.AtLimit]int{}
	w.plan = newPlan(seed, w.random)
	w.disk = &disk{world: w}
	if w.plan.standbys {
		w.disk.standby = readmodel.New(journal.JournalContents{})
	}
	if w.plan.budgets {
		w.budgets, w.accounting = drawBudgets(w), &attemptStore{ends: map[string]sched.AttemptEnd{}}
	}
	w.checks = newInvariants(w)
	w.master = newMaster(w)
	for i := range w.plan.agents {
		w.agents = append(w.agents, newAgent(w, i))
	}
	w.scheduler = newScheduler(w)
	w.users = newWorkload(w)
	if w.plan.marathon {
		w.apps = newAppUser(w)
	}
	if w.plan.readers {
		w.readers = newReaderChecks(w)
	}
	return w
}

// convergeWithin bounds the virtual time in which a cluster converges after the last fault: longer than the waits that
// follow each other after a fault, of which the longest are those for an unreachable agent and between repeated calls.
const convergeWithin = 90 * time.Minute

// Run runs the cluster until it has converged after its last fault. It returns the first violation of an invariant.
func (w *World) Run() error {
	w.master.elect()
	for _, a := range w.agents {
		a.start()
	}
	w.scheduler.start()
	w.users.schedule()
	if w.apps != nil {
		w.apps.schedule()
	}
	w.scheduleFaults()
	w.scheduleAgentCuts()
	w.after(w.plan.faultTime, "heal", w.heal)
	for w.failure == nil && !w.checks.converged && len(w.queue) > 0 {
		w.step()
	}
	if w.failure == nil {
		w.checks.checkEnd()
	}
	return w.failure
}

func (w *World) step() {
	e := w.queue.pop()
	w.now = e.at
	w.steps++
	w.note("event", e.what, "", 0)
	e.act()
}

// after makes act happen after a time.
func (w *World) after(d time.Duration, what string, act func()) {
	w.orders++
	w.queue.push(event{at: w.now + d, order: w.orders, what: what, act: act})
}

// scheduleFaults chooses when nodes fail. Faults of single messages and writes are drawn where they happen.
func (w *World) scheduleFaults() {
	at := func(count int, what string, act func()) {
		for range count {
			w.after(w.between(5*time.Second, w.plan.faultTime-time.Second), what, act)
		}
	}
	at(w.plan.masterFailovers, "fail master", func() { w.fault("master failover"); w.master.failOver() })
	at(w.plan.agentRestarts, "restart agent", func() { w.fault("agent restarted"); w.anyAgent().restart() })
	at(w.plan.agentWipes, "wipe agent", func() { w.fault("agent wiped"); w.anyAgent().wipe() })
	at(w.plan.pauses, "pause scheduler", func() {
		w.fault("scheduler paused")
		w.scheduler.pause(w.between(time.Second, 40*time.Second))
	})
	at(w.plan.executorKills, "kill executor", func() {
		if x := w.anyExecutor(); x != nil {
			w.fault("executor killed")
			x.die()
		}
	})
	at(w.plan.executorCuts, "cut executor", func() {
		if x := w.anyExecutor(); x != nil {
			w.fault("executor cut off from its agent")
			x.cutFromAgent(w.between(100*time.Millisecond, 2*time.Minute))
		}
	})
	at(w.plan.partitions, "partition", func() {
		length := w.between(time.Second, 4*time.Minute)
		w.fault("partition")
		if w.random.IntN(3) == 0 {
			w.scheduler.cutNetwork(length)
		} else {
			w.anyAgent().cutNetwork(length)
		}
	})
}

// scheduleAgentCuts cuts agents off for about as long as their master waits before they are unreachable.
func (w *World) scheduleAgentCuts() {
	for range w.plan.agentCuts {
		w.after(w.between(5*time.Second, w.plan.faultTime-time.Second), "cut agent off", func() {
			w.fault("agent cut off")
			w.anyAgent().cutNetwork(w.between(time.Second, 4*w.plan.pingTimeout))
		})
	}
}

// heal ends all faults.
func (w *World) heal() {
	w.faulty = false
	w.scheduler.healNetwork()
	for _, a := range w.agents {
		a.healNetwork()
	}
	w.users.endAll()
	w.checks.awaitConvergence(w.now + convergeWithin)
}

func (w *World) anyAgent() *agentNode { return w.agents[w.random.IntN(len(w.agents))] }

// between returns a random time.
func (w *World) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.random.Int64N(int64(max(most-least, 1))))
}

// delay returns how long a message takes.
func (w *World) delay() time.Duration {
	if w.random.IntN(8) == 0 {
		return w.between(time.Millisecond, w.plan.slowest+time.Millisecond)
	}
	return w.between(100*time.Microsecond, 2*time.Millisecond)
}

// chance reports whether a fault happens that has the given probability, and counts it.
func (w *World) chance(p float64, what string) bool {
	if !w.faulty || p == 0 || w.random.Float64() >= p {
		return false
	}
	w.fault(what)
	return true
}

func (w *World) fault(what string) {
	w.Faults[what]++
	w.note("fault", what, "", 0)
}

// start is the wall clock's time at the start of most worlds.
var start = time.Unix(1_800_000_000, 0).UTC()

// monotonic is the time of clocks that do not jump.
func (w *World) monotonic() time.Time { return w.epoch.Add(w.now) }

// failf records a violation of an invariant.
func (w *World) failf(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf("seed %d, step %d, %s: %s", w.seed, w.steps, w.now, fmt.Sprintf(format, args...))
	}
}

// note adds a line to the history.
func (w *World) note(what, a, b string, n int) { w.history.add(entry{w.now, what, a, b, n}) }

// VirtualTime returns the simulated time, Steps the number of events so far.
func (w *World) VirtualTime() time.Duration { return w.now }
func (w *World) Steps() int                 { return w.steps }

// Digest identifies the history: equal histories have equal digests.
func (w *World) Digest() uint64 { return w.history.digest }

// LastEvents returns the last n lines of the history.
func (w *World) LastEvents(n int) string { return w.history.last(n) }

// event is something that happens at a time. order decides between events of the same time.
type event struct {
	at    time.Duration
	order uint64
	what  string
	act   func()
}

// eventQueue is a binary heap of events, the earliest first.
type eventQueue []event

func (e *event) isBefore(o *event) bool { return e.at < o.at || e.at == o.at && e.order < o.order }

func (q *eventQueue) push(e event) {
	*q = append(*q, e)
	all := *q
	i := len(all) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.isBefore(&all[parent]) {
			break
		}
		all[i] = all[parent]
		i = parent
	}
	all[i] = e
}

func (q *eventQueue) pop() event {
	all := *q
	first, last := all[0], all[len(all)-1]
	all[len(all)-1] = event{}
	all = all[:len(all)-1]
	*q = all
	if len(all) == 0 {
		return first
	}
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(all) && all[child+1].isBefore(&all[child]) {
			child++
		}
		if child >= len(all) || !all[child].isBefore(&last) {
			break
		}
		all[i] = all[child]
		i = child
	}
	all[i] = last
	return first
}

// history has the last lines of what happened, and a digest of all of them.
type history struct {
	lines  []entry // a ring of historyLines
	count  int
	digest uint64
}

// historyLines is how many lines a history keeps.
const historyLines = 512

type entry struct {
	at         time.Duration
	what, a, b string
	n          int
}

func (h *history) add(e entry) {
	if h.lines == nil {
		h.lines = make([]entry, historyLines)
	}
	h.lines[h.count%historyLines] = e
	h.count++
	mix := func(x uint64) { h.digest = (h.digest ^ x) * 1099511628211 }
	mix(uint64(e.at))
	mix(uint64(e.n))
	for _, text := range [...]string{e.what, e.a, e.b} {
		for i := range len(text) {
			mix(uint64(text[i]))
		}
	}
}

func (h *history) last(n int) string {
	var b strings.Builder
	for i := max(0, h.count-min(n, historyLines)); i < h.count; i++ {
		e := h.lines[i%historyLines]
		fmt.Fprintf(&b, "%14s  %s %s %s", e.at, e.what, e.a, e.b)
		if e.n != 0 {
			fmt.Fprintf(&b, " %d", e.n)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
