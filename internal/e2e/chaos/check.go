package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"mesos-gpu/job"
)

// Violation is a promise that a history breaks.
type Violation struct {
	// Rule is the broken rule: device, repeated, record, instances, target, gang, end, count or
	// deployment.
	Rule string
	// At is when it was broken, as Event.At.
	At     float64
	Detail string
}

// Limits are the times that the scheduler has, in seconds.
type Limits struct {
	// Window is how late something may begin while no fault delays it. Seconds in which the machine is slow do not count.
	Window float64
	// Recovery is how long a fault may delay something after it was healed.
	Recovery float64
	// Grace is how long a task may run that its job's record calls ended, and how long more
	// instances may run than wanted, while no fault delays their ends.
	Grace float64
}

// clockResolution is the resolution of /proc/uptime, in seconds.
const clockResolution = 0.01

// checker has a history as attempts, faults and accepted work.
type checker struct {
	limits   Limits
	attempts []*attempt // by their first line
	faults   []fault
	slow     []Event // by time
	events   []Event
	// bootWall is the wall clock when Event.At was 0, in seconds since 1970.
	bootWall   float64
	violations []Violation
}

// Check returns the violations of these rules, ordered by time:
//
//   - device: a device of an agent has at most one holder at any time.
//   - repeated: a task id begins at most once, an attempt of a batch job's task has one task id,
//     and a due time of a schedule has at most one job.
//   - record: a task does not run, nor begin, after its job's record calls it ended, but for the
//     grace period.
//   - instances: at any time at most one attempt of each task of a batch job runs, and not more
//     instances of a service than wanted, but for the grace period.
//   - target: for each due time of a schedule, a run is submitted within the window, and begins later: it may wait for GPUs.
//     A run for a later due time counts, because the scheduler runs only the last of several missed times.
//     No run begins before its due time, or after the schedule has ended.
//   - gang: a finished gang has one try in which all its tasks began and ended. In a try that no fault delays and in which no
//     task fails, either all tasks begin within the window or none.
//   - end: each accepted job has ended, and each task of a finished job has an end of its own.
//   - count: each service has as many live tasks as expected.
//   - deployment: each deployment has ended.
func Check(events []Event, limits Limits) []Violation {
	c := &checker{limits: limits, events: sortByTime(events)}
	c.collectFaults()
	c.collectAttempts()
	c.checkDevices()
	c.checkRecordedEnds()
	c.checkInstances()
	c.checkSchedules()
	c.checkJobs()
	c.checkCounts()
	slices.SortStableFunc(c.violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return c.violations
}

func (c *checker) report(rule string, at float64, format string, args ...any) {
	c.violations = append(c.violations, Violation{rule, at, fmt.Sprintf(format, args...)})
}

func (c *checker) collectFaults() {
	open := map[string]int{}
	for _, e := range c.events {
		switch e.Kind {
		case RunStarted:
			c.bootWall = e.Wall - e.At
		case FaultStarted:
			open[e.Job] = len(c.faults)
			c.faults = append(c.faults, fault{e.Job, e.Detail, e.At, math.Inf(1)})
		case MachineSlow:
			c.slow = append(c.slow, e)
		case FaultEnded:
			if i, found := open[e.Job]; found {
				c.faults[i].to = e.At
			}
		}
	}
}

// collectAttempts joins the lines of each task and reports tasks that began twice.
func (c *checker) collectAttempts() {
	byTask := map[string]*attempt{}
	for _, e := range c.events {
		a := byTask[e.Task]
		switch e.Kind {
		case TaskBegan:
			if a != nil {
				c.report("repeated", e.At, "task %s began on %s at %.2f and again on %s", e.Task, a.agent, a.began, e.Agent)
			}
			a = &attempt{
				job:     e.Job,
				task:    e.Task,
				agent:   e.Agent,
				index:   e.Index,
				number:  attemptNumber(e.Task),
				devices: listDevices(e.Devices),
				began:   e.At,
				last:    e.At,
			}
			byTask[e.Task] = a
			c.attempts = append(c.attempts, a)
		case TaskAlive, TaskEnded, TaskKilled:
			if a == nil {
				c.report("repeated", e.At, "task %s has a line %q without a begin", e.Task, e.Kind)
				continue
			}
			a.last, a.completed = e.At, e.Kind == TaskEnded
		}
	}
}

func (c *checker) checkDevices() {
	holders := map[string]*attempt{} // by agent and device: the attempt that ends last
	for _, a := range c.attempts {
		for _, device := range a.devices {
			key := a.agent + " " + device
			if before := holders[key]; before != nil && a.began < before.last-clockResolution {
				c.report("device", a.began, "device %s: %s began at %.2f, and %s holds it until %.2f", key, a.task, a.began, before.task, before.last)
			}
			if before := holders[key]; before == nil || a.last > before.last {
				holders[key] = a
			}
		}
	}
}

// checkRecordedEnds reports tasks that run after their job's record calls them ended.
func (c *checker) checkRecordedEnds() {
	for _, e := range c.events {
		if e.Kind != EndRecorded {
			continue
		}
		deadline := c.deadlineAfter(e.At, c.limits.Grace)
		for _, a := range c.attempts {
			if a.task == e.Task && a.last > deadline+clockResolution {
				c.report("record", deadline, "task %s is %s in its job's record since %.2f, and runs on %s from %.2f to %.2f",
					a.task, e.State, e.At, a.agent, a.began, a.last)
			}
		}
	}
}

// checkInstances reports too many attempts of tasks of batch jobs, and too many instances of
// services.
func (c *checker) checkInstances() {
	limits := map[string][]instanceChange{} // of services
	for _, e := range c.events {
		switch e.Kind {
		case JobAccepted:
			for index := range e.Tasks {
				c.checkExcess(fmt.Sprintf("task %d of job %s", index, e.Job), []instanceChange{{limit: 1}},
					func(a *attempt) bool { return a.job == e.Job && a.index == index })
			}
		case CountLimited:
			limits[e.Job] = append(limits[e.Job], instanceChange{at: e.At, limit: e.Tasks})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		c.checkExcess("service "+name, limits[name], func(a *attempt) bool { return isJobNamed(a.job, name) })
	}
}

// instanceChange is a change of a number of instances by live, or of their limit if that is
// not 0.
type instanceChange struct {
	at          float64
	live, limit int
	task        string
}

// checkExcess reports times when more attempts run than the limit, longer than the grace
// period. There is no limit before the first of limits.
func (c *checker) checkExcess(what string, limits []instanceChange, belongs func(*attempt) bool) {
	changes := limits
	for _, a := range c.attempts {
		if belongs(a) {
			end := max(a.began, a.last-clockResolution)
			changes = append(changes, instanceChange{at: a.began, live: 1, task: a.task}, instanceChange{at: end, live: -1, task: a.task})
		}
	}
	slices.SortStableFunc(changes, func(a, b instanceChange) int { return cmp.Compare(a.at, b.at) })
	limit, since := math.MaxInt, math.Inf(1)
	live := map[string]bool{}
	for _, change := range changes {
		switch {
		case change.limit > 0:
			limit = change.limit
		case change.live > 0:
			live[change.task] = true
		default:
			if deadline := c.deadlineAfter(since, c.limits.Grace); len(live) > limit && change.at > deadline {
				c.report("instances", deadline, "%s has %d running tasks since %.2f, want at most %d: %s",
					what, len(live), since, limit, strings.Join(slices.Sorted(maps.Keys(live)), " "))
				since = math.Inf(1) // reported
			}
			delete(live, change.task)
		}
		if len(live) <= limit {
			since = math.Inf(1)
		} else if math.IsInf(since, 1) && change.live >= 0 {
			since = change.at
		}
	}
}

// isJobNamed reports whether a job has the name, or begins with it if that ends in a dot.
func isJobNamed(jobName, name string) bool {
	return jobName == name || strings.HasSuffix(name, ".") && strings.HasPrefix(jobName, name)
}

// deadlineAfter returns when something that is due at at must have happened, if it may take
// window. Each fault that begins before the deadline and whose effects reach past at moves the
// deadline.
func (c *checker) deadlineAfter(at, window float64) float64 {
	deadline := at + window
	for moved := true; moved; {
		moved = false
		for _, f := range c.faults {
			if later := f.to + c.limits.Recovery + window; f.from < deadline && f.to+c.limits.Recovery > at && later > deadline {
				deadline, moved = later, true
			}
		}
	}
	return deadline
}

// windowAfter returns when something that is due at at must have begun, and whether no fault delays it.
func (c *checker) windowAfter(at float64) (deadline float64, calm bool) {
	deadline = c.deadlineAfter(at, c.limits.Window)
	calm = deadline == at+c.limits.Window
	for _, e := range c.slow {
		if from := max(at, e.At-e.Seconds); from < deadline && e.At > at {
			deadline += e.At - from
		}
	}
	return deadline, calm
}

// scheduledJob is a job of a schedule, whose first task began at began.
type scheduledJob struct {
	name                  string
	due, submitted, began float64
}

// listScheduledJobs returns the jobs of a schedule, by the first begin of each.
func (c *checker) listScheduledJobs(schedule string) (runs []scheduledJob) {
	for _, a := range c.attempts {
		name, found := strings.CutPrefix(a.job, schedule+"-")
		if !found || slices.ContainsFunc(runs, func(r scheduledJob) bool { return r.name == a.job }) {
			continue
		}
		due, err := time.Parse("20060102-1504", name[:min(len(name), len("20060102-1504"))])
		if err != nil {
			c.report("target", a.began, "job %s of schedule %s has no due time in its name", a.job, schedule)
			continue
		}
		runs = append(runs, scheduledJob{a.job, float64(due.Unix()) - c.bootWall, c.submissionOf(a), a.began})
	}
	return runs
}

// submissionOf returns when the job of an attempt was submitted, by the task's id.
func (c *checker) submissionOf(a *attempt) float64 {
	wall, ok := job.ParseSubmission(a.task)
	if submitted := float64(wall.UnixNano())/1e9 - c.bootWall; ok && submitted > 0 {
		return submitted
	}
	return a.began
}

func (c *checker) checkSchedules() {
	for _, e := range c.events {
		if e.Kind != ScheduleAccepted {
			continue
		}
		ended := math.Inf(1)
		if i := slices.IndexFunc(c.events, func(o Event) bool { return o.Kind == ScheduleEnded && o.Job == e.Job }); i >= 0 {
			ended = c.events[i].At
		}
		c.checkTargets(e.Job, e.At, ended)
	}
}

func (c *checker) checkTargets(schedule string, created, ended float64) {
	const minute = 60
	runs := c.listScheduledJobs(schedule)
	byDue := map[float64]string{}
	for _, r := range runs {
		if other := byDue[r.due]; other != "" {
			c.report("repeated", r.began, "%s and %s are jobs for one due time", other, r.name)
		}
		byDue[r.due] = r.name
		if r.began < r.due-clockResolution || r.due > ended || r.due < created-minute {
			c.report("target", r.began, "%s began at %.2f and was due at %.2f; the schedule exists from %.2f to %.2f", r.name, r.began, r.due, created, ended)
		}
	}
	last := c.events[len(c.events)-1].At
	first := math.Ceil((created+c.bootWall)/minute)*minute - c.bootWall
	for target := first; target < ended; target += minute {
		deadline, _ := c.windowAfter(target)
		if deadline > min(last, ended) {
			break // the run may still come, or the schedule may have ended before it
		}
		if !slices.ContainsFunc(runs, func(r scheduledJob) bool { return r.due >= target-1 && r.submitted <= deadline }) {
			c.report("target", deadline, "schedule %s was due at %.2f, and no run that was submitted until %.2f has begun", schedule, target, deadline)
		}
	}
}

// checkJobs checks gangs and the ends of jobs.
func (c *checker) checkJobs() {
	states := map[string]string{}
	for _, e := range c.events {
		switch e.Kind {
		case JobState:
			states[e.Job] = e.State
		case DeploymentActive:
			c.report("deployment", e.At, "deployment %s has not ended: %s", e.Job, e.Detail)
		}
	}
	for _, e := range c.events {
		if e.Kind != JobAccepted {
			continue
		}
		state := job.State(states[e.Job])
		if state == "" || state.IsLive() {
			c.report("end", e.At, "job %s was accepted and is %q at the end", e.Job, state)
		}
		c.checkAttempts(e.Job)
		if e.Gang {
			c.checkGang(e, state == job.Finished)
		} else if state == job.Finished {
			for index := range e.Tasks {
				if !slices.ContainsFunc(c.attempts, func(a *attempt) bool { return a.job == e.Job && a.index == index && a.completed }) {
					c.report("end", e.At, "job %s is FINISHED, and its task %d has recorded no end", e.Job, index)
				}
			}
		}
	}
}

// checkAttempts reports attempts of a job's tasks that were launched with two task ids.
func (c *checker) checkAttempts(name string) {
	seen := map[[2]int]string{} // by index and attempt
	for _, a := range c.attempts {
		if a.job != name {
			continue
		}
		key := [2]int{a.index, a.number}
		if other := seen[key]; other != "" {
			c.report("repeated", a.began, "%s and %s are the same attempt", other, a.task)
		}
		seen[key] = a.task
	}
}

func (c *checker) checkGang(e Event, finished bool) {
	tries := map[int][]*attempt{}
	for _, a := range c.attempts {
		if a.job == e.Job {
			tries[a.number] = append(tries[a.number], a)
		}
	}
	whole := false
	for _, n := range slices.Sorted(maps.Keys(tries)) {
		try := tries[n]
		ends := 0
		for _, a := range try {
			if a.completed {
				ends++
			}
		}
		whole = whole || len(try) == e.Tasks && ends == e.Tasks
		began := try[0].began
		deadline, calm := c.windowAfter(began)
		begun := len(slices.DeleteFunc(slices.Clone(try), func(a *attempt) bool { return a.began > deadline }))
		if calm && begun != e.Tasks && !c.hasFailed(e.Job, n) {
			c.report("gang", began, "attempt %d of gang %s: %d of %d tasks began until %.2f, without a fault", n, e.Job, begun, e.Tasks, deadline)
		}
	}
	if finished && !whole {
		c.report("gang", e.At, "gang %s is FINISHED, and in no attempt all of its %d tasks ended", e.Job, e.Tasks)
	}
}

// hasFailed reports whether a task of a job failed in a try by itself: then the others of its gang end with it.
func (c *checker) hasFailed(name string, try int) bool {
	return slices.ContainsFunc(c.events, func(e Event) bool { return e.Job == name && e.isFailure() && attemptNumber(e.Task) == try })
}

func (c *checker) checkCounts() {
	for _, e := range c.events {
		if e.Kind != CountExpected {
			continue
		}
		var live []string
		for _, a := range c.attempts {
			if isJobNamed(a.job, e.Job) && a.began <= e.At && e.At <= a.last {
				live = append(live, a.task)
			}
		}
		if len(live) != e.Tasks {
			c.report("count", e.At, "service %s has %d live tasks, want %d: %s", e.Job, len(live), e.Tasks, strings.Join(live, " "))
		}
	}
}
