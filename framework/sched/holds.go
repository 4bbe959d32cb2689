package sched

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/job"
)

func holdDocumentKey(t job.HoldTarget) string { return holdPrefix + string(t.Kind) + "/" + t.Name }

// Holds are the holds of users and roles.
type Holds map[job.HoldTarget]job.Hold

// ParseHolds returns the holds among documents. One that cannot be decoded still holds jobs.
func ParseHolds(documents map[string][]byte) Holds {
	all := Holds{}
	for key, value := range documents {
		path, ok := strings.CutPrefix(key, holdPrefix)
		kind, name, found := strings.Cut(path, "/")
		if !ok || !found || len(value) == 0 {
			continue
		}
		h := job.Hold{}
		if json.Unmarshal(value, &h) != nil {
			h = job.Hold{Reason: "its record cannot be read"}
		}
		all[job.HoldTarget{Kind: job.HoldKind(kind), Name: name}] = h
	}
	return all
}

// IsHeld reports whether the waiting tasks of a job are kept from being placed.
func (h Holds) IsHeld(j *job.Job) bool {
	if j.Hold != nil {
		return true
	}
	_, held := h.find(j.Spec)
	return held
}

// find returns the hold of a job's owner, or else that of its role or of a role above it.
func (h Holds) find(spec *job.Spec) (job.HoldTarget, bool) {
	if len(h) == 0 {
		return job.HoldTarget{}, false
	}
	if user := (job.HoldTarget{Kind: job.HeldUser, Name: spec.Owner}); spec.Owner != "" {
		if _, ok := h[user]; ok {
			return user, true
		}
	}
	return h.findRole(spec.Role)
}

// findRole returns the hold of a role or of the nearest role above it.
func (h Holds) findRole(role string) (job.HoldTarget, bool) {
	for {
		target := job.HoldTarget{Kind: job.HeldRole, Name: role}
		if _, ok := h[target]; ok {
			return target, true
		}
		cut := strings.LastIndexByte(role, '/')
		if cut < 0 {
			return job.HoldTarget{}, false
		}
		role = role[:cut]
	}
}

// OfRole returns the hold that applies to all jobs of a role.
func (h Holds) OfRole(role string) (job.Hold, bool) {
	target, ok := h.findRole(role)
	return h[target], ok
}

// explain returns the reason of a job that is held.
func (h Holds) explain(j *job.Job) placement.PendingCause {
	hold, needs := j.Hold, ""
	if hold == nil {
		target, _ := h.find(j.Spec)
		found := h[target]
		hold, needs = &found, target.String()+" is "
	}
	available := hold.Reason
	if available == "" {
		available = "until it is released"
	}
	return placement.PendingCause{Needs: needs + hold.String(), Available: available}
}

// isCoveredBy reports whether the jobs of a target include a job.
func isCoveredBy(t job.HoldTarget, spec *job.Spec) bool {
	if t.Kind == job.HeldUser {
		return spec.Owner == t.Name
	}
	return admission.CoversRole(t.Name, spec.Role)
}

// Holds returns the holds of users and roles. The caller must not change them.
func (s *State) Holds() Holds { return s.holds }

// AdmitHold returns why a job may not be held or queued again, nil if it may.
func (s *State) AdmitHold(name string) error {
	j, ok := s.jobs.Find(name)
	switch {
	case !ok:
		return fmt.Errorf("there is no job %q", name)
	case j.IsTerminal():
		return &JobEndedError{Name: j.Spec.Name, State: j.State()}
	case isBeingKilled(j):
		return fmt.Errorf("job %q is being killed", j.Spec.Name)
	}
	return nil
}

// JobEndedError reports that a job has ended already.
type JobEndedError struct {
	Name  string
	State job.State
}

func (e *JobEndedError) Error() string {
	return fmt.Sprintf("job %q is %s already: submit it again", e.Name, e.State)
}

// AdmitHoldTarget returns why the jobs of a target may not be held, nil if they may. Users need not be known: their jobs
// may be submitted later.
func (s *State) AdmitHoldTarget(target job.HoldTarget) error {
	switch {
	case target.Name == "":
		return errors.New("the name is missing")
	case target.Kind == job.HeldRole:
		return s.AdmitQuota(target.Name)
	}
	return nil
}

// holdJob sets the hold of a job. Equal requests change nothing.
func (s *State) holdJob(e HoldJob) {
	if s.AdmitHold(e.Job) != nil {
		return
	}
	j, _ := s.jobs.Find(e.Job)
	h := &job.Hold{By: e.By, Reason: e.Reason, Since: s.now}
	if old := j.Hold; old != nil {
		if h.Since = old.Since; *h == *old {
			return
		}
	}
	s.setHold(j, h, job.Change{Kind: job.HoldChange, By: e.By, Reason: e.Reason})
}

func (s *State) setHold(j *job.Job, h *job.Hold, c job.Change) {
	j.Hold = h
	j.Revision++
	s.recordChange(j, c)
	s.offers.stale = true // the jobs behind it may be placed
	delete(s.reservationReasons, j.RunID())
}

// releaseJob ends the hold of a job. Its tasks wait for a place from now on.
func (s *State) releaseJob(e ReleaseJob) {
	j, ok := s.jobs.Find(e.Job)
	if !ok || j.Hold == nil || j.IsTerminal() {
		return
	}
	s.setHold(j, nil, job.Change{Kind: job.ReleaseChange, By: e.By})
	for i := range j.Tasks {
		ref := taskRef{j, i}
		if ref.get().State != job.Waiting {
			continue
		}
		if ref.get().NotBefore.Before(s.now) {
			s.changeTask(ref).NotBefore = s.now
		}
		s.requestOffers(ref)
	}
}

// requeueJob stops the placed tasks of a job, which are queued again.
func (s *State) requeueJob(e RequeueJob) []Operation {
	if s.AdmitHold(e.Job) != nil {
		return nil
	}
	if e.Hold {
		s.holdJob(HoldJob{Job: e.Job, By: e.By, Reason: e.Reason})
	}
	j, _ := s.jobs.Find(e.Job)
	return s.requeueTasks(j, job.Change{Kind: job.RequeueChange, By: e.By, Reason: e.Reason})
}

func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// requeueTasks requests the end of a job's placed tasks, which are queued again.
func (s *State) requeueTasks(j *job.Job, c job.Change) (ops []Operation) {
	stopped := false
	for i := range j.Tasks {
		ref := taskRef{j, i}
		stopped = stopped || ref.get().State.IsPlaced() && ref.get().KillRequested.IsZero()
		ops = append(ops, s.requestEnd(ref, job.KillByRequeue, c.By, c.Message())...)
	}
	if stopped {
		j.Revision++ // a client that repeats the request with If-Match does not stop them again
		s.recordChange(j, c)
	}
	return ops
}

// holdJobsOf sets the hold of a user or a role, and with Drain stops the placed tasks of the jobs that it covers.
func (s *State) holdJobsOf(e HoldJobsOf) (ops []Operation) {
	if s.AdmitHoldTarget(e.Target) != nil {
		return nil
	}
	h := job.Hold{By: e.By, Reason: e.Reason, Since: s.now}
	old, again := s.holds[e.Target]
	if again {
		h.Since = old.Since
	}
	if !again || h != old {
		s.holds[e.Target] = h
		s.writeJSONDocument(holdDocumentKey(e.Target), h)
		s.offers.stale, s.reservationReasons = true, nil
	}
	if !e.Drain {
		return nil
	}
	for ref := range s.placedTasks() {
		if isCoveredBy(e.Target, ref.job.Spec) {
			ops = append(ops, s.requestEnd(ref, job.KillByRequeue, e.By, withReason(e.Target.String()+" is drained", e.Reason))...)
		}
	}
	return ops
}

func (s *State) releaseJobsOf(e ReleaseJobsOf) {
	if _, ok := s.holds[e.Target]; !ok {
		return
	}
	delete(s.holds, e.Target)
	s.writeDocument(holdDocumentKey(e.Target), nil)
	s.reconsiderAll()
}
