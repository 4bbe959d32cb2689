package sched

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"mesos-gpu/internal/backoff"
	"mesos-gpu/job"
)

// agentInspection is a question to an agent which attempts it has. It exists as long as it is not known of an attempt on the
// agent whether it runs.
type agentInspection struct {
	// url is that of the agent's API when its task was launched. The list of agents may have a newer one.
	url string
	// due is when the agent is asked next, tries how often it was asked.
	due   time.Time
	tries int
}

// firstInspectionRetry and lastInspectionRetry are the first and the longest wait before an agent is asked again.
const (
	firstInspectionRetry = 2 * time.Second
	lastInspectionRetry  = time.Minute
)

// planInspection has an agent asked now.
func (s *State) planInspection(agentID, url string) {
	if agentID == "" {
		return
	}
	i := s.inspections[agentID]
	if i == nil {
		i = &agentInspection{}
		s.inspections[agentID] = i
	}
	i.url, i.due, i.tries = cmp.Or(url, i.url), s.now, 0
}

// inspectAgents returns the questions to agents that are due, and a RECONCILE of the same attempts. The master's answer shows
// whether the agent is registered.
func (s *State) inspectAgents() (ops []Operation) {
	var asked map[string]bool
	for _, id := range slices.Sorted(maps.Keys(s.inspections)) {
		i := s.inspections[id]
		if !isDue(i.due, s.now) {
			continue
		}
		i.due = s.now.Add(backoff.Delay(firstInspectionRetry, lastInspectionRetry, i.tries))
		i.tries++
		ops = append(ops, InspectAgent{AgentID: id, URL: cmp.Or(s.listedAgents[id].URL, i.url), At: s.now})
		if asked == nil {
			asked = map[string]bool{}
		}
		asked[id] = true
	}
	if asked == nil {
		return nil
	}
	var list []TaskLocation
	for _, agent := range slices.Sorted(maps.Keys(asked)) {
		for _, h := range s.held.byAgent[agent] {
			if ref, isTask := s.tasks[h.taskID]; s.strays[h.taskID] != nil || isTask && s.isDoubtful(ref.get()) {
				list = append(list, TaskLocation{TaskID: h.taskID, AgentID: agent})
			}
		}
	}
	if len(list) > 0 {
		ops = append(ops, ReconcileTasks{Tasks: list})
	}
	return ops
}

// isDoubtful reports whether it is not known of a placed task whether its agent has it.
func (s *State) isDoubtful(t *job.Task) bool {
	d := s.deadlines[t.ID]
	return t.State == job.Unreachable || d != nil && d.unknownToMaster
}

// doubtMessage is the message of a task until its agent has answered.
const doubtMessage = "the master does not know the task; its agent is asked"

// doubtAttempt handles an update that says LOST and does not prove it: the agent is asked. Until it answers the task keeps
// its state and its resources. If its end was requested, its executor is shut down, which reaches the agent although the
// master does not know the task.
func (s *State) doubtAttempt(ref taskRef, u TaskUpdate) []Operation {
	t := ref.get()
	d := s.deadlines.entry(t.ID)
	if d.missedAt.IsZero() && u.Proof != AgentUnknown {
		d.missedAt = s.now
	}
	if d.giveUpAt.IsZero() { // if the agent cannot be asked
		if wait := s.unreachableTimeout(ref.job.Spec); !wasReported(t) {
			d.giveUpAt = s.now.Add(s.cfg.MaxLaunchDelay)
		} else if wait > 0 {
			d.giveUpAt = s.now.Add(wait)
		}
	}
	first := !d.unknownToMaster
	d.unknownToMaster = true
	if t.State != job.Killing && t.Message != doubtMessage {
		s.changeTask(ref).Message = doubtMessage
	}
	if first || s.inspections[t.AgentID] == nil {
		s.planInspection(t.AgentID, t.AgentURL)
	}
	if first && !t.KillRequested.IsZero() {
		return s.sendKill(ref)
	}
	return nil
}

// noteAgents has agents asked that are registered, as offers or a list show, and on which attempts are in doubt.
func (s *State) noteAgents(isRegistered func(agentID string) bool) {
	if len(s.absentAgents) == 0 && len(s.strays) == 0 {
		return
	}
	for id, url := range s.absentAgents {
		if isRegistered(id) {
			delete(s.absentAgents, id)
			s.planInspection(id, url)
		}
	}
	for _, stray := range s.strays {
		if id := stray.Task.AgentID; s.inspections[id] == nil && isRegistered(id) {
			s.planInspection(id, stray.Task.AgentURL)
		}
	}
}

// noteAbsence notes that an agent is away: its tasks are unreachable, or the master has removed it. What it was known not to
// have may arrive when it is back.
func (s *State) noteAbsence(agentID string) {
	delete(s.inspections, agentID)
	for _, h := range s.held.byAgent[agentID] {
		if d := s.deadlines[h.taskID]; d != nil {
			d.missedAt = time.Time{}
		}
		if ref, isTask := s.tasks[h.taskID]; isTask {
			s.absentAgents[agentID] = ref.get().AgentURL
		}
		if stray := s.strays[h.taskID]; stray != nil {
			stray.missedAt = time.Time{}
		}
	}
}

// handleAgentInspected applies the answer of an agent. An attempt that it has is adopted if it is still wanted, and ended if
// another has replaced it. One that it does not have has ended, as soon as no launch of it can be on its way.
func (s *State) handleAgentInspected(e AgentInspected) (ops []Operation) {
	has := make(map[string]job.State, len(e.Tasks))
	for _, t := range e.Tasks {
		has[t.TaskID] = t.State
	}
	var next time.Time // when the agent is asked again; zero if all is decided
	askAgain := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, h := range slices.Clone(s.held.byAgent[e.AgentID]) {
		ref, isTask := s.tasks[h.taskID]
		if !isTask || s.strays[h.taskID] != nil || !s.isDoubtful(ref.get()) {
			continue
		}
		t := ref.get()
		d := s.deadlines.entry(t.ID)
		switch state, known := has[t.ID]; {
		case known && state.IsLive():
			unknown := d.unknownToMaster
			d.giveUpAt = time.Time{}
			ops = append(ops, s.applyUpdate(ref, TaskUpdate{TaskID: t.ID, AgentID: e.AgentID, State: state, Reconciled: true})...)
			s.deadlines.entry(t.ID).unknownToMaster = unknown
			if ref.get().Message == doubtMessage {
				s.changeTask(ref).Message = ""
			}
		case known: // its final status is repeated until it is acknowledged
			d.missedAt, d.giveUpAt = time.Time{}, time.Time{}
			if wait := s.unreachableTimeout(ref.job.Spec); wait > 0 {
				d.giveUpAt = s.now.Add(wait)
			}
			askAgain(s.now.Add(lastInspectionRetry))
		case wasReported(t) || !d.missedAt.IsZero() && !e.At.Before(s.launchArrivesBy(t.Launched, d.missedAt)):
			if d.launchedEarlier && !wasReported(t) {
				s.addStray(*t, ref.job, false).missedAt = d.missedAt // by the clock of another process it might still arrive
			}
			u := TaskUpdate{State: job.Lost, Message: fmt.Sprintf("its agent %s does not have it", cmp.Or(t.Hostname, t.AgentID))}
			ops = append(ops, s.endAttempt(ref, attemptResultOf(ref, nextState(t, u), u))...)
			s.retireJob(ref.job)
		case d.missedAt.IsZero(): // the master has not reported yet that the agent is registered
			askAgain(s.inspectionDue(e.AgentID))
		default:
			askAgain(s.launchArrivesBy(t.Launched, d.missedAt))
		}
	}
	ops = append(ops, s.inspectStrays(e, has, askAgain)...)
	if next.IsZero() {
		delete(s.inspections, e.AgentID)
	} else if i := s.inspections[e.AgentID]; i != nil {
		i.due = next
	}
	return ops
}

// inspectionDue returns when an agent is asked next if nothing else is known.
func (s *State) inspectionDue(agentID string) time.Time {
	if i := s.inspections[agentID]; i != nil {
		return i.due
	}
	return s.now.Add(firstInspectionRetry)
}
