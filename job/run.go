package job

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// RunID identifies one run of a job. Each submission of a name is a run of its own.
type RunID struct {
	// Name is that of the job, Run its number: 1 for the first submission of the name.
	Name string
	Run  int
}

// runSeparator stands between the name and the number of a run. Names do not contain it.
const runSeparator = "@"

// String returns NAME@RUN.
func (r RunID) String() string { return r.Name + runSeparator + strconv.Itoa(r.Run) }

// ParseRunID parses NAME@RUN, or NAME, which means the newest run and has the number 0. It returns false if the number is
// none; it does not check the name.
func ParseRunID(text string) (id RunID, ok bool) {
	name, number, has := strings.Cut(text, runSeparator)
	if !has {
		return RunID{Name: name}, true
	}
	run, err := strconv.Atoi(number)
	return RunID{name, run}, err == nil && run > 0 && number == strconv.Itoa(run)
}

// CompareRuns orders runs by name, then by number.
func CompareRuns(a, b RunID) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Run, b.Run))
}

// RunID returns the run's name and number.
func (j *Job) RunID() RunID { return RunID{j.Spec.Name, max(j.Run, 1)} }

// SpecOf returns the specification with which a task was launched. The caller must not change it.
func (j *Job) SpecOf(t *Task) *Spec {
	if old, ok := j.OldSpecs[t.Version]; ok {
		return old
	}
	return &j.Spec
}

// SandboxID returns the ID of the attempt in whose sandbox the task's output is.
func (t *Task) SandboxID() string { return cmp.Or(t.FinishedAs, t.ID) }

// RunID returns the run to which the task belongs.
func (t *Task) RunID() RunID { return RunID{t.Job, max(t.Run, 1)} }

// SubmittableSpec returns a copy of the job's Spec that a user may submit, without what the scheduler has set: the owner,
// the client key, the marks of a Marathon app, and which dependencies are met. A service has as many tasks as it wants now.
func (j *Job) SubmittableSpec() Spec {
	s := j.Spec
	s.Owner, s.ClientKey, s.Request.Types.Rules = "", nil, nil
	if s.Service != nil {
		s.Tasks = max(j.WantedTasks(), 1)
		if a := s.Service.Autoscaling; a.IsSet() {
			s.Tasks = min(max(s.Tasks, a.Min), a.Max)
		}
	}
	s.After = slices.Clone(s.After)
	for i := range s.After {
		s.After[i].Met = false
	}
	if s.CheckReserved() != nil {
		s.Labels = maps.Clone(s.Labels)
		delete(s.Labels, AppLabel)
		delete(s.Labels, AppVersionLabel)
		if strings.HasPrefix(s.Group, AppGroupPrefix) {
			s.Group = ""
		}
	}
	return s
}
