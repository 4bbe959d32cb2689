package sched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/job/spell"
)

// MissingError says that a job is to wait for one that there is not.
type MissingError struct {
	Name string
	// Near is the name that was probably meant, or "".
	Near string
}

func (e *MissingError) Error() string {
	text := fmt.Sprintf("after: there is no job %q", e.Name)
	if e.Near != "" {
		return text + fmt.Sprintf("; did you mean %q?", e.Near)
	}
	return text + ": submit it first"
}

// admitAfter: the jobs that one waits for are there, so that none can wait for
// itself in a circle, and may still end as it wants.
func (s *State) admitAfter(spec *job.Spec, sees func(role string) bool) error {
	for _, d := range spec.After {
		j, ok := s.jobs[d.Job]
		switch {
		case !ok || !sees(j.Spec.Role):
			return &MissingError{Name: d.Job, Near: s.near(d.Job, sees)}
		case j.Terminal() && !d.Holds(j.State()):
			return fmt.Errorf("after: job %s has ended and is %s: submit it anew first", j.Spec.Name, unmet(d, j.State()))
		}
	}
	return nil
}

// unmet reads "FAILED, not finished".
func unmet(d job.Dependency, state job.State) string {
	if d.Outcome == job.Fail {
		return fmt.Sprintf("%s, not failed", state)
	}
	return fmt.Sprintf("%s, not finished", state)
}

// nearAmong is how many of the newest jobs a name is looked for among.
const nearAmong = 1000

// near is the name of a visible job that differs in a letter or two, or "".
func (s *State) near(name string, sees func(role string) bool) string {
	best, distance := "", 3
	for _, list := range [][]string{s.queue, s.ended} {
		for _, other := range list[max(0, len(list)-nearAmong):] {
			if d := spell.Distance(name, other); d < distance && d < len(name) && sees(s.jobs[other].Spec.Role) {
				best, distance = other, d
			}
		}
	}
	return best
}

// await notes which jobs a new one waits for. Those that have ended already
// have done so as it wants: admitAfter saw to that.
func (s *State) await(j *job.Job) {
	after := slices.Clone(j.Spec.After)
	for i := range after {
		other := s.jobs[after[i].Job]
		if after[i].Met = other.Terminal(); !after[i].Met {
			s.dependents[other.Spec.Name] = append(s.dependents[other.Spec.Name], j.Spec.Name)
		}
	}
	j.Spec.After = after
}

// release tells those who wait for a job that it has ended. What they have
// waited for is recorded with them: the job may be forgotten later.
func (s *State) release(now time.Time, ended *job.Job) {
	names := s.dependents[ended.Spec.Name]
	delete(s.dependents, ended.Spec.Name)
	state := ended.State()
	for _, name := range names {
		j := s.jobs[name]
		if j == nil || j.Terminal() {
			continue
		}
		after := slices.Clone(j.Spec.After) // others read the old one
		i := slices.IndexFunc(after, func(d job.Dependency) bool { return d.Job == ended.Spec.Name && !d.Met })
		if i < 0 {
			continue // another job of the name, submitted since
		}
		if !after[i].Holds(state) {
			s.failAll(now, j, fmt.Sprintf("job %s is %s", ended.Spec.Name, unmet(after[i], state)))
			continue
		}
		after[i].Met = true
		j.Spec.After = after
		s.recordJob(j)
		if len(j.Spec.WaitsFor()) > 0 {
			continue
		}
		for i := range j.Tasks {
			if ref := (taskRef{j, i}); ref.task().State == job.Waiting {
				ref.task().NotBefore = now
				s.touch(ref)
				s.demand(ref)
			}
		}
	}
}

// abandon: a job that has ended waits for no other any more.
func (s *State) abandon(j *job.Job) {
	for _, d := range j.Spec.WaitsFor() {
		names := slices.DeleteFunc(s.dependents[d.Job], func(name string) bool { return name == j.Spec.Name })
		if s.dependents[d.Job] = names; len(names) == 0 {
			delete(s.dependents, d.Job)
		}
	}
}

// failAll ends a job that has not started, and with it those who wait for it
// to finish.
func (s *State) failAll(now time.Time, j *job.Job, why string) {
	for i := range j.Tasks {
		switch ref := (taskRef{j, i}); {
		case j.Tasks[i].State == job.Waiting:
			s.move(now, ref, job.Failed, why)
		case j.Tasks[i].Retired():
			s.dismiss(now, ref, why)
		}
	}
	s.settle(j)
}

// awaiting says which jobs must end first.
func (s *State) awaiting(j *job.Job, missing int, open []job.Dependency) Reason {
	lack := make([]string, len(open))
	seen := make([]string, len(open))
	for i, d := range open {
		lack[i] = d.String()
		seen[i] = "it is not there any more"
		if other := s.jobs[d.Job]; other != nil {
			seen[i] = fmt.Sprintf("it is %s", other.State())
		}
		if len(open) > 1 {
			seen[i] = strings.Replace(seen[i], "it", d.Job, 1)
		}
	}
	return reasonOf(j, missing, shortage{lack: strings.Join(lack, ", "), seen: strings.Join(seen, ", ")})
}
