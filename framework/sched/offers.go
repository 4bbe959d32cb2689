package sched

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/job"
)

// demand is what the master was last told about our wish for offers.
type demand struct {
	// wanted: work has come since the last REVIVE, which also takes back
	// what was refused for a long time.
	wanted     bool
	suppressed bool
	revived    time.Time
}

// offered answers offers. None is ever held: what no task wants now is
// declined, and comes back by REVIVE when there is work for it.
func (s *State) offered(now time.Time, offers []Offer) []Op {
	if !s.connected {
		return nil // they went with the subscription
	}
	plan, agents := place(offers, s.waitingJobs(s.queue), s.cfg.Policy)
	for _, a := range agents {
		a.launches = nil
		s.agents[a.id] = a
	}
	var ops []Op
	for _, accept := range plan.Accept {
		s.launch(now, accept)
		ops = append(ops, accept)
	}
	return append(ops, decline(plan.Decline)...)
}

// waitingJobs are those of the jobs that have tasks to place, as Place wants
// them.
func (s *State) waitingJobs(names []string) []Job {
	if s.waiting == 0 {
		return nil
	}
	var queue []Job
	for _, name := range names {
		j := s.jobs[name]
		if j == nil {
			continue
		}
		q := Job{Spec: &j.Spec}
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Waiting {
				q.Tasks = append(q.Tasks, Waiting{ID: j.Tasks[i].ID, Index: i})
			}
		}
		if len(q.Tasks) > 0 {
			queue = append(queue, q)
		}
	}
	return queue
}

// launch records the intent to launch, before the ACCEPT is sent.
func (s *State) launch(now time.Time, a Accept) {
	for _, l := range a.Launches {
		ref := s.tasks[l.TaskID]
		t := ref.task()
		t.AgentID, t.Hostname, t.AgentURL, t.DeviceIDs = a.AgentID, a.Hostname, a.AgentURL, l.DeviceIDs
		s.timers[t.ID] = &timer{confirm: now.Add(s.cfg.LaunchTimeout)}
		s.move(now, ref, job.Launching, "")
	}
}

// decline makes one call of all refusals for the same time.
func decline(list []Declined) []Op {
	byTime := map[time.Duration][]Declined{}
	for _, d := range list {
		byTime[d.Refuse] = append(byTime[d.Refuse], d)
	}
	var ops []Op
	for refuse, offers := range byTime {
		ops = append(ops, Decline{Offers: offers, Refuse: refuse})
	}
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.(Decline).Refuse, b.(Decline).Refuse) })
	return ops
}

// balance asks for offers when work has come and for silence when none waits.
func (s *State) balance(now time.Time) []Op {
	d := &s.offers
	switch {
	case !s.connected:
		return nil
	case s.waiting == 0:
		d.wanted = false
		if d.suppressed {
			return nil
		}
		d.suppressed = true
		return []Op{Suppress{}}
	case !d.wanted && !d.suppressed:
		return nil
	}
	if since := now.Sub(d.revived); since >= 0 && since < s.cfg.ReviveEvery {
		return nil // a tick will come
	}
	*d = demand{revived: now}
	return []Op{Revive{}}
}

// rescind marks what was offered as taken. An answer that is under way ends
// in TASK_DROPPED.
func (s *State) rescind(offer string) {
	for _, a := range s.agents {
		if slices.Contains(a.offers, offer) {
			a.free, a.gpus, a.devices = amount{}, 0, nil
		}
	}
}

func (s *State) setAgents(list []Agent) {
	s.cluster = make(map[string]Agent, len(list))
	for _, a := range list {
		s.cluster[a.ID] = a
	}
	for id := range s.agents {
		if _, ok := s.cluster[id]; !ok {
			delete(s.agents, id)
		}
	}
}

// Reasons says of each of the jobs that waits why it does, by name, as far as
// the last offers and the last list of agents tell. No name stands for all.
func (s *State) Reasons(names ...string) map[string]Reason {
	if len(names) == 0 {
		names = s.queue
	}
	queue := s.waitingJobs(names)
	if len(queue) == 0 {
		return nil
	}
	agents := s.known()
	seen := map[string]shortage{}
	reasons := map[string]Reason{}
	for _, q := range queue {
		o := newOrder(&q, s.cfg.Policy)
		key := o.key()
		why, ok := seen[key]
		if !ok {
			why = o.explain(agents)
			seen[key] = why
		}
		name := q.Spec.Name
		reasons[name] = Reason{Job: name, Missing: len(q.Tasks), Tasks: q.Spec.Tasks, Lack: why.lack, Seen: why.seen}
	}
	return reasons
}

// known joins what was offered with the master's list: an agent that others
// use up is never offered, and has the type all the same.
func (s *State) known() []*agent {
	var all []*agent
	for id, a := range s.agents {
		a.total = s.cluster[id].GPUs
		all = append(all, a)
	}
	for id, c := range s.cluster {
		if s.agents[id] == nil {
			all = append(all, &agent{id: id, hostname: c.Hostname, types: c.Types, inventory: c.Inventory, total: c.GPUs})
		}
	}
	slices.SortFunc(all, func(a, b *agent) int { return cmp.Compare(a.id, b.id) })
	return all
}
