package sched

import (
	"fmt"
	"slices"

	"mesos-gpu/job"
)

// AdmitEdit returns why a job, NAME@RUN or NAME for the newest run, may not get an edited specification, nil if it may. The
// specification must be valid.
func (s *State) AdmitEdit(name string, spec *job.Spec) error {
	j, ok := s.jobs.Find(name)
	switch {
	case !ok:
		return fmt.Errorf("there is no job %q", name)
	case j.IsTerminal():
		return &JobEndedError{Name: spec.Name, State: j.State()}
	case isBeingKilled(j):
		return fmt.Errorf("job %q is being killed: submit it again once it has ended", spec.Name)
	}
	edited := *j.Spec
	edited.CopyEditable(spec)
	if !isSameJSON(edited, *spec) {
		return fmt.Errorf("job %q: an edit cannot change all of its program: submit it again", spec.Name)
	}
	if key := j.Spec.FindProgramChange(spec); key != "" {
		if err := s.admitOtherProgram(j, spec, key); err != nil {
			return err
		}
	}
	if !isSameJSON(spec.Notify, j.Spec.Notify) {
		if err := s.cfg.Policy.NotificationTargets.CheckRules(spec.Notify); err != nil {
			return err
		}
	}
	tasks, textBytes := 0, max(0, spec.TextBytes()-j.Spec.TextBytes())
	if spec.Role != j.Spec.Role {
		if err := s.admitMove(j, spec); err != nil {
			return err
		}
		if err := s.admitWaitingJob(ownerOf(spec), j); err != nil {
			return err
		}
		tasks, textBytes = countLiveTasks(j), spec.TextBytes()
	}
	return s.admitUsage(ownerOf(spec), tasks, textBytes)
}

// admitMove returns why a job may not move to the role of spec. Resources of placed tasks belong to the role that
// they were offered to.
func (s *State) admitMove(j *job.Job, spec *job.Spec) error {
	if !slices.Contains(s.roleNames(), spec.Role) {
		return s.unknownRoleError(spec.Role)
	}
	if err := s.checkNoTaskPlaced(j, "role"); err != nil {
		return err
	}
	return s.permissionsFor(spec.Role).CheckSpec(spec)
}

// admitOtherProgram returns why a job may not get another program or other resources, of which key is one. An instance of a
// service has the program of its version.
func (s *State) admitOtherProgram(j *job.Job, spec *job.Spec, key string) error {
	if spec.Service != nil {
		return fmt.Errorf("%s: job %q is a service: change its job file, and apply that", key, spec.Name)
	}
	if err := s.checkNoTaskPlaced(j, key); err != nil {
		return err
	}
	return s.permissionsFor(spec.Role).CheckSpec(spec)
}

func (s *State) checkNoTaskPlaced(j *job.Job, key string) error {
	if n := s.placed.tasks[j]; n > 0 {
		return &PlacedTasksError{Key: key, Name: j.Spec.Name, Placed: n, Tasks: len(j.Tasks)}
	}
	return nil
}

// PlacedTasksError reports that a key of a job cannot change because tasks of it hold resources.
type PlacedTasksError struct {
	Key, Name string
	// Placed of the job's Tasks hold resources.
	Placed, Tasks int
}

func (e *PlacedTasksError) Error() string {
	return fmt.Sprintf("%s: %d of %d tasks of job %q hold resources: queue it again with hold, and edit it then", e.Key, e.Placed, e.Tasks, e.Name)
}

func countLiveTasks(j *job.Job) (n int) {
	for i := range j.Tasks {
		if j.Tasks[i].State.IsLive() {
			n++
		}
	}
	return n
}

// HasSpec reports whether a job that has not ended, named as in AdmitEdit, has exactly this specification.
func (s *State) HasSpec(name string, spec *job.Spec) bool {
	j, ok := s.jobs.Find(name)
	return ok && !j.IsTerminal() && isSameJSON(*spec, *j.Spec)
}

// editJob replaces the specification of a job by an edited one. The job keeps its age and its place among jobs of equal
// priority.
func (s *State) editJob(e EditJob) {
	spec := e.Spec
	if s.AdmitEdit(e.Job, &spec) != nil {
		return
	}
	j, _ := s.jobs.Find(e.Job)
	if isSameJSON(spec, *j.Spec) {
		return
	}
	old, live := j.Spec, countLiveTasks(j)
	spec.Request.Types.Rules = spec.GPUTypeRules()
	s.liveBytes.Add(old, -old.TextBytes())
	s.liveBytes.Add(&spec, spec.TextBytes())
	s.taskMix.addJob(old, s.cfg.Policy.Overhead, -1)
	s.taskMix.addJob(&spec, s.cfg.Policy.Overhead, 1)
	if spec.Role != old.Role {
		s.liveTasks.Add(old, -live)
		s.liveTasks.Add(&spec, live)
		s.liveJobs.Add(old, -1)
		s.liveJobs.Add(&spec, 1)
		s.offerDemands.entry(old.Role).waiting -= live // no task is placed
		s.offerDemands.entry(spec.Role).waiting += live
		s.endedAttempts.moveJob(j.RunID(), spec.Role)
	}
	j.Spec = &spec
	j.Revision++
	s.recordChange(j, job.Change{Kind: job.EditChange, By: e.By, Keys: e.Keys})
	s.queueCache.forgetSpec(j)
	s.runTimes.dropJob(j)
	delete(s.reservationReasons, j.RunID())
	s.offers.stale = true
	for i := range j.Tasks {
		ref := taskRef{j, i}
		s.updateDeadlines(ref)
		if ref.get().State == job.Waiting {
			s.requestOffers(ref)
		}
	}
}

// recordChange adds a change to the history of a job, and marks the job as changed.
func (s *State) recordChange(j *job.Job, c job.Change) {
	c.Time, c.State = s.now, j.State()
	j.AddChange(c)
	s.changes.markJob(j)
}
