package leader

import (
	"context"
	"errors"
	"maps"
	"slices"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// WaitForChange waits until there may be changes that TakeChanges has not returned.
// It may return without any.
func (h *ExtensionHandle) WaitForChange(ctx context.Context) error {
	return h.changes.AwaitChange(ctx)
}

// TakeChanges returns the jobs that have changed since the last call by NAME@RUN; the
// first call returns the newest runs of all jobs. They include removed jobs. It also returns the task
// state changes since then, each once and in order, with the task as it was after the
// change. They include changes of attempts that have been replaced since. A task in
// state Lost may appear again if it reappears and ends.
func (h *ExtensionHandle) TakeChanges() (changed map[string]*job.Spec, moves []job.Task) {
	return h.changes.TakeChanges()
}

// ExtensionHandle lets an extension submit and control jobs, which have no owner. When a
// method returns nil, its effect is recorded in the journal.
type ExtensionHandle struct {
	// leader runs the requests in its loop.
	leader *Leader
	// changes collects the recorded changes of jobs for TakeChanges.
	changes *readmodel.ChangeFeed
}

// DescribeScheduler returns the URL of this scheduler's API, the framework id and the
// default role of jobs.
func (h *ExtensionHandle) DescribeScheduler(ctx context.Context) (url, frameworkID, role string, err error) {
	err = h.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		url, frameworkID, role = h.leader.url, st.FrameworkID(), st.DefaultRole()
		return nil
	})
	return url, frameworkID, role, err
}

// SubmitJobs submits all of the jobs, or none if one of them is not admitted.
func (h *ExtensionHandle) SubmitJobs(ctx context.Context, specs ...job.Spec) error {
	return h.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		for i := range specs {
			if err := h.leader.checkInLoop(st, &submission{origin: byExtension, spec: &specs[i]}); err != nil {
				return err
			}
		}
		for _, s := range specs {
			apply(sched.SubmitJob{Spec: s})
		}
		return nil
	})
}

// ScaleJob sets the number of a service's tasks. by is the user for the history of the job, "" if it is unknown.
func (h *ExtensionHandle) ScaleJob(ctx context.Context, name string, tasks int, by string) error {
	return h.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		run, _, ok := st.NewestOfOwner("", name)
		if !ok {
			return api.UnknownJob(name)
		}
		if err := st.AdmitScale(run.String(), tasks); err != nil {
			return err
		}
		apply(sched.ScaleService{Job: run.String(), Tasks: tasks, By: by})
		return nil
	})
}

// StopTasks kills tasks. A service starts replacements unless retire is true. Tasks
// that have ended are ignored. by is as of ScaleJob.
func (h *ExtensionHandle) StopTasks(ctx context.Context, ids []string, retire bool, by string) error {
	return h.leader.applyInLoop(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.StopTasks{TaskIDs: ids, Retire: retire, By: by})
		return nil
	})
}

// EndBackoff ends the backoff of pending tasks, so that they are restarted as soon as possible.
func (h *ExtensionHandle) EndBackoff(ctx context.Context, ids []string) error {
	return h.leader.applyInLoop(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.EndBackoff{TaskIDs: ids})
		return nil
	})
}

// CheckAdmission returns why a job could not be submitted, or as err why that cannot
// be checked. It changes nothing. It ignores existing jobs of the same name and the
// limit on all tasks.
func (h *ExtensionHandle) CheckAdmission(ctx context.Context, specs ...job.Spec) (rejected, err error) {
	err = h.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		for i := range specs {
			spec := specs[i]
			rejected = h.leader.checkInLoop(st, &submission{origin: byExtension, spec: &spec, isDryRun: true})
			if errors.As(rejected, new(*sched.JobNotEndedError)) || errors.As(rejected, new(*sched.LimitError)) {
				rejected = nil
			}
			if rejected != nil {
				break
			}
		}
		return nil
	})
	return rejected, err
}

// KillJobs kills jobs. Jobs that have ended are ignored. by is as of ScaleJob.
func (h *ExtensionHandle) KillJobs(ctx context.Context, by string, names ...string) error {
	return h.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		for _, name := range names {
			if run, live, _ := st.NewestOfOwner("", name); live {
				apply(sched.KillJob{Job: run.String(), By: by})
			}
		}
		return nil
	})
}

// PutDocuments stores all of the documents or none; an empty value deletes a document.
func (h *ExtensionHandle) PutDocuments(ctx context.Context, documents map[string][]byte) error {
	return h.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitDocuments(documents); err != nil {
			return err
		}
		for key, value := range documents {
			apply(sched.PutDocument{Key: key, Value: value})
		}
		return nil
	})
}

// LoadDocuments returns all documents of extensions. Callers must not modify the values.
func (h *ExtensionHandle) LoadDocuments(ctx context.Context) (all map[string][]byte, err error) {
	err = h.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		all = st.Documents()
		maps.DeleteFunc(all, func(key string, _ []byte) bool { return sched.IsReservedDocument(key) })
		return nil
	})
	return all, err
}

// MasterURL returns the base URL of the leading master; "" while the scheduler is not
// subscribed to one.
func (h *ExtensionHandle) MasterURL() string { return h.leader.Client.LeaderURL() }

// ExplainWaiting returns why tasks of the jobs wait, by job. Jobs without waiting tasks
// are left out.
func (h *ExtensionHandle) ExplainWaiting(ctx context.Context, names ...string) (why map[string]job.WaitReason, err error) {
	why = make(map[string]job.WaitReason, len(names))
	err = h.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		var runs []job.RunID
		for _, name := range names {
			if run, live, _ := st.NewestOfOwner("", name); live {
				runs = append(runs, run)
			}
		}
		if len(runs) == 0 {
			return nil // without runs PendingReasons covers all jobs
		}
		reasons, counts := st.PendingReasons(runs...), st.CountExclusions(runs...)
		for run := range reasons {
			why[run.Name] = job.WaitReason{Text: h.leader.pendingText(reasons, run), Exclusions: slices.Clone(counts[run])}
		}
		return nil
	})
	return why, err
}

// AbdicateLeadership makes this scheduler stop leading. It does not wait for that.
func (h *ExtensionHandle) AbdicateLeadership() { h.leader.abdicate() }

// FindJob returns a copy of the newest run of a job without an owner as it is recorded now; false if it does not exist.
func (h *ExtensionHandle) FindJob(name string) (job.Job, bool) {
	return h.leader.Model.CopyNewestRun("", name)
}

// ListGroupJobs returns the jobs with a Group as they are recorded now, sorted by name.
// Callers must not modify them.
func (h *ExtensionHandle) ListGroupJobs(group string) []job.Job {
	return h.leader.Model.ListGroupJobs(group)
}

// AgentFields returns the fields of an agent that constraints compare, such as @zone
// and its attributes, as of the master's last list. The map must not be modified.
func (h *ExtensionHandle) AgentFields(agentID string) map[string]string {
	return h.leader.agentFields.FieldsOf(agentID)
}

// MeasuredExtension is an Extension that exports metrics.
type MeasuredExtension interface {
	// Gauges calls add for each current value; see metrics.ExtensionGauge. It may
	// be called before and after Lead, and then adds nothing.
	Gauges(ctx context.Context, add func(name, help string, labels map[string]string, value float64)) error
}

// NewExtensionHandle returns a handle that reports the jobs that exist and all
// later changes. It must be called before the loop runs.
func NewExtensionHandle(leader *Leader) *ExtensionHandle {
	changes := readmodel.NewChangeFeed()
	leader.Model.WatchChanges(changes)
	return &ExtensionHandle{leader: leader, changes: changes}
}
