package leader

import (
	"context"
	"errors"
	"maps"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// WaitForChange waits until something has happened that Take has not told. It may
// return for nothing.
func (c *ExtensionHandle) WaitForChange(ctx context.Context) error {
	return c.changes.AwaitChange(ctx)
}

// TakeChanges names the jobs that have changed since it was last called, the first
// time those that were there. Moves are the tasks that have come into other
// states meanwhile, as they were then, each change once and in order: also
// those of attempts in whose place others have been started since. One that is
// Lost may come once more, should it turn up and end after all.
func (c *ExtensionHandle) TakeChanges() (names []string, moves []job.Task) {
	return c.changes.TakeChanges()
}

// ExtensionHandle is what an extension has jobs run by. What its methods do is
// recorded when they return nil.
type ExtensionHandle struct {
	leader  *Leader
	changes *readmodel.ChangeFeed
}

// DescribeScheduler returns where this scheduler answers, its framework's id and the role of
// jobs that name none.
func (c *ExtensionHandle) DescribeScheduler(ctx context.Context) (url, frameworkID, role string, err error) {
	err = c.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		url, frameworkID, role = c.leader.url, st.FrameworkID(), st.DefaultRole()
		return nil
	})
	return url, frameworkID, role, err
}

// SubmitJobs submits the jobs, all or, where one may not be, none.
func (c *ExtensionHandle) SubmitJobs(ctx context.Context, specs ...job.Spec) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		for i := range specs {
			if err := st.AdmitCompleted(&specs[i]); err != nil {
				return err
			}
		}
		for _, s := range specs {
			apply(sched.SubmitJob{Spec: s})
		}
		return nil
	})
}

// ScaleJob has a service run so many tasks.
func (c *ExtensionHandle) ScaleJob(ctx context.Context, name string, tasks int) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitScale(name, tasks); err != nil {
			return err
		}
		apply(sched.ScaleService{Job: name, Tasks: tasks})
		return nil
	})
}

// StopTasks ends tasks; a service starts others in their places unless they are
// retired. Tasks that have ended are no error.
func (c *ExtensionHandle) StopTasks(ctx context.Context, ids []string, retire bool) error {
	return c.leader.applyInLoop(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.StopTasks{TaskIDs: ids, Retire: retire})
		return nil
	})
}

// EndBackoff ends the pauses of tasks that wait to be started again.
func (c *ExtensionHandle) EndBackoff(ctx context.Context, ids []string) error {
	return c.leader.applyInLoop(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.EndBackoff{TaskIDs: ids})
		return nil
	})
}

// CheckAdmission says whether the jobs may be submitted at all, and does nothing. Of a
// job that is there already, and of a scheduler that is full, it says nothing.
func (c *ExtensionHandle) CheckAdmission(ctx context.Context, specs ...job.Spec) error {
	return c.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		for i := range specs {
			if err := st.AdmitCompleted(&specs[i]); err != nil && !errors.As(err, new(*sched.JobNotEndedError)) && !errors.As(err, new(*sched.TooManyTasksError)) {
				return api.NewProblemf(admissionStatus(err), "%w", err)
			}
		}
		return nil
	})
}

// KillJobs ends jobs. Jobs that have ended are no error.
func (c *ExtensionHandle) KillJobs(ctx context.Context, names ...string) error {
	return c.leader.applyInLoop(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		for _, name := range names {
			apply(sched.KillJob{Job: name})
		}
		return nil
	})
}

// PutDocuments remembers documents, all or none; it forgets those that are empty.
func (c *ExtensionHandle) PutDocuments(ctx context.Context, documents map[string][]byte) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
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
func (c *ExtensionHandle) LoadDocuments(ctx context.Context) (all map[string][]byte, err error) {
	err = c.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		all = st.Documents()
		maps.DeleteFunc(all, func(key string, _ []byte) bool { return sched.IsReservedDocument(key) })
		return nil
	})
	return all, err
}

// FindJob is a copy of the job of that name as it is recorded now.
func (c *ExtensionHandle) FindJob(name string) (job.Job, bool) { return c.leader.Model.CopyJob(name) }

// AgentFields are what constraints compare of the agent of that id, such as @zone
// and its attributes, as far as the master tells. Nobody changes them.
func (c *ExtensionHandle) AgentFields(agentID string) map[string]string {
	return c.leader.agentFields.FieldsOf(agentID)
}

// applyInLoop applies the events of step, unless it returns an error, and then reads
// what they led to.
func (b *Leader) applyInLoop(ctx context.Context, step func(st *sched.State, apply func(sched.Event)) error, read ...func(*sched.State) error) error {
	var refused error
	return b.runInLoop(ctx, func(apply func(sched.Event)) { refused = step(b.loop.state, apply) }, func(st *sched.State) error {
		if refused != nil {
			return refused
		}
		for _, f := range read {
			if err := f(st); err != nil {
				return err
			}
		}
		return nil
	})
}

// MeasuredExtension is an Extension that counts things for /metrics.
type MeasuredExtension interface {
	// Gauges adds the numbers of now; see metrics.ExtensionGauge. It may be called
	// before Lead and after it, and tells nothing then.
	Gauges(ctx context.Context, add func(name, help string, labels map[string]string, value float64)) error
}

// NewExtensionHandle returns a handle that reports the jobs that exist and all
// later changes. It must be called before the loop runs.
func NewExtensionHandle(leader *Leader) *ExtensionHandle {
	changes := readmodel.NewChangeFeed()
	leader.Model.WatchChanges(changes)
	return &ExtensionHandle{leader: leader, changes: changes}
}
