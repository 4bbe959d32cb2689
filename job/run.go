package job

import (
	"cmp"
	"maps"
	"strconv"
	"strings"
)

// RunID identifies one run of a job. Each submission of a name is a run of its own.
type RunID struct {
	// Name is the name of the job, Run its number: 1 for the first submission of the name.
	Name string
	Run  int
}

// runSeparator stands between the name and the number of a run. Names do not contain it.
const runSeparator = "@"

// String returns NAME@RUN.
func (r RunID) String() string { return r.Name + runSeparator + strconv.Itoa(r.Run) }

// Reference returns NAME@RUN, or NAME for the number 0. ParseRunID reads it.
func (r RunID) Reference() string {
	if r.Run == 0 {
		return r.Name
	}
	return r.String()
}

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

// Self returns the job, also for types that embed one.
func (j *Job) Self() *Job { return j }

// SpecOf returns the specification with which a task was launched. The caller must not change it.
func (j *Job) SpecOf(t *Task) *Spec {
	if old, ok := j.OldSpecs[t.Version]; ok {
		return old
	}
	return j.Spec
}

// SandboxID returns the ID of the attempt in whose sandbox the task's output is.
func (t *Task) SandboxID() string { return cmp.Or(t.FinishedAs, t.ID) }

// RunID returns the run to which the task belongs.
func (t *Task) RunID() RunID { return RunID{t.Job, max(t.Run, 1)} }

// SubmittableSpec returns a copy of the job's Spec that a user may submit, without what the scheduler has set: the owner,
// the client key, the marks of a Marathon app, and which dependencies are met. A service has as many tasks as it wants now.
func (j *Job) SubmittableSpec() Spec { return j.Spec.Submittable(j.WantedTasks()) }

// Submittable returns what SubmittableSpec returns for a job of this Spec that wants so many tasks.
func (s *Spec) Submittable(wantedTasks int) Spec {
	c := *s
	c.Owner, c.ClientKey, c.Request.Types.Rules = "", nil, nil
	if c.Service != nil {
		c.Tasks = max(wantedTasks, 1)
		if a := c.Service.Autoscaling; a.IsSet() {
			c.Tasks = min(max(c.Tasks, a.Min), a.Max)
		}
	}
	c.After = SubmittedDependencies(c.After)
	if c.CheckReserved() != nil {
		c.Labels = maps.Clone(c.Labels)
		delete(c.Labels, AppLabel)
		delete(c.Labels, AppVersionLabel)
		if strings.HasPrefix(c.Group, AppGroupPrefix) {
			c.Group = ""
		}
	}
	return c
}
