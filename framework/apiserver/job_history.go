package apiserver

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/job"
)

// defaultHistory is how many of a job's latest events are returned unless requested otherwise.
const defaultHistory = 1000

// handleJobHistory answers with the latest events of a job. It reads the tasks of a large job
// in parts, each as it is at that time.
func (s *apiServer) handleJobHistory(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	page, err := parsePageRequest(r.URL.Query())
	if err != nil {
		return err
	}
	view, err := reads.Jobs.GetJob(r.Context(), r.PathValue(runOfPath))
	if err != nil {
		return err
	}
	h := jobHistory{run: view.RunID(), limit: cmp.Or(page.Limit, defaultHistory)}
	h.addSubmission(&view.Job)
	h.addChanges(readableChanges(r.Context(), reads.Jobs, &view))
	h.addAttempts(readableTasks(r.Context(), reads.Jobs, &view, view.Attempts))
	tasks := view.Tasks
	for at := 0; len(tasks) > 0; {
		h.addAttempts(readableTasks(r.Context(), reads.Jobs, &view, tasks))
		at += len(tasks)
		if at >= len(view.Tasks)+view.OmittedTasks {
			break
		}
		if tasks, err = reads.Jobs.ListTasks(r.Context(), h.run.String(), view.Submitted, at, tasksPerRead); err != nil {
			return err
		}
	}
	apihttp.WriteJSON(w, http.StatusOK, h.finish())
	return nil
}

// jobHistory collects the events of a job from the times that its attempts have.
type jobHistory struct {
	run job.RunID
	// limit is how many events are returned, the latest.
	limit int
	// events are the events so far, in no order. Whenever they are twice as many as limit, the
	// oldest are dropped and counted by omitted.
	events  []api.TaskEvent
	omitted int
}

// add adds an event of the run.
func (h *jobHistory) add(ev api.TaskEvent) {
	ev.Job, ev.Run = h.run.Name, h.run.Run
	h.events = append(h.events, ev)
	if len(h.events) >= 2*h.limit {
		h.dropOldest()
	}
}

// dropOldest sorts the events by time and keeps the latest. Events of the same time stay in
// the order in which they were added.
func (h *jobHistory) dropOldest() {
	slices.SortStableFunc(h.events, func(x, y api.TaskEvent) int { return x.Time.Compare(y.Time) })
	if n := len(h.events) - h.limit; n > 0 {
		h.events, h.omitted = slices.Delete(h.events, 0, n), h.omitted+n
	}
}

func (h *jobHistory) finish() api.JobHistory {
	h.dropOldest()
	return api.JobHistory{Events: emptyIfNil(h.events), Omitted: h.omitted}
}

func (h *jobHistory) addSubmission(j *job.Job) {
	message := "submitted"
	if j.Spec.Owner != "" {
		message += " by " + j.Spec.Owner
	}
	h.add(api.TaskEvent{Time: j.Submitted, State: job.Waiting, By: j.Spec.Owner, Message: message})
}

// addChanges adds what users and load did to the job.
func (h *jobHistory) addChanges(changes []job.Change) {
	for i := range changes {
		c := &changes[i]
		h.add(api.TaskEvent{Time: c.Time, State: c.State, Change: c.Kind, By: c.By, Message: c.Message()})
	}
}

// addAttempts adds the events of attempts: when each was placed, started, was to be ended and
// ended, and when the one after it was queued.
func (h *jobHistory) addAttempts(attempts []job.Task) {
	for i := range attempts {
		t := &attempts[i]
		add := func(at time.Time, state job.State, by, message string) {
			h.add(api.TaskEvent{Time: at, Task: t.ID, State: state, By: by, Message: message})
		}
		if t.State == job.Waiting && (t.Attempt > 1 || t.Message != "") {
			add(t.Changed, job.Waiting, "", cmp.Or(t.Message, "queued again"))
		}
		if !t.Launched.IsZero() {
			add(t.Launched, job.Launching, "", fmt.Sprintf("attempt %d, on %s", max(t.Attempt, 1), cmp.Or(t.Hostname, t.AgentID)))
		}
		if !t.Started.IsZero() {
			add(t.Started, job.Running, "", "")
		}
		if !t.KillRequested.IsZero() {
			add(t.KillRequested, job.Killing, t.KilledBy, describeKill(t))
		}
		switch {
		case !t.State.IsLive():
			end := t.Ended
			if end.IsZero() {
				end = t.Changed
			}
			add(end, t.State, "", describeTaskEnd(t))
		case t.State == job.Staging, t.State == job.Starting, t.State == job.Unreachable:
			add(t.Changed, t.State, "", t.Message)
		}
	}
}

// describeKill returns by whom or why the end of a task was requested.
func describeKill(t *job.Task) string {
	text := map[job.KillReason]string{
		job.KillByUser:           "killed",
		job.KillByTimeout:        "stopped after its timeout",
		job.KillByIdle:           "no client was connected for its idle timeout",
		job.KillByPeer:           "another task of its gang has ended",
		job.KillByPreemption:     "preempted",
		job.KillByGangRestart:    "its gang starts again",
		job.KillByScaling:        "its service was scaled down",
		job.KillByEarlierScaling: "its service was scaled down",
		job.KillByReplacement:    "stopped, to be replaced",
		job.KillByDrain:          "its agent is drained",
		job.KillByRequeue:        "stopped, to be queued again",
	}[t.KillReason]
	if t.KilledBy != "" {
		text += " by " + t.KilledBy
	}
	if t.KillForced {
		text += ", without grace"
	}
	return text
}

// describeTaskEnd returns the message of an ended task, or else its exit code.
func describeTaskEnd(t *job.Task) string {
	if t.Message == "" && t.ExitCode != nil {
		return fmt.Sprintf("exited with status %d", *t.ExitCode)
	}
	return t.Message
}
