package sched

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"mesos-gpu/job"
)

// updateFraction is the part of a service's tasks that an update replaces at the same time: a tenth, and at least one task.
const updateFraction = 10

// maxOldSpecs limits the earlier versions of a service whose tasks run, since their specifications are stored.
const maxOldSpecs = 10

// AdmitUpdate returns why a service, named as in AdmitEdit, may not get another specification, nil if it may.
// job.Spec.Complete must have accepted the specification.
func (s *State) AdmitUpdate(name string, spec *job.Spec) error {
	j, ok := s.jobs.Find(name)
	switch {
	case !ok:
		return fmt.Errorf("there is no job %q", name)
	case j.Spec.Service == nil:
		return fmt.Errorf("job %q is not a service, and does not change: submit it again once it has ended", spec.Name)
	case j.IsTerminal():
		return fmt.Errorf("service %q has ended: submit it again", spec.Name)
	case isBeingKilled(j):
		return fmt.Errorf("service %q is being killed: submit it again once it has ended", spec.Name)
	case len(j.OldSpecs) >= maxOldSpecs:
		return fmt.Errorf("tasks of %d earlier versions of service %q run: update it again once some of them are replaced", len(j.OldSpecs), spec.Name)
	}
	for _, fixed := range []struct {
		key  string
		same bool
	}{
		{"service", spec.Service != nil},
		{"role", s.roleOf(spec) == j.Spec.Role},
		{"group", spec.Group == j.Spec.Group},
		{"matrix", isSameJSON(spec.Matrix, j.Spec.Matrix)},
		{"after", isSameJSON(submittedDependencies(spec), submittedDependencies(j.Spec))},
	} {
		if !fixed.same {
			return fmt.Errorf("%s: an update cannot change it: kill service %q, and submit it again", fixed.key, spec.Name)
		}
	}
	if err := s.checkPermitted(spec); err != nil {
		return err
	}
	return s.admitUsage(ownerOf(j.Spec), max(0, spec.Tasks-j.WantedTasks()), max(0, spec.TextBytes()-j.Spec.TextBytes()))
}

// isSameJSON reports whether two values have the same JSON. Values that were read from the journal may have nil for empty
// lists.
func isSameJSON[T any](a, b T) bool {
	one, err := json.Marshal(a)
	other, otherErr := json.Marshal(b)
	return err == nil && otherErr == nil && bytes.Equal(one, other)
}

// submittedDependencies returns the dependencies of a job as they were submitted, not nil: isSameJSON distinguishes nil.
func submittedDependencies(spec *job.Spec) []job.Dependency {
	return append([]job.Dependency{}, job.SubmittedDependencies(spec.After)...)
}

// updateService gives a service another specification. Waiting tasks have it at once. Placed ones are replaced step by
// step, see advanceUpdate.
func (s *State) updateService(e UpdateService) []Operation {
	spec := e.Spec
	if s.AdmitUpdate(e.Job, &spec) != nil {
		return nil
	}
	j, _ := s.jobs.Find(e.Job)
	wanted, old := spec.Tasks, j.Spec
	if a := spec.Service.Autoscaling; a.IsSet() && old.Service.Autoscaling.IsSet() { // load has decided on the number
		wanted = min(max(j.WantedTasks(), a.Min), a.Max)
	}
	spec.Tasks, spec.Role, spec.Owner, spec.ClientKey, spec.After = old.Tasks, old.Role, old.Owner, old.ClientKey, old.After
	spec.Request.Types.Rules = spec.GPUTypeRules()
	var ops []Operation
	if !isSameJSON(spec, *old) {
		ops = s.changeSpec(j, spec)
		s.recordChange(j, job.Change{Kind: job.ApplyChange, By: e.By, Version: j.Version, Keys: e.Keys})
	}
	return append(ops, s.scaleService(ScaleService{Job: e.Job, Tasks: wanted, By: e.By})...)
}

// changeSpec replaces a service's specification by another one with as many tasks.
func (s *State) changeSpec(j *job.Job, spec job.Spec) []Operation {
	old := j.Spec
	s.liveBytes.Add(old, spec.TextBytes()-old.TextBytes())
	s.taskMix.addJob(old, s.cfg.Policy.Overhead, -1)
	s.taskMix.addJob(&spec, s.cfg.Policy.Overhead, 1)
	j.OldSpecs = maps.Clone(j.OldSpecs) // copies of the job share the old map
	if j.OldSpecs == nil {
		j.OldSpecs = map[int]*job.Spec{}
	}
	j.OldSpecs[j.Version] = old
	j.Spec = &spec
	j.Version++
	s.changes.markJob(j)
	s.queueCache, s.explanations = queueCache{}, nil // both contain what its tasks need
	delete(s.reservationReasons, j.RunID())
	for i := range j.Tasks {
		ref := taskRef{j, i}
		if ref.get().State == job.Waiting {
			t := s.changeTask(ref)
			t.Version, t.Failures, t.ImageExclusions = j.Version, 0, nil
			if t.NotBefore.After(s.now) {
				t.NotBefore = s.now
			}
			s.requestOffers(ref)
		}
	}
	s.updating[j] = true
	return s.advanceUpdate(j)
}

// advanceUpdates continues the updates of all services.
func (s *State) advanceUpdates() []Operation {
	var ops []Operation
	for _, j := range slices.SortedFunc(maps.Keys(s.updating), compareSubmission) {
		ops = append(ops, s.advanceUpdate(j)...)
	}
	return ops
}

// advanceUpdate replaces placed tasks of earlier versions of a service. As long as tasks of the present version do not run,
// or are not healthy, it replaces only as many others as updateFraction permits: an update that fails stops there. Tasks
// of earlier versions that do not run well are replaced first.
func (s *State) advanceUpdate(j *job.Job) []Operation {
	var outdated, failing []taskRef
	busy := 0
	versions := map[int]bool{}
	for i := range j.Tasks {
		ref := taskRef{j, i}
		t := ref.get()
		switch {
		case t.KillReason == job.KillByScaling:
		case t.Version == j.Version && t.KillRequested.IsZero():
			if !isServing(ref) {
				busy++
			}
			continue
		case !t.KillRequested.IsZero():
			busy++
		case t.State == job.Unreachable: // replaced by replace_after
		case isServing(ref):
			outdated = append(outdated, ref)
		default:
			failing = append(failing, ref)
		}
		if t.State.IsPlaced() {
			versions[t.Version] = true
		}
	}
	s.forgetOldSpecs(j, versions)
	var ops []Operation
	outdated = append(failing, outdated...)
	for _, ref := range outdated[:min(len(outdated), max(0, max(1, j.WantedTasks()/updateFraction)-busy))] {
		ops = append(ops, s.requestEnd(ref, job.KillByReplacement, "", fmt.Sprintf("replaced by version %d of its service", j.Version))...)
	}
	return ops
}

// isServing reports whether a task runs and is not known to be unhealthy. With a health check, it must have succeeded.
func isServing(ref taskRef) bool {
	t := ref.get()
	if t.State != job.Running {
		return false
	}
	if ref.job.SpecOf(t).HealthCheck == nil {
		return t.Healthy == nil || *t.Healthy
	}
	return t.Healthy != nil && *t.Healthy
}

// forgetOldSpecs removes the specifications of earlier versions that no placed task has. Without any, the update is done.
func (s *State) forgetOldSpecs(j *job.Job, versions map[int]bool) {
	kept := map[int]*job.Spec{}
	for version, spec := range j.OldSpecs {
		if versions[version] {
			kept[version] = spec
		}
	}
	if len(kept) < len(j.OldSpecs) {
		j.OldSpecs = kept
		s.changes.markJob(j)
	}
	if len(kept) == 0 {
		delete(s.updating, j)
	}
}
