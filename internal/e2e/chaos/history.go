// Package chaos checks by the records of its tasks what a cluster did while its processes and
// networks failed. A run on Apache Mesos (make test-chaos) writes the history, Check compares
// it with what the scheduler promises, and WriteTimeline draws it.
package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// EventKind is the type of an Event.
type EventKind string

// Kinds of events. Tasks write the first four, the test all others.
const (
	// TaskBegan and TaskEnded are the first and the last action of a task. TaskKilled is the
	// last action of a task that received SIGTERM. TaskAlive is written about once a second,
	// since a task that receives SIGKILL cannot record its end.
	TaskBegan  EventKind = "begin"
	TaskAlive  EventKind = "alive"
	TaskEnded  EventKind = "end"
	TaskKilled EventKind = "killed"
	// RunStarted has the wall clock, from which the due times of schedules are computed.
	RunStarted EventKind = "start"
	// FaultInjected is a fault that lasts no time and excuses nothing. FaultStarted and
	// FaultEnded enclose one that excuses delays; both have its name.
	FaultInjected EventKind = "strike"
	FaultStarted  EventKind = "fault"
	FaultEnded    EventKind = "heal"
	// MachineSlow is the end of Seconds in which the machine had no time for what the rules of time expect.
	MachineSlow EventKind = "slow"
	// ProcessExited reports a process that ended without a fault of the test, and is restarted.
	ProcessExited EventKind = "exit"
	// JobAccepted is an accepted submission of a batch job, JobState its state at the end of
	// the run.
	JobAccepted EventKind = "accepted"
	JobState    EventKind = "state"
	// EndRecorded means that a job's record calls a task ended, or has another attempt in its
	// place. Its time is not before that of the record.
	EndRecorded EventKind = "recorded"
	// ScheduleAccepted is a schedule that is due every minute, ScheduleEnded its deletion.
	ScheduleAccepted EventKind = "schedule"
	ScheduleEnded    EventKind = "unschedule"
	// CountExpected is the number of tasks that a service must have at this time.
	CountExpected EventKind = "count"
	// CountLimited is the highest number of instances that a service may have from this time on.
	CountLimited EventKind = "limit"
	// DeploymentStarted is an accepted Marathon deployment, DeploymentActive one that has not
	// ended at the end of the run.
	DeploymentStarted EventKind = "deployment"
	DeploymentActive  EventKind = "active"
)

// Event is one line of a history.
type Event struct {
	// At is the time since the machine's start, in seconds. The test and all tasks read it
	// from /proc/uptime.
	At   float64   `json:"at"`
	Kind EventKind `json:"kind"`

	// Job is the name of a job, schedule or service; the name of a Marathon app's jobs
	// without the version, ending in a dot; or the name of a fault, process or deployment.
	Job string `json:"job,omitempty"`
	// Task is the task's id, JOB.INDEX.ATTEMPT.TIME.
	Task  string `json:"task,omitempty"`
	Index int    `json:"index,omitempty"`
	Agent string `json:"agent,omitempty"`
	// Devices are the task's GPUs as in NVIDIA_VISIBLE_DEVICES.
	Devices string `json:"devices,omitempty"`

	// Tasks is the number of tasks of an accepted job or a service, Gang whether they are a
	// gang.
	Tasks int  `json:"tasks,omitempty"`
	Gang  bool `json:"gang,omitempty"`
	// State is the last state of a job, or that of a task in its job's record.
	State string `json:"state,omitempty"`
	// Detail describes a fault or a process's exit.
	Detail  string  `json:"detail,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	// Wall is the time since 1970, in seconds.
	Wall float64 `json:"wall,omitempty"`
}

// RecordScript is the command of all tasks: it records its begin, a sign of life about every
// second for DURATION seconds, and its end. The shell writes each line by one write(2),
// appended to HISTORY.
const RecordScript = `record() {
  read up rest </proc/uptime
  read name </proc/sys/kernel/hostname
  printf '{"at":%s,"kind":"%s","job":"%s","task":"%s","index":%s,"agent":"%s","devices":"%s"}\n' \
    "$up" "$1" "$MESOS_GPU_JOB" "$MESOS_TASK_ID" "$MESOS_GPU_TASK_INDEX" "$name" "$NVIDIA_VISIBLE_DEVICES" >>"$HISTORY"
}
trap 'record killed; exit 143' TERM
record begin
i=0
while [ $i -lt $DURATION ]; do sleep 1; record alive; i=$((i+1)); done
record end`

// ReadHistory reads a history, one event a line.
func ReadHistory(r io.Reader) ([]Event, error) {
	var events []Event
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("history line %d: %w: %q", n, err, lines.Text())
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

// attempt is one attempt of a task by its own record.
type attempt struct {
	job, task, agent string
	index, number    int
	devices          []string
	// began and last are the times of its first and its last line. completed means that the
	// last one is TaskEnded.
	began, last float64
	completed   bool
}

// fault is an injected fault. to is infinite until it is healed.
type fault struct {
	name, detail string
	from, to     float64
}

// isFailure reports whether the event is the recorded end of an attempt that failed and was replaced.
func (e *Event) isFailure() bool {
	return e.Kind == EndRecorded && strings.HasPrefix(e.Detail, fmt.Sprintf("attempt %d failed", attemptNumber(e.Task)))
}

// attemptNumber returns the attempt in a task's id, or 0 for a malformed id.
func attemptNumber(task string) int {
	_, _, n, _ := job.ParseTaskID(task)
	return n
}

// listDevices returns the devices in a value of NVIDIA_VISIBLE_DEVICES.
func listDevices(visible string) []string {
	if visible == "" || visible == "void" {
		return nil
	}
	return strings.Split(visible, ",")
}

// sortByTime orders the events by time. Lines of one process keep their order.
func sortByTime(events []Event) []Event {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	return events
}
