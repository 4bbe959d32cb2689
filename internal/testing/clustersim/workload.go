package clustersim

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// workload are the users: what they submit and request, and how their tasks end.
type workload struct {
	world *World
	jobs  map[string]*userJob
	names []string
	// limits of the users; nil in a world without.
	limits userLimits
}

// jobNames begins the names of the users' jobs.
const jobNames = "job-"

// userJob is a job and what its user has been answered.
type userJob struct {
	spec job.Spec
	// accepted is whether the submission succeeded, killed whether its kill did; both may be true before the user knows.
	accepted, killed, killSent bool
	// held is whether a hold of the job was answered and its release was not requested yet.
	held, releaseSent bool
	// priority is the priority of an answered edit, or nil.
	priority *int
	// tasks is the number of tasks that the user wants: scaling changes it.
	tasks int
	// flaky is the percentage of attempts that fail.
	flaky int
}

// outcome is how an attempt ends by itself: in a state, after a time. A length of 0 means never.
type outcome struct {
	length time.Duration
	state  mesos.TaskState
}

func newWorkload(w *World) *workload {
	u := &workload{world: w, jobs: map[string]*userJob{}}
	r := newUserRandom(w.seed)
	for i := range w.plan.jobs {
		j := u.newJob(i)
		if w.plan.hasOwners() {
			drawOwner(r, &j.spec)
		}
		if w.plan.readers {
			addSecrets(&j.spec)
		}
		if err := j.spec.Complete(); err != nil {
			w.failf("job %s: %v", j.spec.Name, err)
		}
		j.tasks = j.spec.Tasks
		u.jobs[j.spec.Name] = j
		u.names = append(u.names, j.spec.Name)
	}
	if w.plan.limitsUsers {
		u.drawUserLimits(r)
	}
	return u
}

// newJob chooses a job that the cluster can run.
func (load *workload) newJob(number int) *userJob {
	w, r := load.world, load.world.random
	widest, whole, shared := 0, 0, 0
	for _, a := range w.agents {
		n := a.countGPUs()
		widest, whole = max(widest, n), whole+n
		if a.sharesDevice() {
			shared++
		}
	}
	most := whole
	if w.plan.quota > 0 {
		most, widest = min(most, w.plan.quota), min(widest, w.plan.quota)
	}
	j := &userJob{flaky: []int{0, 0, 20, 50}[r.IntN(4)]}
	s := &j.spec
	s.Name, s.Role, s.Command = jobNames+strconv.Itoa(number), role, []string{"true"}
	s.ClientKey = &job.ClientKey{Key: s.Name, Digest: "d"}
	if w.plan.lends && number%2 == 1 {
		s.Role = guestRole
	}
	s.Tasks, s.CPUs, s.MemMiB = 1+r.IntN(4), 0.5, 128
	s.KillGrace = time.Duration(1+r.IntN(10)) * time.Second
	switch {
	case w.plan.services && r.IntN(3) == 0:
		s.Service = &job.Service{}
		s.CPUs = 0.1
		return j
	case w.plan.gangs && most > 1 && r.IntN(3) == 0:
		s.Gang, s.Request.GPUs = true, 1
		s.Tasks = 2 + r.IntN(most-1)
	case shared > 0 && r.IntN(3) == 0:
		s.Request.GPUs, s.Request.Share = 1, gpu.ShareRequest{MemPercent: 10 + r.IntN(60), Cores: r.IntN(60)}
	case widest > 0:
		s.Request.GPUs = r.IntN(widest + 1)
	}
	s.Retries = r.IntN(4)
	if r.IntN(4) == 0 {
		s.RunTime = time.Duration(1+r.IntN(60)) * time.Second
	}
	if r.IntN(6) == 0 {
		s.Timeout, s.RunTime = time.Duration(10+r.IntN(50))*time.Second, 0
	}
	if !s.Gang && r.IntN(5) == 0 {
		s.MaxParallel = 1 + r.IntN(2)
	}
	if r.IntN(6) == 0 {
		s.IdleTimeout = time.Duration(5+r.IntN(60)) * time.Second
	}
	if w.plan.preempt {
		s.Priority, s.Preemptible = r.IntN(3), r.IntN(2) == 0
	}
	return j
}

// schedule plans the submissions and the requests during the time of faults.
func (load *workload) schedule() {
	w := load.world
	for _, name := range load.names {
		j := load.jobs[name]
		at := w.between(0, w.plan.faultTime*2/3)
		w.after(at, "submit", func() { load.submit(j) })
		if j.spec.IdleTimeout > 0 {
			connected := at + w.between(0, w.plan.faultTime-at)
			w.after(connected, "connect", func() { load.connect(j, sched.ClientConnected{Job: name}) })
			w.after(connected+w.between(0, 30*time.Second), "disconnect", func() { load.connect(j, sched.ClientDisconnected{Job: name}) })
		}
		switch {
		case w.random.IntN(6) == 0:
			force := w.random.IntN(2) == 0
			w.after(at+w.between(0, w.plan.faultTime-at), "kill job", func() { load.kill(j, force) })
		case j.spec.Service != nil && w.random.IntN(2) == 0:
			tasks := w.random.IntN(6)
			w.after(at+w.between(0, w.plan.faultTime-at), "scale", func() { load.scale(j, tasks) })
		case j.spec.Service != nil:
			w.after(at+w.between(0, w.plan.faultTime-at), "stop task", func() { load.stopTask(j) })
		}
	}
	if w.seed%4 == 1 { // the histories of the other seeds, such as the regressions, stay the same
		load.scheduleHolds()
	}
	if w.random.IntN(3) == 0 {
		host, drain := w.anyAgent().host, w.random.IntN(2) == 0
		w.after(w.between(0, w.plan.faultTime), "cordon", func() {
			load.request("cordon", func(_ *sched.State, apply func(sched.Event)) error {
				if w.faulty { // otherwise the end of the cordon may have come first
					apply(sched.CordonHost{Host: host, Reason: "test", Drain: drain})
				}
				return nil
			}, func() {})
		})
	}
}

// scheduleHolds plans holds, releases, edits and requeues.
func (load *workload) scheduleHolds() {
	w := load.world
	for _, name := range load.names {
		j := load.jobs[name]
		at := w.between(0, w.plan.faultTime)
		switch w.random.IntN(4) {
		case 0:
			until := at + w.between(0, w.plan.faultTime-at)
			w.after(at, "hold", func() { load.hold(j) })
			w.after(until, "release", func() { load.release(j) })
		case 2:
			priority := w.random.IntN(5)
			w.after(at, "edit", func() { load.edit(j, priority) })
		case 1:
			hold := w.random.IntN(2) == 0
			w.after(at, "requeue", func() { load.requeue(j, hold) })
		}
	}
	if w.random.IntN(4) == 0 {
		target, drain := job.HoldTarget{Kind: job.HeldRole, Name: role}, w.random.IntN(2) == 0
		w.after(w.between(0, w.plan.faultTime), "hold role", func() {
			load.request("hold role", func(_ *sched.State, apply func(sched.Event)) error {
				if w.faulty { // otherwise the release may have come first
					apply(sched.HoldJobsOf{Target: target, Drain: drain})
				}
				return nil
			}, func() {})
		})
	}
}

// endAll ends what would keep the cluster from converging.
func (load *workload) endAll() {
	for _, a := range load.world.agents {
		load.request("uncordon", func(_ *sched.State, apply func(sched.Event)) error {
			apply(sched.UncordonHost{Host: a.host})
			return nil
		}, func() {})
	}
	load.raiseBudgets()
	if load.world.seed%4 != 1 {
		return
	}
	load.request("release role", func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.ReleaseJobsOf{Target: job.HoldTarget{Kind: job.HeldRole, Name: role}})
		return nil
	}, func() {})
	for _, name := range load.names {
		load.release(load.jobs[name])
	}
}

// request repeats a request until it is answered. The request has to be idempotent: the scheduler may die, or the answer
// be lost, after it was carried out.
func (load *workload) request(what string, apply func(st *sched.State, apply func(sched.Event)) error, done func()) {
	w := load.world
	again := func() {
		w.after(w.between(time.Second, 10*time.Second), what+" again", func() { load.request(what, apply, done) })
	}
	p := w.scheduler.process
	if p == nil {
		again()
		return
	}
	p.requests = append(p.requests, request{apply: apply, reply: func(err error) {
		switch {
		case err == errKilled || w.chance(w.plan.loseAnswer, "answer to user lost"):
			again()
		case err != nil:
			w.failf("%s is refused: %v", what, err)
		default:
			done()
		}
	}})
	p.wake()
}

func (load *workload) submit(j *userJob) {
	load.request("submit "+j.spec.Name, func(st *sched.State, apply func(sched.Event)) error {
		spec := j.spec
		if _, ok := st.JobByClientKey(&spec); ok {
			return nil
		}
		if err := st.AdmitCompleted(&spec); err != nil {
			return err
		}
		apply(sched.SubmitJob{Spec: spec})
		return nil
	}, func() { j.accepted = true; load.world.note("accepted", j.spec.Name, "", 0) })
}

func (load *workload) kill(j *userJob, force bool) {
	if !j.accepted {
		return // its user waits for the answer to the submission
	}
	j.killSent = true
	load.request("kill "+j.spec.Name, func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.KillJob{Job: j.spec.Name, Force: force})
		return nil
	}, func() { j.killed = true })
}

func (load *workload) hold(j *userJob) {
	if !j.accepted || j.killSent {
		return
	}
	load.request("hold "+j.spec.Name, func(_ *sched.State, apply func(sched.Event)) error {
		if load.world.faulty && !j.releaseSent {
			apply(sched.HoldJob{Job: j.spec.Name, By: "user"})
		}
		return nil
	}, func() { j.held = load.world.faulty && !j.releaseSent })
}

func (load *workload) release(j *userJob) {
	j.held, j.releaseSent = false, true
	load.request("release "+j.spec.Name, func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.ReleaseJob{Job: j.spec.Name, By: "user"})
		return nil
	}, func() {})
}

func (load *workload) edit(j *userJob, priority int) {
	if !j.accepted || j.killSent {
		return
	}
	edited := false // false for a job that has ended
	load.request("edit "+j.spec.Name, func(st *sched.State, apply func(sched.Event)) error {
		if now, ok := st.Job(j.spec.Name); ok {
			spec := *now.Spec
			spec.Priority = priority
			edited = st.AdmitEdit(spec.Name, &spec) == nil
			apply(sched.EditJob{Job: spec.Name, Spec: spec, By: "user", Keys: jobfile.DescribeChange(now.Spec, &spec)})
		}
		return nil
	}, func() {
		if edited {
			j.priority = &priority
		}
	})
}

func (load *workload) requeue(j *userJob, hold bool) {
	if !j.accepted || j.killSent {
		return
	}
	load.request("requeue "+j.spec.Name, func(_ *sched.State, apply func(sched.Event)) error {
		if load.world.faulty {
			apply(sched.RequeueJob{Job: j.spec.Name, By: "user", Hold: hold})
		}
		return nil
	}, func() {})
}

// connect counts a client of a job, or its end.
func (load *workload) connect(j *userJob, event sched.Event) {
	load.request("connect to "+j.spec.Name, func(_ *sched.State, apply func(sched.Event)) error {
		apply(event)
		return nil
	}, func() {})
}

func (load *workload) scale(j *userJob, tasks int) {
	if !j.accepted || j.killSent {
		return
	}
	load.request("scale "+j.spec.Name, func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitScale(j.spec.Name, tasks); err != nil {
			return err
		}
		apply(sched.ScaleService{Job: j.spec.Name, Tasks: tasks, By: "user"})
		return nil
	}, func() { j.tasks = tasks })
}

func (load *workload) stopTask(j *userJob) {
	if !j.accepted || j.killSent {
		return
	}
	load.request("stop task of "+j.spec.Name, func(st *sched.State, apply func(sched.Event)) error {
		if now, ok := st.Job(j.spec.Name); ok {
			apply(sched.StopTasks{TaskIDs: []string{now.Tasks[0].ID}})
		}
		return nil
	}, func() {})
}

// outcomeOf returns how an attempt ends. It depends only on the seed, the task and the attempt.
func (load *workload) outcomeOf(id string) outcome {
	name, index, attempt, _ := job.ParseTaskID(id)
	h := fnv.New64a()
	fmt.Fprint(h, load.world.seed, name, index, attempt)
	x := h.Sum64()
	j := load.jobs[name]
	if j == nil && load.world.apps != nil && strings.HasPrefix(name, appJobs) {
		j = &userJob{spec: job.Spec{Service: &job.Service{}}, flaky: load.world.apps.flaky}
	}
	if j == nil {
		load.world.failf("task %s is of no job", id)
		return outcome{}
	}
	o := outcome{length: time.Duration(1+x%90) * time.Second, state: mesos.TASK_FINISHED}
	fails := int(x>>32%100) < j.flaky
	switch {
	case fails:
		o.state = mesos.TASK_FAILED
	case j.spec.Service != nil:
		o.length = 0
	}
	return o
}

func (n *agentNode) countGPUs() int {
	for _, r := range n.resources {
		if r.Name == "gpus" {
			return int(r.GetScalar().GetValue())
		}
	}
	return 0
}

func (n *agentNode) sharesDevice() bool {
	return slices.ContainsFunc(n.resources, func(r mesos.Resource) bool { _, _, ok := gpu.ShareResource(r.Name); return ok })
}
