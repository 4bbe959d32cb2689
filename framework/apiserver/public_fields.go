package apiserver

import (
	"context"
	"slices"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/job"
)

// The functions of this file return the part of a document that a requester may read.
//
// Where output is private and the requester may not read the job's output, that are the fields that every user who may see the
// job reads: commands, environments, files and messages may contain secrets. A field that is not listed here is hidden, also a
// new one. Labels are public.
//
// Reasons, messages and killed_by name other jobs and roles, also with output that is not private. A requester who may not see
// those reads "another job" and "another role".

// canReadOutput reports whether the requester may read the output and all keys of a job of this role and owner.
func canReadOutput(ctx context.Context, role, owner string) bool {
	g := apihttp.GrantOf(ctx)
	return !g.HasPrivateOutput() || g.CanReadOutput(role, owner)
}

// nameMask returns what masks the names of jobs and roles that the requester may not see, nil for one who sees all.
func nameMask(ctx context.Context, jobs JobReader) *job.NameMask {
	g := apihttp.GrantOf(ctx)
	if g.HasPermissionOnAllRoles(access.View) {
		return nil
	}
	return &job.NameMask{
		RoleOf: func(name string) (string, bool) {
			role, _, err := jobs.OwnerOf(ctx, name, "")
			return role, err == nil
		},
		SeesRole:  func(role string) bool { return g.HasPermission(access.View, role) },
		KnowsRole: g.KnowsRole,
	}
}

// readableView returns the part of a job that the requester may read.
func readableView(ctx context.Context, jobs JobReader, v *api.JobView) *api.JobView {
	mask := nameMask(ctx, jobs)
	if !canReadOutput(ctx, v.Spec.Role, v.Spec.Owner) {
		v = publicView(v)
	}
	if mask == nil {
		return v
	}
	masked := *v
	masked.Tasks, masked.Attempts = mask.MaskTasks(v.Tasks), mask.MaskTasks(v.Attempts)
	masked.Changes = mask.MaskChanges(v.Changes)
	masked.WaitReason = mask.MaskText(v.WaitReason)
	masked.Warnings = slices.Clone(v.Warnings)
	for i := range masked.Warnings {
		masked.Warnings[i] = mask.MaskText(masked.Warnings[i])
	}
	return &masked
}

// readableTasks returns the part of tasks of a job that the requester may read.
func readableTasks(ctx context.Context, jobs JobReader, v *api.JobView, tasks []job.Task) []job.Task {
	if !canReadOutput(ctx, v.Spec.Role, v.Spec.Owner) {
		tasks = publicTasks(tasks)
	}
	return nameMask(ctx, jobs).MaskTasks(tasks)
}

// readableChanges returns the part of the changes of a job that the requester may read.
func readableChanges(ctx context.Context, jobs JobReader, v *api.JobView) []job.Change {
	changes := v.Changes
	if !canReadOutput(ctx, v.Spec.Role, v.Spec.Owner) {
		changes = publicChanges(changes)
	}
	return nameMask(ctx, jobs).MaskChanges(changes)
}

// readableSchedule returns the part of a schedule that the requester may read.
func readableSchedule(ctx context.Context, v api.ScheduleView) api.ScheduleView {
	if canReadOutput(ctx, v.Spec.Role, v.Spec.Owner) {
		return v
	}
	return api.ScheduleView{Spec: *publicSpec(&v.Spec), Created: v.Created, NextRun: v.NextRun, Runs: v.Runs}
}

// readableNotification returns the part of a notification that the requester may read.
func readableNotification(ctx context.Context, n api.NotificationView) api.NotificationView {
	if canReadOutput(ctx, n.Role, n.Owner) {
		return n
	}
	return api.NotificationView{
		ID:       n.ID,
		Event:    n.Event,
		Time:     n.Time,
		Job:      n.Job,
		Run:      n.Run,
		Role:     n.Role,
		Owner:    n.Owner,
		State:    n.State,
		Attempts: n.Attempts,
		Next:     n.Next,
		GivenUp:  n.GivenUp,
	}
}

func publicView(v *api.JobView) *api.JobView {
	return &api.JobView{
		Job: job.Job{
			Spec:      publicSpec(v.Spec),
			Run:       v.Run,
			Number:    v.Number,
			Version:   v.Version,
			Submitted: v.Submitted,
			Tasks:     publicTasks(v.Tasks),
			Changes:   publicChanges(v.Changes),
			Hold:      v.Hold,
			Revision:  v.Revision,
		},
		State:            v.State,
		TaskStates:       v.TaskStates,
		ExitCode:         v.ExitCode,
		WaitReason:       v.WaitReason,
		Start:            v.Start,
		Warnings:         v.Warnings,
		Terminal:         v.Terminal,
		DiffersFrom:      v.DiffersFrom,
		Attempts:         publicTasks(v.Attempts),
		Autoscaling:      v.Autoscaling,
		AlreadySubmitted: v.AlreadySubmitted,
		WantedCount:      v.WantedCount,
		HasWaiting:       v.HasWaiting,
		OmittedTasks:     v.OmittedTasks,
	}
}

// publicChanges omits the reasons that users gave.
func publicChanges(changes []job.Change) []job.Change {
	public := slices.Clone(changes)
	for i := range public {
		if c := &public[i]; c.Kind != job.ScaleChange {
			c.Reason = ""
		}
	}
	return public
}

func publicSpec(s *job.Spec) *job.Spec {
	public := &job.Spec{
		Name:          s.Name,
		Tasks:         s.Tasks,
		MaxParallel:   s.MaxParallel,
		Request:       s.Request,
		CPUs:          s.CPUs,
		MemMiB:        s.MemMiB,
		DiskMiB:       s.DiskMiB,
		Stdin:         s.Stdin,
		TTY:           s.TTY,
		Image:         s.Image,
		Containerizer: s.Containerizer,
		Container: job.Container{
			User:    s.User,
			Limits:  s.Limits,
			Network: s.Network,
			Ports:   s.Ports,
			ShmMiB:  s.ShmMiB,
			IPC:     s.IPC,
			Labels:  s.Labels,
		},
		KillGrace:    s.KillGrace,
		Role:         s.Role,
		Owner:        s.Owner,
		Priority:     s.Priority,
		Preemptible:  s.Preemptible,
		Guaranteed:   s.Guaranteed,
		Gang:         s.Gang,
		Constraints:  s.Constraints,
		After:        s.After,
		Schedule:     s.Schedule,
		Group:        s.Group,
		Retries:      s.Retries,
		Timeout:      s.Timeout,
		RunTime:      s.RunTime,
		MaxWait:      s.MaxWait,
		IdleTimeout:  s.IdleTimeout,
		OnTimeout:    s.OnTimeout,
		MinRunTime:   s.MinRunTime,
		PreemptAfter: s.PreemptAfter,
	}
	if v := s.Service; v != nil {
		public.Service = &job.Service{Backoff: v.Backoff, ReplaceAfter: v.ReplaceAfter, ShutdownDelay: v.ShutdownDelay, Autoscaling: publicAutoscaling(v.Autoscaling)}
	}
	return public
}

// publicAutoscaling omits the path of the measured metric, which may have a token.
func publicAutoscaling(a job.AutoscalingPolicy) job.AutoscalingPolicy {
	a.Target.Path = ""
	return a
}

func publicTasks(tasks []job.Task) []job.Task {
	public := slices.Clone(tasks)
	for i := range public {
		public[i] = publicTask(&tasks[i])
	}
	return public
}

func publicTask(t *job.Task) job.Task {
	public := job.Task{
		ID:              t.ID,
		Job:             t.Job,
		Run:             t.Run,
		Index:           t.Index,
		State:           t.State,
		Version:         t.Version,
		Attempt:         t.Attempt,
		FinishedAs:      t.FinishedAs,
		AgentID:         t.AgentID,
		Hostname:        t.Hostname,
		AgentURL:        t.AgentURL,
		DeviceIDs:       t.DeviceIDs,
		GPUTypes:        t.GPUTypes,
		Products:        t.Products,
		Shares:          t.Shares,
		Reason:          t.Reason,
		ExitCode:        t.ExitCode,
		Queued:          t.Queued,
		Launched:        t.Launched,
		Started:         t.Started,
		Ended:           t.Ended,
		Changed:         t.Changed,
		KillRequested:   t.KillRequested,
		KillReason:      t.KillReason,
		KillForced:      t.KillForced,
		Ran:             t.Ran,
		KilledBy:        t.KilledBy,
		Healthy:         t.Healthy,
		Ports:           t.Ports,
		Addresses:       t.Addresses,
		Failures:        t.Failures,
		Losses:          t.Losses,
		ImageExclusions: t.ImageExclusions,
		NotBefore:       t.NotBefore,
	}
	if f := t.HealthFailure; f != nil {
		public.HealthFailure = &job.HealthFailure{Check: f.Check, Failures: f.Failures}
	}
	return public
}

func publicEvent(ev *api.TaskEvent) api.TaskEvent {
	return api.TaskEvent{
		Time:             ev.Time,
		Job:              ev.Job,
		Run:              ev.Run,
		Task:             ev.Task,
		State:            ev.State,
		By:               ev.By,
		ID:               ev.ID,
		InventoryChanged: ev.InventoryChanged,
	}
}
