package sched

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/job"
)

// Admit returns why a job may not be submitted, nil if it may. Callers check it before SubmitJob, which ignores a job
// that may not.
func (s *State) Admit(spec *job.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	return s.AdmitCompleted(spec)
}

// AdmitCompleted is Admit for a job that job.Spec.Complete has accepted.
func (s *State) AdmitCompleted(spec *job.Spec) error {
	return s.AdmitBy(spec, seesAll)
}

// seesAll is the view of a requester without an access file.
func seesAll(string) bool { return true }

// AdmitBy is AdmitCompleted for a user who sees only the jobs of some roles. A job
// cannot depend on jobs that its user does not see.
func (s *State) AdmitBy(spec *job.Spec, sees func(role string) bool) error {
	return s.admitJob(spec, spec.TextBytes(), sees)
}

// admitJob is AdmitBy for a job whose texts have a known length.
func (s *State) admitJob(spec *job.Spec, textBytes int, sees func(role string) bool) error {
	r := s.newAdmissionRequest(spec, sees)
	r.textBytes = textBytes
	for i := range admissionChecks {
		if err := admissionChecks[i].check(s, r); err != nil {
			return err
		}
	}
	return nil
}

// AdmissionCheck is one reason for which the State refuses a job.
type AdmissionCheck struct {
	// Name is the required condition. Field is the key of the job file that violates it, or "".
	Name, Field string
	// CountsUsage: the check depends on how much is submitted and waits now.
	CountsUsage bool
	check       func(*State, *admissionRequest) error
}

// admissionRequest is a job to admit.
type admissionRequest struct {
	spec      *job.Spec
	role      string
	owner     jobOwner
	textBytes int
	// sees reports whether the job's user sees the jobs of a role.
	sees func(role string) bool
}

func (s *State) newAdmissionRequest(spec *job.Spec, sees func(role string) bool) *admissionRequest {
	role := s.roleOf(spec)
	return &admissionRequest{spec: spec, role: role, owner: jobOwner{role, spec.Owner}, sees: sees}
}

// admissionChecks are all reasons for which the State refuses a job, in their order.
var admissionChecks = []AdmissionCheck{
	{Name: "no job of the owner and name runs or waits", Field: "name", check: (*State).checkNameFree},
	{Name: "the role exists", Field: "role", check: (*State).checkRoleExists},
	{Name: "the role's jobs may use what it needs of its agents", check: (*State).checkHostPermissions},
	{Name: "its notification targets are allowed", Field: "notify", check: (*State).checkNotificationTargets},
	{Name: "it is no schedule", Field: "schedule", check: (*State).checkNoSchedule},
	{Name: "the jobs that it runs after exist", Field: "after", check: func(s *State, r *admissionRequest) error { return s.admitDependencies(r.spec, r.sees) }},
	{
		Name:        "the waiting jobs of the role and the user are within their limits",
		CountsUsage: true,
		check:       func(s *State, r *admissionRequest) error { return s.admitWaitingJob(r.owner, nil) },
	},
	{
		Name:        "tasks and texts of all jobs are within the scheduler's limits",
		CountsUsage: true,
		check:       func(s *State, r *admissionRequest) error { return s.admitUsage(r.owner, r.spec.Tasks, r.textBytes) },
	},
}

// AdmissionChecks returns the checks that Admit makes, in their order.
func AdmissionChecks() []AdmissionCheck { return slices.Clone(admissionChecks) }

// CheckAdmission makes one of the checks of AdmissionChecks. job.Spec.Complete must have accepted the job.
func (s *State) CheckAdmission(c *AdmissionCheck, spec *job.Spec, sees func(role string) bool) error {
	r := s.newAdmissionRequest(spec, sees)
	if c.CountsUsage {
		r.textBytes = spec.TextBytes()
	}
	return c.check(s, r)
}

func (s *State) checkNameFree(r *admissionRequest) error {
	if j, ok := s.jobs.NewestOfOwner(r.spec.Owner, r.spec.Name); ok && !j.IsTerminal() {
		return &JobNotEndedError{Name: r.spec.Name, State: j.State()}
	}
	return nil
}

func (s *State) checkRoleExists(r *admissionRequest) error {
	if !slices.Contains(s.roleNames(), r.role) {
		return s.unknownRoleError(r.spec.Role)
	}
	return nil
}

func (s *State) checkHostPermissions(r *admissionRequest) error {
	return s.permissionsFor(r.role).CheckSpec(r.spec)
}

func (s *State) checkNotificationTargets(r *admissionRequest) error {
	return s.cfg.Policy.NotificationTargets.CheckRules(r.spec.Notify)
}

func (s *State) checkNoSchedule(r *admissionRequest) error {
	if r.spec.Schedule != nil {
		return errors.New("schedule: this is a schedule, not a job: submit it as such, to /v1/schedules")
	}
	return nil
}

// checkPermitted returns an error if a job needs more of its agents than its role permits, or notifies targets that are
// not allowed.
func (s *State) checkPermitted(spec *job.Spec) error {
	if err := s.permissionsFor(s.roleOf(spec)).CheckSpec(spec); err != nil {
		return err
	}
	return s.cfg.Policy.NotificationTargets.CheckRules(spec.Notify)
}

// permissionsFor returns what jobs of the role may use of their agents.
func (s *State) permissionsFor(role string) *admission.HostPermissions {
	return admission.PermissionsFor(role, &s.cfg.Policy.Permissions, s.cfg.Policy.RolePermissions)
}

// JobNotEndedError reports that a job of the same name has not ended.
type JobNotEndedError struct {
	// Name is the submitted name, State that of the job which has it.
	Name  string
	State job.State
}

func (e *JobNotEndedError) Error() string {
	return fmt.Sprintf("job %q is %s: kill it first, or submit under another name (--name); "+
		"mesos-gpu apply updates a service, and edit changes keys of a job", e.Name, e.State)
}

// RunWithOtherSpec returns the number of the newest run with the name and owner of spec if a user has submitted another
// specification with it, 0 if not or if no such run is remembered.
func (s *State) RunWithOtherSpec(spec *job.Spec) int {
	old, ok := s.jobs.NewestOfOwner(spec.Owner, spec.Name)
	if !ok || isSameJSON(old.SubmittableSpec(), spec.Submittable(spec.Tasks)) {
		return 0
	}
	return old.Run
}

// AdmitRetry returns why the tasks of a run that did not finish may not be run again without the others, nil if they may.
func (s *State) AdmitRetry(run job.RunID) error {
	j, ok := s.jobs.FindRun(run)
	switch {
	case !ok:
		return fmt.Errorf("there is no job %q", run)
	case !j.IsTerminal():
		return &JobNotEndedError{Name: j.Spec.Name, State: j.State()}
	case j.Spec.Gang:
		return fmt.Errorf("job %q is a gang, whose tasks start together: run all of them again", run)
	case j.Spec.Service != nil:
		return fmt.Errorf("job %q is a service, whose tasks do not finish: run all of them again", run)
	case j.State() == job.Finished:
		return fmt.Errorf("every task of job %q has finished: run all of them again", run)
	}
	return nil
}

func (s *State) submitJob(e SubmitJob) {
	spec := e.Spec
	var before []job.Task // of RetryRun
	if e.RetryRun.Name != "" {
		if e.RetryRun.Name != spec.Name || s.AdmitRetry(e.RetryRun) != nil {
			return
		}
		j, _ := s.jobs.FindRun(e.RetryRun)
		before = j.Tasks // remains valid if the run is forgotten below
	}
	spec.Role = s.roleOf(&spec) // fixed now, since the default may change
	s.ResolveDependencies(&spec, seesAll)
	textBytes := spec.TextBytes()
	if s.admitJob(&spec, textBytes, seesAll) != nil {
		return
	}
	// Task ids contain the time of submission, and the queue is sorted by it: it increases even if the clock does not.
	submitted := s.now
	if !submitted.After(s.lastSubmitted) {
		submitted = s.lastSubmitted.Add(time.Nanosecond)
	}
	run := 1
	if old, ok := s.jobs.Find(spec.Name); ok {
		run = old.Run + 1
	}
	s.submittedParts.InternSpec(&spec)
	spec.Request.Types.Rules = spec.GPUTypeRules()
	j := &job.Job{Spec: &spec, Run: run, Number: s.lastNumber + 1, Submitted: submitted, Tasks: make([]job.Task, spec.Tasks)}
	s.addDependent(j)
	s.addJob(j)
	s.limitRuns(j)
	s.enqueueJob(j, textBytes)
	s.changes.markJob(j)
	s.taskMix.addJob(j.Spec, s.cfg.Policy.Overhead, 1)
	for i := range j.Tasks {
		if i < len(before) && before[i].State == job.Finished {
			s.addFinishedTask(taskRef{j, i}, &before[i])
			continue
		}
		s.enqueueAttempt(taskRef{j, i}, job.Task{Attempt: 1})
	}
}

// addFinishedTask adds a task that has finished in an earlier run of the job.
func (s *State) addFinishedTask(ref taskRef, before *job.Task) {
	j := ref.job
	t := s.changeTask(ref)
	*t = job.Task{
		ID: job.FormatTaskID(j, ref.index, 1), Job: j.Spec.Name, Run: j.Run, Index: ref.index, Attempt: 1, State: job.Finished, Changed: s.now,
		FinishedAs: before.SandboxID(), Message: fmt.Sprintf("finished in run %d", before.RunID().Run),
		AgentID: before.AgentID, Hostname: before.Hostname, AgentURL: before.AgentURL, ExitCode: before.ExitCode,
	}
	if before.FinishedAs != "" {
		t.Message = before.Message
	}
	s.tasks[t.ID] = ref
	s.changes.addTransition(s.now, ref)
	s.changes.lastTransition().Repeated = true
}
