package sched

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// RecoveredState contains a journal's record of an earlier State.
type RecoveredState struct {
	// FrameworkID is "" if the framework was never registered.
	FrameworkID string
	// Jobs are the recorded jobs. The State owns them from then on, but others may read their Tasks.
	Jobs []*job.Job
	// Documents are the scheduler's own and those of extensions, by key.
	Documents map[string][]byte
}

// New returns a State that continues a recovered one. It takes over the recovered jobs.
func New(cfg SchedulerSettings, past RecoveredState) *State {
	cfg.setDefaults()
	s := &State{
		cfg:               cfg,
		frameworkID:       past.FrameworkID,
		configuredRoles:   cfg.Policy.Roles,
		jobTable:          newJobTable(),
		documentStore:     documentStore{documents: map[string]map[string][]byte{}},
		agentTable:        newAgentTable(),
		deadlines:         deadlineTable{},
		clients:           map[string]int{},
		offers:            offerPool{offers: map[string]heldOffer{}},
		offerDemands:      offerDemands{},
		returned:          newReturnedOffers(),
		quotaBlockedRoles: map[string]bool{},
		taskMix:           taskMix{kinds: map[string]*fit.TypicalTask{}},
		operatorQuotas:    map[string]quota.Quota{},
		strays:            strayAttempts{},
		inspections:       map[string]*agentInspection{},
		absentAgents:      map[string]string{},
		conflicts:         map[placement.AgentKey]offerConflict{},
		amountsReported:   map[string]time.Time{},
	}
	s.cfg.Policy.Fit.Patterns = &s.patterns
	s.endedAttempts = endedAttempts{
		documents:  &s.documentStore,
		beforeDrop: s.keepDroppedAttempt,
		byJob:      map[job.RunID]*jobAttempts{},
		byRole:     map[string]*roleAttempts{},
	}
	s.notifications.documents = &s.documentStore
	for _, role := range s.roleNames() {
		s.offerDemands.entry(role)
	}
	for key, value := range past.Documents {
		s.restoreDocument(key, value)
	}
	s.restoreOperatorSettings()
	s.updateBudgets()
	s.restoreStrays()
	s.notifications.restore()
	jobs := slices.SortedFunc(slices.Values(past.Jobs), compareSubmission)
	var ended []*job.Job
	for _, j := range jobs {
		j.Spec = s.completeRecordedSpec(j.Spec)
		j.Run = j.RunID().Run
		s.addJob(j)
		s.taskMix.addJob(j.Spec, s.cfg.Policy.Overhead, 1)
		for i := range j.Tasks {
			ref := taskRef{j, i}
			t := ref.get()
			s.tasks[t.ID] = ref
			if t.State.IsLive() {
				s.liveTasks.Add(j.Spec, 1)
			}
			if t.State.IsPlaced() {
				s.placed.countTask(j, 1)
				s.held.add(s.holdingOf(j, t))
				if !wasReported(t) {
					s.deadlines.entry(t.ID).launchedEarlier = true
				}
			}
			if t.State == job.Waiting {
				s.offerDemands.entry(j.Spec.Role).waiting++
			}
			s.updateDeadlines(ref)
		}
		if j.IsTerminal() {
			ended = append(ended, j)
		} else {
			s.enqueueJob(j, j.Spec.TextBytes())
			s.sharedTasks[j] = true
			s.addDependent(j)
			if len(j.OldSpecs) > 0 {
				s.updating[j] = true
			}
		}
	}
	s.numberJobs(jobs)
	s.restoreFreedPlaces(jobs, s.endedAttempts.restore(&s.jobs))
	s.restoreRunTimes()
	s.restoreUnaccounted()
	s.restoreUsage()
	slices.SortStableFunc(ended, func(a, b *job.Job) int { return lastEndOf(a).Compare(lastEndOf(b)) })
	for _, j := range ended {
		s.ended.add(j, j.Spec.TextBytes())
	}
	return s
}

// completeRecordedSpec returns a specification with what its record lacks: the role, in jobs of older releases, and the
// rules for GPU types.
func (s *State) completeRecordedSpec(spec *job.Spec) *job.Spec {
	role, rules := s.roleOf(spec), spec.GPUTypeRules()
	if role == spec.Role && len(rules) == 0 {
		return spec
	}
	c := *spec
	c.Role, c.Request.Types.Rules = role, rules
	return &c
}

// restoreOperatorSettings reads cordons, holds and quotas from the documents.
func (s *State) restoreOperatorSettings() {
	s.cordons = ParseCordons(s.documents[reservedPrefix])
	s.holds = ParseHolds(s.documents[reservedPrefix])
	for key, value := range s.documents[reservedPrefix] {
		role, ok := strings.CutPrefix(key, quotaPrefix)
		var stored storedQuota
		if !ok || json.Unmarshal(value, &stored) != nil {
			continue
		}
		if q, err := quota.ParseStored(stored.Quota); err == nil {
			s.operatorQuotas[role] = q
		}
	}
	s.applyOperatorQuotas()
}

func lastEndOf(j *job.Job) time.Time {
	var last time.Time
	for i := range j.Tasks {
		if t := j.Tasks[i].Ended; t.After(last) {
			last = t
		}
	}
	return last
}
