package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

// logSelection selects the output that logs prints.
type logSelection struct {
	stdout, stderr bool // neither selects both
	follow         bool
	previous       bool
	tailLines      int
	timestamps     bool
	since          time.Duration // 0 selects the present attempt of each task
}

func (a *jobCommands) logsCommand() *cobra.Command {
	var s logSelection
	c := &cobra.Command{
		Use: "logs JOB|TASK", Short: "Print the output of a job's tasks, or of one task", Args: cli.RequireArgs("JOB|TASK"),
		Long: "Print the output of a job's tasks, each line after JOB.NUMBER if there are several, or of one task.\n" +
			"TASK is its id, also that of an earlier attempt, or JOB.NUMBER.\n" +
			"Standard error of the tasks goes to standard error. Both streams are in the order in which a task wrote them, with its times by the\n" +
			"agent's clock; what it writes to both within a millisecond may change places. --since also selects earlier attempts that ran then.\n" +
			"If a sandbox is gone, the end of the output that the scheduler has stored is printed, after a line that says so.",
		RunE: func(c *cobra.Command, args []string) error {
			if f := c.Flags().Lookup("tail"); f.Changed && s.tailLines < 1 {
				return &cli.UsageError{Err: fmt.Errorf("--tail %d: must be 1 or more lines; omit it for all", s.tailLines)}
			}
			if f := c.Flags().Lookup("since"); f.Changed && s.since <= 0 {
				return &cli.UsageError{Err: fmt.Errorf("--since %s: must be more than 0", s.since)}
			}
			if s.since > 0 && s.previous {
				return &cli.UsageError{Err: errors.New("--since selects earlier attempts too: omit --previous")}
			}
			if s.previous && s.follow {
				return &cli.UsageError{Err: errors.New("--previous: the attempt has ended, and cannot be followed: omit --follow")}
			}
			api, err := a.NewClient()
			if err != nil {
				return err
			}
			return a.printLogs(c.Context(), api, args[0], s)
		},
	}
	f := c.Flags()
	f.BoolVarP(&s.follow, "follow", "f", false, "follow the output, also of later attempts, until the task, or all tasks of the job, have ended")
	f.BoolVar(&s.stdout, "stdout", false, "only standard output")
	f.BoolVar(&s.stderr, "stderr", false, "only standard error, to standard output")
	f.BoolVarP(&s.previous, "previous", "p", false, "the attempt of each task before the present one")
	f.BoolVarP(&s.timestamps, "timestamps", "t", false, "the time at which each line was written")
	f.DurationVar(&s.since, "since", 0, "lines of this time before now, such as 10m, also of earlier attempts")
	f.IntVarP(&s.tailLines, "tail", "n", 0, "only the last lines of each task; with --follow, also the output that follows")
	return c
}

// selectOutputs returns the selected ones of both streams. Standard error that is
// selected alone goes to standard output.
func (s *logSelection) selectOutputs(both []streamOutput) []streamOutput {
	switch {
	case s.stdout == s.stderr:
		return both
	case s.stderr:
		both[0].stream = "stderr"
	}
	return both[:1]
}

func (a *jobCommands) printLogs(ctx context.Context, api *client.Client, name string, s logSelection) error {
	view, err := api.GetJob(ctx, name)
	switch {
	case isNotFound(err):
		task, err := resolveTaskID(ctx, api, name, s.previous)
		if err != nil {
			return err
		}
		if err = a.printTaskLogs(ctx, api, task, s); cli.IsUnknownTask(err) {
			return fmt.Errorf("there is no job and no task %q: see mesos-gpu ps --all, and mesos-gpu describe JOB for its tasks", name)
		}
		return err
	case err != nil:
		return err
	case s.previous:
		tasks := previousAttempts(&view)
		if len(tasks) == 0 {
			return noEarlierAttempt(&view)
		}
		return a.printJobLogs(ctx, api, &view, tasks, s)
	case s.since > 0 && !s.follow:
		tasks := s.selectAttempts(slices.Concat(view.Attempts, view.Tasks))
		if len(tasks) == 0 {
			return fmt.Errorf("job %s: no task has run in the last %s", name, s.since)
		}
		return a.printJobLogs(ctx, api, &view, tasks, s)
	case s.follow:
		return a.followJobLogs(ctx, api, name, &view, s)
	default:
		return a.printJobLogs(ctx, api, &view, view.Tasks, s)
	}
}

// noEarlierAttempt returns the error of --previous for a job without earlier attempts. Users may have meant the run before.
func noEarlierAttempt(view *api.JobView) error {
	id := view.RunID()
	err := fmt.Errorf("job %s: no earlier attempt of a task is remembered", view.Spec.Name)
	if id.Run > 1 {
		return fmt.Errorf("%w in run %d: mesos-gpu logs %s@%d prints the run before", err, id.Run, id.Name, id.Run-1)
	}
	return err
}

// selectAttempts returns the attempts that had not ended before --since, by task and attempt.
func (s *logSelection) selectAttempts(attempts []job.Task) []job.Task {
	selected := slices.DeleteFunc(attempts, func(t job.Task) bool { return s.isTooOld(&t) || t.AgentID == "" })
	slices.SortStableFunc(selected, func(x, y job.Task) int {
		return cmp.Or(cmp.Compare(x.Index, y.Index), cmp.Compare(x.Attempt, y.Attempt))
	})
	return selected
}

// isTooOld reports whether an attempt ended before --since.
func (s *logSelection) isTooOld(t *job.Task) bool {
	return s.since > 0 && !t.State.IsLive() && time.Since(cmp.Or(t.Ended, t.Changed)) > s.since
}

// hasSeveralAttempts reports whether a list of attempts has more than one of a task.
func hasSeveralAttempts(attempts []job.Task) bool {
	seen := map[int]bool{}
	for i := range attempts {
		if seen[attempts[i].Index] {
			return true
		}
		seen[attempts[i].Index] = true
	}
	return false
}

// previousAttempts returns the last of the earlier attempts of each task, by index.
func previousAttempts(view *api.JobView) []job.Task {
	last := map[int]job.Task{}
	for _, t := range view.Attempts { // the oldest first
		last[t.Index] = t
	}
	var tasks []job.Task
	for _, index := range slices.Sorted(maps.Keys(last)) {
		tasks = append(tasks, last[index])
	}
	return tasks
}

// isNotFound reports whether the API returned status 404.
func isNotFound(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// isAmbiguous reports whether a name means several jobs or schedules, none of them the requester's.
func isAmbiguous(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == api.CodeJobAmbiguous
}

// resolveTaskID returns the task id that name refers to. JOB.NUMBER is the task's
// present attempt, or the one before; any other name is returned unchanged.
func resolveTaskID(ctx context.Context, api *client.Client, name string, previous bool) (string, error) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 1 {
		return name, nil
	}
	view, err := api.GetJob(ctx, name[:dot])
	if isNotFound(err) {
		return name, nil
	}
	tasks := view.Tasks
	if previous {
		tasks = previousAttempts(&view)
	}
	for i := range tasks {
		if fmt.Sprint(tasks[i].Index) == name[dot+1:] {
			return tasks[i].ID, nil
		}
	}
	if err == nil && previous {
		err = fmt.Errorf("task %s: no earlier attempt is remembered", name)
	}
	return name, err
}

// copyTaskOutput copies the selected streams of a task, and returns the number of bytes. It
// returns no error after an interrupt.
func (a *jobCommands) copyTaskOutput(
	ctx context.Context, api *client.Client, task string, s logSelection, labels lineLabels, outputs []streamOutput,
) (int64, error) {
	options := client.OutputOptions{Stream: s.onlyStream(), TailLines: s.tailLines, Follow: s.follow}
	if s.since > 0 {
		options.Since = time.Now().Add(-s.since)
	}
	written, err := copyTaskOutput(ctx, api, task, options, labels, outputs, func(notice string) { fmt.Fprintln(a.Stderr, notice) })
	if ctx.Err() != nil {
		err = nil
	}
	return written, err
}

// onlyStream returns the stream that is selected alone, or "".
func (s *logSelection) onlyStream() string {
	switch {
	case s.stdout == s.stderr:
		return ""
	case s.stderr:
		return "stderr"
	}
	return "stdout"
}

// copyTaskOutput copies the output of a task in the order in which it was written, and calls notify with what a reader must
// know of it. It returns an error for which isNotFound is true if there is no output.
func copyTaskOutput(
	ctx context.Context, c *client.Client, task string, options client.OutputOptions, labels lineLabels,
	outputs []streamOutput, notify func(notice string),
) (written int64, err error) {
	to := map[string]*labelledWriter{}
	for _, o := range outputs {
		to[o.stream] = labels.labelWriter(task, o.To, o.screen)
	}
	for part, err := range c.ReadTaskOutput(ctx, task, options) {
		if err != nil {
			return written, err
		}
		if part.Stored != nil {
			notify(describeStoredOutput(task, part.Stored))
		}
		if part.Lost {
			notify(outputLostNotice)
		}
		w := to[part.Stream]
		if w == nil {
			continue
		}
		w.written = part.Time
		n, err := w.Write(part.Output())
		if written += int64(n); err != nil {
			return written, err
		}
	}
	for _, o := range outputs {
		if err := to[o.stream].flushLine(); err != nil {
			return written, err
		}
	}
	return written, nil
}

// printTaskLogs prints the output of one task.
func (a *jobCommands) printTaskLogs(ctx context.Context, api *client.Client, task string, s logSelection) error {
	both := bothStreams(a.App)
	if s.follow {
		defer printConnectionLosses(api, both[1].To)()
	}
	_, err := a.copyTaskOutput(ctx, api, task, s, lineLabels{times: s.timestamps}, s.selectOutputs(both))
	return err
}

// joinLogErrors joins the errors of several logs. A missing log is an error only if all
// are missing.
func joinLogErrors(errs []error) error {
	found, none := false, error(nil)
	var failed []error
	for _, err := range errs {
		switch {
		case err == nil:
			found = true
		case isNotFound(err):
			if none == nil {
				none = err
			}
		default:
			failed = append(failed, err)
		}
	}
	if !found && len(failed) == 0 {
		return none
	}
	return errors.Join(failed...)
}

// printJobLogs prints the existing output task by task. It returns a not-found error
// only if no task has output, and continues with the other tasks if an agent cannot
// be reached. If a failed task has no output it prints why the task failed.
func (a *jobCommands) printJobLogs(ctx context.Context, api *client.Client, view *api.JobView, tasks []job.Task, s logSelection) error {
	names := lineLabels{job: view.Spec.Name, tasks: len(view.Tasks), attempts: hasSeveralAttempts(tasks), times: s.timestamps}
	outputs := s.selectOutputs(bothStreams(a.App))
	var errs []error
	for i := range tasks {
		t := &tasks[i]
		written, err := a.copyTaskOutput(ctx, api, t.ID, s, names, outputs)
		errs = append(errs, err)
		if written == 0 && len(outputs) > 1 && s.since == 0 && t.State != job.Finished && !t.State.IsLive() {
			fmt.Fprintf(a.Stderr, "mesos-gpu: task %s has no output: %s: %s\n", t.ID, t.State, term.EscapeControls(t.Message))
		}
	}
	err := joinLogErrors(errs)
	if isNotFound(err) && len(view.Attempts) > 0 && !s.previous {
		return fmt.Errorf("%w: mesos-gpu logs --previous %s prints the attempt before", err, view.Spec.Name)
	}
	return err
}

// followJobLogs prints a job's output until the job ends.
func (a *jobCommands) followJobLogs(ctx context.Context, api *client.Client, name string, view *api.JobView, s logSelection) error {
	f := NewFollower(a.App, api, name)
	f.Outputs, f.onlyStream, f.tailLines = s.selectOutputs(f.Outputs), s.onlyStream(), s.tailLines
	if s.since > 0 {
		f.since = time.Now().Add(-s.since)
	}
	f.labels = lineLabels{job: view.Spec.Name, tasks: view.Spec.Tasks, times: s.timestamps}
	f.skippedTasks = map[string]bool{}
	for i := range view.Tasks {
		f.skippedTasks[view.Tasks[i].ID] = s.isTooOld(&view.Tasks[i])
		if t := &view.Tasks[i]; !t.Started.IsZero() && (t.State == job.Killing || t.State == job.Killed) {
			f.startedTasks = append(f.startedTasks, t.ID)
		}
	}
	_, err := f.FollowToEnd(ctx)
	if ctx.Err() != nil {
		return nil // an interrupt is the normal way to stop following
	}
	return err
}

// describeStoredOutput returns the notice before output that is not read from the sandbox.
func describeStoredOutput(task string, s *api.StoredOutput) string {
	cause, what := "the sandbox is gone", "all output"
	if s.AgentUnreachable {
		cause = "its agent cannot be reached"
	}
	missing := "nothing is missing"
	if s.MissingBytes > 0 {
		what, missing = "the last "+term.FormatBytes(s.Bytes)+" of output", term.FormatBytes(s.MissingBytes)+" before are missing"
	}
	return fmt.Sprintf("mesos-gpu: task %s: %s; this is from %s, stored when the task ended (%s)", task, cause, what, missing)
}

// outputLostNotice is printed if log rotation removed output before it was read.
const outputLostNotice = "mesos-gpu: output is missing here: it was rotated away before it was read"
