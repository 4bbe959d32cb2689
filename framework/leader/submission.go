package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/cron"
	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/job"
)

// submission is a job, or a schedule of jobs, that is submitted or checked.
type submission struct {
	origin submissionOrigin
	// spec is completed by the checks: its role, and the user of its processes.
	spec *job.Spec
	// by has the permissions of the requester; nil permits everything.
	by *access.Grant
	// retry is the run of which only the tasks that did not finish are run again; zero for none.
	retry job.RunID
	// isDryRun: nothing is recorded, and nothing is counted.
	isDryRun bool
	// schedule is set for a schedule, with the event that records it.
	schedule *cron.ScheduleEntry
	record   sched.PutDocument
}

// submissionOrigin is where a submission comes from.
type submissionOrigin uint8

const (
	// byUser: a job from the REST API, which the command line, the page and the Go client use.
	byUser submissionOrigin = 1 << iota
	// bySchedule: a run of a schedule that is due.
	bySchedule
	// byExtension: a job that an extension has made of its own object, such as an app of Marathon.
	byExtension
	// asSchedule: a schedule itself. Its runs are checked again when they are due.
	asSchedule

	everywhere = byUser | bySchedule | byExtension | asSchedule
)

// submissionCheck is one reason to refuse a submission.
type submissionCheck struct {
	// name is the required condition, for the documentation. field is the key of the job file that violates it, or "".
	name, field string
	// of has the origins to which the check applies.
	of submissionOrigin
	// beforeLoop is set if the check may wait for the master or the disk. Its st is nil.
	beforeLoop bool
	check      func(l *Leader, ctx context.Context, st *sched.State, s *submission) error
}

// submissionChecks are all reasons for which the leader refuses a submission, in their order. Parsing and the checks of the
// job's own keys (job.Spec.Complete) come before: they need no scheduler. Only the last check counts something, so that
// refused submissions count nowhere. docs/internals/reading-the-code.md has the same list.
var submissionChecks = concatChecks(
	[]submissionCheck{
		{"agents have the GPU types", "gpu_type", byUser | asSchedule, true, (*Leader).checkGPUTypes},
		{"the working folder is stored, and the requester may use it", "workdir", byUser | asSchedule, true, (*Leader).checkWorkdir},
		{"there is a store for artifacts", "artifacts", byUser | asSchedule, true, (*Leader).checkArtifactStore},
		{"containers that reach the machine can run as the unix user who owns them", "user", byUser | asSchedule, true, (*Leader).checkHostUser},
		{"the folder of submission is shared, and the tasks run as their owner", "chdir", byUser | asSchedule, true, (*Leader).checkChdir},
		{"the requester may submit to the role", "role", byUser | asSchedule, false, (*Leader).checkRolePermission},
		{"the schedule's owner may still submit to the role", "role", bySchedule, false, (*Leader).checkScheduleOwner},
		{"the requester may run processes as the user", "user", byUser | asSchedule, false, (*Leader).checkProcessUser},
		{"it has no reserved label or group", "labels", bySchedule, false, (*Leader).checkReserved},
	},
	admissionChecks(),
	[]submissionCheck{
		{"the run has tasks to run again", "", byUser, false, (*Leader).checkRetry},
		{"the schedule is new and within the limits", "schedule", asSchedule, false, (*Leader).checkScheduleRecord},
		{"the journal has space", "", everywhere, false, (*Leader).checkJournalSpace},
		{"the user's submissions in a minute are within the role's limit", "", byUser, false, (*Leader).checkSubmissionRate},
	},
)

func concatChecks(lists ...[]submissionCheck) (all []submissionCheck) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// admissionChecks returns the checks of package sched. Those of limits do not apply to a schedule: its runs are submitted
// later.
func admissionChecks() (list []submissionCheck) {
	for _, c := range sched.AdmissionChecks() {
		of := everywhere
		if c.CountsUsage {
			of &^= asSchedule
		}
		list = append(list, submissionCheck{c.Name, c.Field, of, false, func(_ *Leader, _ context.Context, st *sched.State, s *submission) error {
			return st.CheckAdmission(&c, s.run(), s.sees())
		}})
	}
	return list
}

// run returns the job that runs: of a schedule, each of its jobs.
func (s *submission) run() *job.Spec {
	if s.origin != asSchedule {
		return s.spec
	}
	run := *s.spec
	run.Schedule = nil
	return &run
}

// sees returns which roles' jobs the submission may depend on.
func (s *submission) sees() func(role string) bool {
	if s.origin != byUser {
		return func(string) bool { return true }
	}
	return func(role string) bool { return s.by.HasPermission(access.View, role) }
}

// checkBeforeLoop makes the checks that may wait. It returns the first refusal, an *api.Problem.
func (l *Leader) checkBeforeLoop(ctx context.Context, s *submission) error {
	return l.checkSubmission(ctx, nil, s, true)
}

// checkInLoop completes the submission's role and the runs after which it starts, and makes the other checks. It runs in the
// loop, and returns the first refusal, an *api.Problem.
func (l *Leader) checkInLoop(st *sched.State, s *submission) error {
	if s.spec.Role == "" {
		s.spec.Role = defaultRole(st, s.by)
	}
	s.spec.After = job.SubmittedDependencies(s.spec.After) // a user may have copied a recorded specification
	st.ResolveDependencies(s.spec, s.sees())
	return l.checkSubmission(context.Background(), st, s, false)
}

func (l *Leader) checkSubmission(ctx context.Context, st *sched.State, s *submission, beforeLoop bool) error {
	for i := range submissionChecks {
		c := &submissionChecks[i]
		if c.of&s.origin == 0 || c.beforeLoop != beforeLoop {
			continue
		}
		err := c.check(l, ctx, st, s)
		if err == nil {
			continue
		}
		if e := new(sched.LimitError); errors.As(err, &e) && e.CountsWaitingJobs && !s.isDryRun {
			l.loop.counters.CountAPIRejection("waiting_jobs", waitingJobsScope(e))
		}
		return refusal(err, c.field)
	}
	return nil
}

// refusal returns the Problem of a refused submission or change, with the key at fault.
func refusal(err error, field string) error {
	p := (*api.Problem)(nil)
	if !errors.As(err, &p) {
		p = api.NewProblemf(refusalStatus(err), "%w", err)
		if e := new(sched.LimitError); errors.As(err, &e) && e.CountsWaitingJobs {
			p = p.WithCode(api.CodeTooManyWaitingJobs, e.User)
		}
	}
	if p.Field == "" {
		p.Field = field
	}
	return p
}

// refusalStatus returns the HTTP status of a refusal.
func refusalStatus(err error) int {
	limit := new(sched.LimitError)
	switch {
	case errors.As(err, &limit) && !limit.CountsWaitingJobs:
		return http.StatusServiceUnavailable
	case errors.As(err, new(*sched.JobNotEndedError)), errors.As(err, new(*sched.JobEndedError)), errors.As(err, new(*sched.PlacedTasksError)):
		return http.StatusConflict
	case errors.As(err, new(*admission.ForbiddenSpecError)), errors.As(err, new(*notification.ForbiddenTargetError)):
		return http.StatusForbidden
	}
	return http.StatusUnprocessableEntity
}

func (l *Leader) checkGPUTypes(ctx context.Context, _ *sched.State, s *submission) error {
	return l.Jobs.checkTypes(ctx, s.spec.Request.Types)
}

// checkWorkdir also keeps the archive for a grace time, within which the job must be recorded.
func (l *Leader) checkWorkdir(_ context.Context, _ *sched.State, s *submission) error {
	return l.Workdirs.checkStored(s.by, s.spec.Workdir)
}

func (l *Leader) checkArtifactStore(_ context.Context, _ *sched.State, s *submission) error {
	return l.Artifacts.checkStore(s.spec)
}

func (l *Leader) checkHostUser(_ context.Context, _ *sched.State, s *submission) error {
	return assignHostUser(s.by, s.spec)
}

// checkRolePermission names the roles to which the requester may submit, if it refuses the role.
func (l *Leader) checkRolePermission(_ context.Context, st *sched.State, s *submission) error {
	err := request.CheckRoleAccess(s.by, access.Submit, s.spec.Role)
	if p := (*api.Problem)(nil); errors.As(err, &p) && p.Status == http.StatusForbidden {
		if names := submitRoles(st, s.by); len(names) > 0 {
			more := ""
			if n := len(names) - maxNamedRoles; n > 0 {
				names, more = names[:maxNamedRoles], fmt.Sprintf(" and %d more", n)
			}
			return api.NewProblemf(http.StatusForbidden, "%s; it may submit to %s%s: name one by role or --role", p.Detail, strings.Join(names, ", "), more)
		}
	}
	return err
}

// maxNamedRoles is the largest number of roles in an error.
const maxNamedRoles = 10

func (l *Leader) checkScheduleOwner(_ context.Context, _ *sched.State, s *submission) error {
	return l.Schedules.checkOwner(s.spec)
}

func (l *Leader) checkProcessUser(_ context.Context, _ *sched.State, s *submission) error {
	return assignUser(s.by, s.spec)
}

// checkReserved is for runs of schedules that were recorded when fewer labels were reserved. Others are checked when they are
// parsed.
func (l *Leader) checkReserved(_ context.Context, _ *sched.State, s *submission) error {
	return s.spec.CheckReserved()
}

func (l *Leader) checkRetry(_ context.Context, st *sched.State, s *submission) error {
	if s.retry.Name == "" {
		return nil
	}
	return st.AdmitRetry(s.retry)
}

func (l *Leader) checkScheduleRecord(_ context.Context, st *sched.State, s *submission) error {
	return l.Schedules.prepareRecord(st, s)
}

func (l *Leader) checkJournalSpace(_ context.Context, _ *sched.State, s *submission) error {
	if s.isDryRun {
		return nil
	}
	return l.checkSpace()
}

func (l *Leader) checkSubmissionRate(_ context.Context, st *sched.State, s *submission) error {
	if s.isDryRun {
		return nil
	}
	err := l.Jobs.rates.take(l.loop.clock(), st.Roles(), s.spec)
	if err != nil {
		l.loop.counters.CountAPIRejection("submissions", "client")
	}
	return err
}
