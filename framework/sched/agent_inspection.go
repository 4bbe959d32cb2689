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
	// url is the address of the agent's API when its task was launched. The list of agents may have a newer one.
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
func (s *State) doubtAttempt(ref taskRef, proof EndProof) []Operation {
	t := ref.get()
	d := s.deadlines.entry(t.ID)
	isNew := d.noteUnproven(proof, s.now)
	if d.giveUpAt.IsZero() { // if the agent cannot be asked
		if wait := s.unreachableTimeout(ref.job.Spec); !wasReported(t) {
			d.giveUpAt = s.now.Add(s.cfg.MaxLaunchDelay)
		} else if wait > 0 {
			d.giveUpAt = s.now.Add(wait)
		}
	}
	if t.State != job.Killing && t.Message != doubtMessage {
		s.changeTask(ref).Message = doubtMessage
	}
	if isNew || s.inspections[t.AgentID] == nil {
		s.planInspection(t.AgentID, t.AgentURL)
	}
	if isNew && !t.KillRequested.IsZero() {
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
	answer := agentAnswer{at: e.At, states: make(map[string]job.State, len(e.Tasks))}
	for _, t := range e.Tasks {
		if t.State != job.Lost { // the agent has dropped it: it does not have it, and its launch may still be on its way
			answer.states[t.TaskID] = t.State
		}
	}
	if missing := s.findRunningTaskMissingIn(e.AgentID, answer); missing != "" {
		s.changes.IncompleteAnswers = append(s.changes.IncompleteAnswers, IncompleteAnswer{
			AgentID:  e.AgentID,
			Hostname: s.tasks[missing].get().Hostname,
			TaskID:   missing,
		})
		return nil // it is asked again
	}
	var next time.Time // when the agent is asked again; zero if all is decided
	askAgain := func(at time.Time) {
		if next.IsZero() || !at.IsZero() && at.Before(next) {
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
		presence, at := s.judgeAttempt(answer, t, wasReported(t), d.missedAt, false)
		askAgain(at)
		switch presence {
		case runsOnAgent:
			unknown := d.unknownToMaster
			d.giveUpAt = time.Time{}
			ops = append(ops, s.applyUpdate(ref, TaskUpdate{TaskID: t.ID, AgentID: e.AgentID, State: answer.states[t.ID], Reconciled: true})...)
			s.deadlines.entry(t.ID).unknownToMaster = unknown
			if ref.get().Message == doubtMessage {
				s.changeTask(ref).Message = ""
			}
		case endsOnAgent:
			d.missedAt, d.giveUpAt = time.Time{}, time.Time{}
			ops = append(ops, s.applyUpdate(ref, TaskUpdate{
				TaskID:     t.ID,
				AgentID:    e.AgentID,
				State:      answer.states[t.ID],
				Message:    fmt.Sprintf("its agent %s reports that it has ended", cmp.Or(t.Hostname, t.AgentID)),
				Reconciled: true,
			})...)
			s.retireJob(ref.job)
		case notOnAgent:
			if d.launchedEarlier && !wasReported(t) { // the clock of that process may have been ahead: it might still arrive
				stray := s.addStray(*t, ref.job, false)
				stray.missedAt, stray.launchedEarlier = d.missedAt, true
			}
			u := TaskUpdate{State: job.Lost, Message: fmt.Sprintf("its agent %s does not have it", cmp.Or(t.Hostname, t.AgentID))}
			ops = append(ops, s.endAttempt(ref, attemptResultOf(ref, nextState(t, u), u))...)
			s.retireJob(ref.job)
		}
	}
	ops = append(ops, s.inspectStrays(e, answer, askAgain)...)
	if next.IsZero() {
		delete(s.inspections, e.AgentID)
	} else if i := s.inspections[e.AgentID]; i != nil {
		i.due = next
	}
	return ops
}

// agentAnswer is an agent's answer to which attempts it has.
type agentAnswer struct {
	// at is when the agent was asked.
	at     time.Time
	states map[string]job.State
}

// IncompleteAnswer is an agent's list of tasks that lacks a running one.
type IncompleteAnswer struct{ AgentID, Hostname, TaskID string }

// findRunningTaskMissingIn returns a task that its agent has reported running, and that the agent's answer lacks; "" if it
// lacks none. Such an answer proves nothing: the agent lists only what the framework's principal may view.
func (s *State) findRunningTaskMissingIn(agentID string, answer agentAnswer) string {
	for _, h := range s.held.byAgent[agentID] {
		ref, isTask := s.tasks[h.taskID]
		if !isTask {
			continue
		}
		t := ref.get()
		if _, listed := answer.states[t.ID]; !listed && t.State == job.Running && !s.isDoubtful(t) && t.Changed.Before(answer.at) {
			return t.ID
		}
	}
	return ""
}

// agentPresence states whether an agent's answer contains an attempt.
type agentPresence int

const (
	// undecided: the agent does not have it, and its launch may still arrive.
	undecided agentPresence = iota
	runsOnAgent
	// endsOnAgent: the agent has its final status, and repeats that until it is acknowledged, which may have happened before.
	endsOnAgent
	// notOnAgent: the attempt has ended, or never reached the agent and will not.
	notOnAgent
)

// judgeAttempt returns what an agent's answer says of an attempt, and when the agent must be asked again; zero if it need not
// be. wasReported is whether the agent has received the attempt. See launchArrivesBy for missedAt and launchedEarlier.
func (s *State) judgeAttempt(
	answer agentAnswer, t *job.Task, wasReported bool, missedAt time.Time, launchedEarlier bool,
) (p agentPresence, askAgain time.Time) {
	switch state, isListed := answer.states[t.ID]; {
	case isListed && state.IsLive():
		return runsOnAgent, time.Time{}
	case isListed:
		return endsOnAgent, s.now.Add(lastInspectionRetry)
	case wasReported:
		return notOnAgent, time.Time{}
	case missedAt.IsZero(): // the master has not reported yet that the agent is registered
		return undecided, s.inspectionDue(t.AgentID)
	}
	if by := s.launchArrivesBy(t, missedAt, launchedEarlier); answer.at.Before(by) {
		return undecided, by
	}
	return notOnAgent, time.Time{}
}

// inspectionDue returns when an agent is asked next if nothing else is known.
func (s *State) inspectionDue(agentID string) time.Time {
	if i := s.inspections[agentID]; i != nil {
		return i.due
	}
	return s.now.Add(firstInspectionRetry)
}
