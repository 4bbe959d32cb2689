package replay

import (
	"cmp"
	"fmt"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// submitJob submits a job to the scheduler.
func (r *jobReplay) submitJob(w JobRecord) {
	spec := &w.Spec
	l := &liveJob{spec: spec, arrivesAt: w.ArrivesAt, runTimes: w.RunTimes, tasksLeft: spec.Tasks}
	spec.Role = r.roleNameOf(spec)
	l.role = r.master.roleIndex(spec.Role)
	if declared := r.declareRunTime(l); declared > 0 {
		spec.RunTime = declared
	}
	if r.cfg.Short > 0 {
		runs := cmp.Or(spec.RunTime, l.predicted)
		spec.Preemptible = runs == 0 || runs > r.cfg.Short
		if !spec.Preemptible {
			spec.Priority, spec.PreemptAfter = 1, r.cfg.PreemptAfter
		}
	}
	if spec.Preemptible {
		spec.MinRunTime = r.cfg.MinRunTime
	}
	if r.cfg.SaveTime > 0 && (spec.Preemptible || r.state.Reclaims()) {
		spec.Warn = &job.Warning{Signal: "USR1", Before: r.cfg.SaveTime}
	}
	if err := r.checkJob(l); err != nil {
		r.result.countRefused(err)
		return
	}
	r.jobs[spec.Name] = l
	r.waiting += spec.Tasks
	r.markChanged()
	if spec.MaxWait > 0 {
		r.timeline.schedule(timelineEvent{at: r.now + spec.MaxWait, kind: tickDue})
	}
	if d := spec.PreemptAfter; d > 0 {
		r.timeline.schedule(timelineEvent{at: r.now + max(0, d-r.cfg.SaveTime), kind: tickDue})
		r.timeline.schedule(timelineEvent{at: r.now + d, kind: tickDue})
	}
	r.stepScheduler(sched.SubmitJob{Spec: *spec})
	if j, ok := r.state.Job(spec.Name); ok {
		l.spec = j.Spec // so that memory has one copy of it
	}
	r.submitted = append(r.submitted, l)
}

// roleNameOf returns the role of a job as the scheduler would complete it.
func (r *jobReplay) roleNameOf(spec *job.Spec) string {
	if spec.Role == "" {
		return r.state.DefaultRole()
	}
	return spec.Role
}

// checkJob returns why a job cannot be replayed, nil if it can.
func (r *jobReplay) checkJob(l *liveJob) error {
	if len(l.runTimes) == 0 {
		return fmt.Errorf("job %q: its run time is unknown", l.spec.Name)
	}
	return r.state.Admit(l.spec)
}

// acceptOffers launches tasks, which run at once.
func (r *jobReplay) acceptOffers(a *sched.AcceptOffers) {
	at, ok := r.master.index[a.AgentID]
	if !ok {
		r.err = fmt.Errorf("accept on %s: there is no such agent", a.AgentID)
		return
	}
	role := r.master.roleIndex(a.Role)
	rest := pendingOffer{agent: at, role: role}
	for _, id := range a.OfferIDs {
		o := r.withdrawOffer(id)
		if o == nil {
			return
		}
		if o.agent != at || o.role != role {
			r.err = fmt.Errorf("accept offer %s on %s: it is of another agent or role", id, a.AgentID)
			return
		}
		rest.resources = rest.resources.add(o.resources)
	}
	var started []*runningTask
	for i := range a.Launches {
		l := &a.Launches[i]
		taken, err := r.master.takeResources(at, role, l)
		j := r.jobs[l.Spec.Name]
		if err != nil || j == nil {
			r.err = fmt.Errorf("accept on %s: task %s: %w", a.AgentID, l.TaskID, err)
			return
		}
		t := &runningTask{id: l.TaskID, job: j, index: l.Index, agent: at, role: role, resources: taken, start: r.now}
		rest.resources = rest.resources.subtract(taken)
		left := j.runTimes.forTask(l.Index)
		if j.saved != nil && j.saved[l.Index] > 0 {
			t.loading = r.cfg.SaveTime
			left += t.loading - j.saved[l.Index]
		}
		r.running[t.id] = t
		started = append(started, t)
		if d := j.spec.MinRunTime; d > 0 && d < left {
			r.timeline.schedule(timelineEvent{at: r.now + d, kind: tickDue})
		}
		r.timeline.schedule(timelineEvent{at: r.now + left, kind: taskEnds, task: t})
	}
	r.refuseOffer(&rest, a.Refuse)
	for _, t := range started {
		r.startTask(t)
	}
}

// startTask counts a launched task and reports to the scheduler that it runs. It takes no time to start.
func (r *jobReplay) startTask(t *runningTask) {
	r.waiting--
	r.markChanged()
	r.result.countLaunch(r, t)
	if !t.job.started {
		t.job.started, t.job.start = true, r.now
		r.result.countEstimate(t.job)
	}
	if d := t.job.spec.Timeout; d > 0 {
		r.timeline.schedule(timelineEvent{at: r.now + d, kind: tickDue})
	}
	r.stepScheduler(sched.TaskUpdate{TaskID: t.id, AgentID: r.master.agents[t.agent].ID, State: job.Running, UUID: []byte{1}})
}

// killTask ends a task: at once, or after it has saved its state if it is warned. KILLs are repeated.
func (r *jobReplay) killTask(t *runningTask, warned bool) {
	switch {
	case t.saving:
	case !warned:
		r.endTask(t, job.Killed)
	default:
		t.saving = true
		t.work = max(r.now-t.start-t.loading, 0)
		if t.job.saved == nil {
			t.job.saved = make([]time.Duration, t.job.spec.Tasks)
		}
		t.job.saved[t.index] += t.work
		r.timeline.schedule(timelineEvent{at: r.now + r.cfg.SaveTime, kind: taskSaved, task: t})
	}
}

// endTask frees the resources of a task. A killed task is queued again unless the scheduler gives it up.
func (r *jobReplay) endTask(t *runningTask, state job.State) {
	t.ended = true
	delete(r.running, t.id)
	r.master.returnResources(t.agent, t.role, t.resources)
	r.result.countEnd(r, t, state)
	if r.cfg.TaskEnded != nil {
		r.cfg.TaskEnded(t.job.spec, t.start, r.now)
	}
	r.markChanged()
	r.allocateAt(r.now)
	r.stepScheduler(sched.TaskUpdate{TaskID: t.id, AgentID: r.master.agents[t.agent].ID, State: state, UUID: []byte{1}})
	if state == job.Killed {
		if j, ok := r.state.Job(t.job.spec.Name); ok && !j.IsTerminal() {
			r.waiting++
			return
		}
	}
	if t.job.tasksLeft--; t.job.tasksLeft == 0 {
		r.completeJob(t.job)
	}
}

// completeJob removes a job whose tasks have all ended.
func (r *jobReplay) completeJob(l *liveJob) {
	delete(r.jobs, l.spec.Name)
	r.result.countJob(r, l)
	if r.cfg.JobEnded != nil {
		r.cfg.JobEnded(&JobRecord{Spec: *l.spec, ArrivesAt: l.arrivesAt, RunTimes: l.runTimes}, l.start, r.now)
	}
}
