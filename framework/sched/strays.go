package sched

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// StrayAttempt is an attempt that its job has given up or replaced and whose end is not proven: it may run, and holds its
// place until its agent proves the end. The journal has each as a document.
type StrayAttempt struct {
	// Task is the attempt when it was given up; it has only its id and its agent if nothing else is known.
	Task job.Task `json:"task"`
	// Amount has the CPUs, memory and disk that it takes of its agent, GPUs the number of GPUs, whole ones or shares.
	Amount fit.Amount `json:"amount"`
	GPUs   int        `json:"gpus,omitempty"`
	// Role is the role of its job, "" if that is unknown.
	Role string `json:"role,omitempty"`
	// Runs: its agent has reported it since.
	Runs bool `json:"runs,omitempty"`
	// Since is when it was given up or found.
	Since time.Time `json:"since"`

	attemptDoubt
	killSchedule
}

// strayPrefix, followed by its id, is the key of a stray attempt.
const strayPrefix = reservedPrefix + "stray/"

// maxStrays limits the stray attempts that are remembered.
const maxStrays = 10_000

// parseStray decodes a stray attempt from one of the scheduler's documents. It returns false for other documents and for a
// deleted one.
func parseStray(key string, value []byte) (stray StrayAttempt, ok bool) {
	id, ok := strings.CutPrefix(key, strayPrefix)
	return stray, ok && len(value) > 0 && json.Unmarshal(value, &stray) == nil && stray.Task.ID == id
}

// ParseStrays returns the stray attempts among documents, by task id.
func ParseStrays(documents map[string][]byte) (all []StrayAttempt) {
	for key, value := range documents {
		if stray, ok := parseStray(key, value); ok {
			all = append(all, stray)
		}
	}
	slices.SortFunc(all, func(a, b StrayAttempt) int { return strings.Compare(a.Task.ID, b.Task.ID) })
	return all
}

// strayAttempts are the stray attempts by task id.
type strayAttempts map[string]*StrayAttempt

// restoreStrays reads the recorded stray attempts.
func (s *State) restoreStrays() {
	for _, stray := range ParseStrays(s.documents[reservedPrefix]) {
		stray.launchedEarlier = true
		s.strays[stray.Task.ID] = &stray
		s.held.add(holdingOfStray(&stray))
	}
}

// addStray remembers an attempt of a job whose end is not proven; j is nil if the job is unknown.
func (s *State) addStray(t job.Task, j *job.Job, runs bool) *StrayAttempt {
	stray := &StrayAttempt{Task: t, Runs: runs, Since: s.now}
	if j != nil {
		spec := j.SpecOf(&t)
		stray.Role = spec.Role
		stray.Amount, stray.GPUs = queue.TaskAmount(spec, s.cfg.Policy.Overhead), spec.Request.GPUs
	}
	if len(s.strays) >= maxStrays {
		oldest := slices.MinFunc(s.straysInOrder(), func(a, b *StrayAttempt) int { return a.Since.Compare(b.Since) })
		s.removeStray(oldest.Task.ID)
	}
	s.strays[t.ID] = stray
	s.held.add(holdingOfStray(stray))
	s.writeJSONDocument(strayPrefix+t.ID, stray)
	return stray
}

// straysInOrder returns the stray attempts by task id.
func (s *State) straysInOrder() []*StrayAttempt {
	list := make([]*StrayAttempt, 0, len(s.strays))
	for _, stray := range s.strays {
		list = append(list, stray)
	}
	slices.SortFunc(list, func(a, b *StrayAttempt) int { return strings.Compare(a.Task.ID, b.Task.ID) })
	return list
}

// removeStray forgets an attempt whose end is proven, and frees its place.
func (s *State) removeStray(id string) {
	stray := s.strays[id]
	delete(s.strays, id)
	s.writeDocument(strayPrefix+id, nil)
	s.releaseHolding(stray.Task.AgentID, id)
}

// handleStrayUpdate applies the update of an attempt that is not the present one of its task, or that has ended according to
// its record: it is ended if it runs.
func (s *State) handleStrayUpdate(u TaskUpdate) []Operation {
	stray := s.strays[u.TaskID]
	switch {
	case u.State == "" || u.State == job.Unreachable:
		if stray != nil {
			stray.missedAt = time.Time{}
		}
	case u.State.IsLive():
		if stray == nil {
			if u.AgentID == "" {
				return []Operation{KillTask{TaskID: u.TaskID}}
			}
			stray = s.addStray(s.recordedAttempt(u))
		}
		stray.missedAt = time.Time{}
		if u.Reconciled {
			stray.unknownToMaster = false
		}
		return s.endStray(stray)
	case stray == nil:
	case u.State != job.Lost || u.Proof == ProvenEnd:
		s.removeStray(u.TaskID)
	case u.Proof == AgentRemoved: // containers of it may be left
	default:
		isNew := stray.noteUnproven(u.Proof, s.now)
		if s.inspections[stray.Task.AgentID] == nil {
			s.planInspection(stray.Task.AgentID, stray.Task.AgentURL)
		}
		if isNew && stray.Runs {
			return s.killStray(stray)
		}
	}
	return nil
}

// recordedAttempt returns what is recorded of an attempt, with its job if that is known.
func (s *State) recordedAttempt(u TaskUpdate) (t job.Task, j *job.Job, runs bool) {
	t = job.Task{ID: u.TaskID, AgentID: u.AgentID}
	if ref, ok := s.tasks[u.TaskID]; ok && ref.get().State != job.Waiting {
		t, j = *ref.get(), ref.job
	} else if text := s.Document(attemptPrefix + u.TaskID); text != nil {
		if _, known, _ := ParseAttempt(attemptPrefix+u.TaskID, text); known.ID == u.TaskID {
			t = known
			j, _ = s.jobs.FindRun(t.RunID())
		}
	}
	t.AgentID = u.AgentID
	return t, j, true
}

// endStray ends an attempt that its agent has reported.
func (s *State) endStray(stray *StrayAttempt) []Operation {
	if !stray.Runs {
		stray.Runs = true
		s.writeJSONDocument(strayPrefix+stray.Task.ID, stray)
	}
	if !stray.killAt.IsZero() && !isDue(stray.killAt, s.now) {
		return nil
	}
	return s.killStray(stray)
}

// killStray returns what ends an attempt, and sets when it is repeated. A KILL of a task that the master does not know does
// not reach the agent; a SHUTDOWN of its executor does.
func (s *State) killStray(stray *StrayAttempt) []Operation {
	if !s.connected {
		return nil
	}
	stray.scheduleNextKill(s)
	ops := []Operation{KillTask{TaskID: stray.Task.ID, AgentID: stray.Task.AgentID}}
	if stray.unknownToMaster {
		ops = append(ops, ShutdownExecutor{TaskID: stray.Task.ID, AgentID: stray.Task.AgentID})
	}
	return ops
}

// killStrays repeats the kills that are due.
func (s *State) killStrays() (ops []Operation) {
	for _, stray := range s.straysInOrder() {
		if stray.Runs && (stray.killAt.IsZero() || isDue(stray.killAt, s.now)) {
			ops = append(ops, s.killStray(stray)...)
		}
	}
	return ops
}

// inspectStrays applies the answer of an agent to the stray attempts there, and to the attempts that it has and that nothing
// is known of. askAgain is called with when the agent must be asked again.
func (s *State) inspectStrays(e AgentInspected, answer agentAnswer, askAgain func(time.Time)) (ops []Operation) {
	for _, stray := range s.straysInOrder() {
		t := &stray.Task
		if t.AgentID != e.AgentID {
			continue
		}
		presence, at := s.judgeAttempt(answer, t, stray.Runs || wasReported(t), stray.missedAt, stray.launchedEarlier)
		askAgain(at)
		switch presence {
		case runsOnAgent:
			stray.missedAt = time.Time{}
			ops = append(ops, s.endStray(stray)...)
			askAgain(s.now.Add(lastInspectionRetry))
		case endsOnAgent, notOnAgent:
			s.removeStray(t.ID)
		}
	}
	for _, t := range e.Tasks {
		if ref, ok := s.tasks[t.TaskID]; t.State.IsLive() && s.strays[t.TaskID] == nil && (!ok || !ref.get().State.IsPlaced()) {
			ops = append(ops, s.handleStrayUpdate(TaskUpdate{TaskID: t.TaskID, AgentID: e.AgentID, State: t.State})...)
			askAgain(s.now.Add(lastInspectionRetry))
		}
	}
	return ops
}
