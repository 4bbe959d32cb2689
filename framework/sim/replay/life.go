package replay

import (
	"fmt"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// arrive submits a job.
func (r *replay) arrive(w Work) {
	l := &live{Work: w, left: w.Spec.Tasks}
	spec := &l.Spec
	spec.Role = r.roleOf(spec)
	l.role = r.master.role(spec.Role)
	l.predicted = r.foretell(l)
	if l.predicted > 0 {
		spec.RunTime = l.predicted
	}
	if r.cfg.Short > 0 {
		spec.Preemptible = spec.RunTime == 0 || spec.RunTime > r.cfg.Short
		if !spec.Preemptible {
			spec.Priority = 1
		}
	}
	if err := r.refusal(l); err != nil {
		r.result.refuse(err)
		return
	}
	r.jobs[spec.Name] = l
	r.waiting += spec.Tasks
	r.change()
	if spec.MaxWait > 0 {
		r.line.add(moment{at: r.now + spec.MaxWait, what: ticks})
	}
	r.step(sched.Submit{Spec: *spec})
}

func (r *replay) roleOf(spec *job.Spec) string {
	if spec.Role == "" {
		return r.state.DefaultRole()
	}
	return spec.Role
}

// refusal says why a job cannot be replayed; nil if it can.
func (r *replay) refusal(l *live) error {
	if len(l.Runs) == 0 {
		return fmt.Errorf("job %q: nobody says how long it runs", l.Spec.Name)
	}
	return r.state.Admit(&l.Spec)
}

// accept launches tasks, which run at once.
func (r *replay) accept(a *sched.Accept) {
	at, ok := r.master.index[a.AgentID]
	if !ok {
		r.err = fmt.Errorf("accept on %s: there is no such agent", a.AgentID)
		return
	}
	role := r.master.role(a.Role)
	var last *offer
	for _, id := range a.OfferIDs {
		if last = r.withdraw(id); last == nil {
			return
		}
		if last.agent != at || last.role != role {
			r.err = fmt.Errorf("accept offer %s on %s: it is of another agent or role", id, a.AgentID)
			return
		}
	}
	var started []*running
	for i := range a.Launches {
		l := &a.Launches[i]
		room, err := r.master.take(at, role, l)
		j := r.jobs[l.Spec.Name]
		if err != nil || j == nil {
			r.err = fmt.Errorf("accept on %s: task %s: %w", a.AgentID, l.TaskID, err)
			return
		}
		t := &running{id: l.TaskID, job: j, agent: at, role: role, room: room, start: r.now}
		r.running[t.id] = t
		started = append(started, t)
		r.line.add(moment{at: r.now + j.runs(l.Index), what: ends, task: t})
	}
	r.refuse(last, a.Refuse)
	for _, t := range started {
		r.start(t)
	}
}

func (r *replay) start(t *running) {
	r.waiting--
	r.change()
	r.result.launch(r, t)
	if !t.job.started {
		t.job.started, t.job.start = true, r.now
	}
	if d := t.job.Spec.Timeout; d > 0 {
		r.line.add(moment{at: r.now + d, what: ticks})
	}
	r.step(sched.Update{TaskID: t.id, AgentID: r.master.agents[t.agent].ID, State: job.Running, UUID: []byte{1}})
}

// end takes a task off its agent. One that was killed goes back into the
// queue, unless the scheduler gives it up.
func (r *replay) end(t *running, state job.State) {
	t.gone = true
	delete(r.running, t.id)
	r.master.give(t.agent, t.role, t.room)
	r.result.end(r, t, state)
	r.change()
	r.allocateAt(r.now)
	r.step(sched.Update{TaskID: t.id, AgentID: r.master.agents[t.agent].ID, State: state, UUID: []byte{1}})
	if j, ok := r.state.Job(t.job.Spec.Name); state == job.Killed && ok && !j.Terminal() {
		r.waiting++
		return
	}
	if t.job.left--; t.job.left == 0 {
		r.done(t.job)
	}
}

func (r *replay) done(l *live) {
	delete(r.jobs, l.Spec.Name)
	r.history.learn(l.like(), l.longest())
	r.result.done(r, l)
	if r.cfg.Ended != nil {
		r.cfg.Ended(&l.Work, l.start, r.now)
	}
}
