package jobs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

const (
	// maxReportedTasks limits the failed tasks of a job that are reported one by one.
	maxReportedTasks = 10
	// reportedLines and reportedBytes limit the end of a failed task's standard error.
	reportedLines = 10
	reportedBytes = 4 << 10
	// reportTimeout limits the time to read it, for example from an agent that is gone.
	reportTimeout = 5 * time.Second
)

// failedTasks returns the tasks that failed, the first to end first. Tasks that were killed are not among them, unless they
// ended without an exit code and without a request by a user.
func failedTasks(tasks []job.Task) []job.Task {
	failed := slices.DeleteFunc(slices.Clone(tasks), func(t job.Task) bool {
		return t.State.IsLive() || t.State == job.Finished || t.IsRetired() || t.State == job.Killed && (t.ExitCode != nil || isKilledByUser(&t))
	})
	slices.SortStableFunc(failed, func(x, y job.Task) int { return x.Ended.Compare(y.Ended) })
	return failed
}

// isKilledByUser reports whether a user requested the end of the task, or made its service smaller.
func isKilledByUser(t *job.Task) bool {
	return !t.KillRequested.IsZero() && (t.KillReason == job.KillByUser || t.KillReason == job.KillByEarlierScaling)
}

// lastFailure returns the failed task or attempt that explains the state of a job: the
// first of its failed tasks or, while a task waits for another attempt, the last attempt.
func lastFailure(view *api.JobView) (job.Task, bool) {
	if failed := failedTasks(view.Tasks); len(failed) > 0 {
		return failed[0], true
	}
	for _, t := range slices.Backward(view.Attempts) {
		waits := slices.ContainsFunc(view.Tasks, func(now job.Task) bool { return now.Index == t.Index && now.State == job.Waiting })
		if waits && len(failedTasks([]job.Task{t})) > 0 {
			return t, true
		}
	}
	return job.Task{}, false
}

// describeEnd returns why a task ended: its message, with the name of the signal that its
// exit code stands for. A SIGKILL without a request may be the end of a task without
// enough memory, so the limit is added unless the message has it.
func describeEnd(s *job.Spec, t *job.Task) string {
	text := t.Message
	if t.ExitCode == nil {
		return term.EscapeControls(text)
	}
	if text == "" {
		text = fmt.Sprintf("exited with status %d", *t.ExitCode)
	}
	if name := unix.SignalName(syscall.Signal(*t.ExitCode - 128)); name != "" && !strings.Contains(text, name) && !strings.Contains(text, "memory") {
		text += fmt.Sprintf(" (%s)", name)
	}
	if *t.ExitCode == 128+int(unix.SIGKILL) && t.KillRequested.IsZero() && !strings.Contains(text, "memory") && s.MemMiB > 0 {
		text += fmt.Sprintf("; its memory limit is %g MiB", s.MemMiB)
	}
	return term.EscapeControls(text)
}

// reportFailures prints why tasks of a job failed, and in one line who killed the job.
func reportFailures(to io.Writer, view *api.JobView) {
	if i := slices.IndexFunc(view.Tasks, func(t job.Task) bool {
		return t.State == job.Killed && t.KillReason == job.KillByUser && isKilledByUser(&t)
	}); i >= 0 && view.State == job.Killed {
		by := ""
		if user := view.Tasks[i].KilledBy; user != "" {
			by = " by " + user
		}
		fmt.Fprintf(to, "mesos-gpu: job %s was killed%s\n", view.Spec.Name, by)
	}
	failed := failedTasks(view.Tasks)
	for i := range failed {
		if i == maxReportedTasks {
			fmt.Fprintf(to, "mesos-gpu: %d more tasks failed: see mesos-gpu describe %s\n", len(failed)-i, view.Spec.Name)
			return
		}
		fmt.Fprintf(to, "mesos-gpu: task %s %s: %s\n", failed[i].ID, failed[i].State, describeEnd(view.Spec, &failed[i]))
	}
}

// describeErrorOutput returns the end of the standard error of the task that failed
// first, with a heading, or "".
func describeErrorOutput(ctx context.Context, c *client.Client, view *api.JobView) string {
	t, ok := lastFailure(view)
	if !ok {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	lines, err := readLastErrorLines(ctx, c, t.ID)
	switch {
	case isNotFound(err), err == nil && len(lines) == 0:
		return ""
	case err != nil:
		return fmt.Sprintf("The standard error of task %s cannot be read: %s\n", t.ID, term.EscapeControls(err.Error()))
	}
	return fmt.Sprintf("Last lines of the standard error of task %s:\n  %s\n", t.ID, strings.Join(lines, "\n  "))
}

// readLastErrorLines returns the last lines of a task's standard error without control
// characters.
func readLastErrorLines(ctx context.Context, c *client.Client, task string) ([]string, error) {
	var data []byte
	for part, err := range c.ReadTaskOutput(ctx, task, client.OutputOptions{Stream: "stderr", TailLines: reportedLines + 1}) {
		if err != nil {
			return nil, err
		}
		data = append(data, part.Output()...)
		data = data[max(0, len(data)-reportedBytes):]
	}
	return term.LastLines(data, len(data) == reportedBytes, reportedLines), nil
}
