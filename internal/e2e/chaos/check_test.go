package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// due is the first due time of the schedules in these histories: 100 s after the machine's start.
var due = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var limits = Limits{Window: 10, Recovery: 20, Grace: 5}

// parseHistory parses made histories. A line is TIME KIND JOB and fields: task=INDEX.ATTEMPT[.TIME],
// on=AGENT/DEVICE, and those of Event.
func parseHistory(t *testing.T, text string) []Event {
	t.Helper()
	events := []Event{{Kind: RunStarted, Wall: float64(due.Unix()) - 100}}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		e := Event{Kind: EventKind(fields[1])}
		scan := func(text, format string, into ...any) {
			if _, err := fmt.Sscanf(text, format, into...); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		}
		scan(fields[0], "%g", &e.At)
		if len(fields) > 2 {
			e.Job = fields[2]
		}
		for _, field := range fields[min(3, len(fields)):] {
			name, value, _ := strings.Cut(field, "=")
			switch name {
			case "task":
				scan(value, "%d", &e.Index)
				e.Task = e.Job + "." + value
				if strings.Count(value, ".") == 1 {
					e.Task += ".x"
				}
			case "on":
				e.Agent, e.Devices, _ = strings.Cut(value, "/")
			case "tasks":
				scan(value, "%d", &e.Tasks)
			case "seconds":
				scan(value, "%g", &e.Seconds)
			case "state":
				e.State = value
			case "failed":
				e.Detail = "attempt " + value + " failed: its executor has ended"
			case "gang":
				e.Gang = true
			default:
				t.Fatalf("unknown field in %q", line)
			}
		}
		events = append(events, e)
	}
	return events
}

// submittedAt returns the end of a task id by the time of the job's submission after the machine's start, in seconds.
func submittedAt(at int64) string {
	return strconv.FormatInt((due.Unix()-100+at)*1e9, 36)
}

// TestCheckFindsViolations checks made histories. Each violates the named rules, in the order
// of time, and no others.
func TestCheckFindsViolations(t *testing.T) {
	const run = "nightly-20260301-1200"
	for _, c := range []struct{ name, history, want string }{
		{"one holder after the other", `
			1 begin a task=0.1 on=h1/G1
			2 alive a task=0.1
			2.5 end a task=0.1
			2.5 begin b task=0.1 on=h1/G1
			2.6 begin c task=0.1 on=h2/G1
			2.6 begin d task=0.1 on=h1/void
			2.6 begin e task=0.1 on=h1/void`, ""},
		{"two holders", `
			1 begin a task=0.1 on=h1/G1,G2
			3 begin b task=0.1 on=h1/G2
			4 alive a task=0.1`, "device"},
		{"two holders, the first of which ends last", `
			1 begin a task=0.1 on=h1/G1
			2 begin b task=0.1 on=h1/G1
			3 end b task=0.1
			4 begin c task=0.1 on=h1/G1
			5 end a task=0.1`, "device device"},
		{"a killed holder", `
			1 begin a task=0.1 on=h1/G1
			2 killed a task=0.1
			2 begin b task=0.1 on=h1/G1`, ""},
		{"one attempt begins twice", `
			1 begin a task=0.1 on=h1/G1
			2 end a task=0.1
			3 begin a task=0.1 on=h2/G1`, "repeated"},
		{"one attempt has two ids", `
			1 accepted a tasks=1
			1 begin a task=0.1.x
			2 killed a task=0.1.x
			3 begin a task=0.1.y
			4 end a task=0.1.y
			9 state a state=FINISHED`, "repeated"},
		{"a second attempt", `
			1 begin a task=0.1 on=h1/G1
			3 begin a task=0.2 on=h2/G1`, ""},
		{"a task that ends soon after its record", `
			1 begin a task=0.1
			3 recorded a task=0.1 state=KILLED
			8 killed a task=0.1`, ""},
		{"a task that runs on after its record", `
			1 begin a task=0.1
			3 recorded a task=0.1 state=KILLED
			9 alive a task=0.1`, "record"},
		{"a task that begins after its record", `
			3 recorded a task=0.1 state=LOST
			9 begin a task=0.1`, "record"},
		{"a task that a fault hides", `
			1 begin a task=0.1
			2 fault 1
			3 recorded a task=0.1 state=LOST
			20 heal 1
			44 killed a task=0.1`, ""},
		{"a task that a fault hid", `
			1 begin a task=0.1
			2 fault 1
			3 recorded a task=0.1 state=LOST
			20 heal 1
			46 alive a task=0.1`, "record"},
		{"two attempts for a short time", `
			1 accepted a tasks=1
			1 begin a task=0.1
			2 begin a task=0.2
			6 killed a task=0.1
			7 end a task=0.2
			9 state a state=FINISHED`, ""},
		{"two attempts", `
			1 accepted a tasks=2
			1 begin a task=0.1
			1 begin a task=1.1
			2 begin a task=0.2
			8 killed a task=0.1
			9 end a task=0.2
			9 end a task=1.1
			9 state a state=FINISHED`, "instances"},
		{"two attempts in a row", `
			1 accepted a tasks=1
			1 begin a task=0.1
			12 killed a task=0.1
			12 begin a task=0.2
			24 end a task=0.2
			25 state a state=FINISHED`, ""},
		{"a service that is scaled down", `
			1 limit s tasks=2
			1 begin s task=0.1
			1 begin s task=1.1
			20 limit s tasks=1
			24 killed s task=1.1
			40 alive s task=0.1`, ""},
		{"a service that is not scaled down", `
			1 limit app. tasks=2
			1 begin app.v1 task=0.1
			1 begin app.v2 task=0.1
			20 limit app. tasks=1
			40 alive app.v1 task=0.1
			40 alive app.v2 task=0.1`, "instances"},
		{"a run in time", `
			50 schedule nightly
			105 begin ` + run + ` task=0.1
			159 unschedule nightly`, ""},
		{"no run", `
			50 schedule nightly
			159 unschedule nightly`, "target"},
		{"a late run", `
			50 schedule nightly
			111 begin ` + run + ` task=0.1
			159 unschedule nightly`, "target"},
		{"a run that is submitted in time and waits for GPUs", `
			50 schedule nightly
			150 begin ` + run + ` task=0.1.` + submittedAt(109) + `
			159 unschedule nightly`, ""},
		{"a run that is submitted late", `
			50 schedule nightly
			150 begin ` + run + ` task=0.1.` + submittedAt(111) + `
			159 unschedule nightly`, "target"},
		{"a run that a fault delays", `
			50 schedule nightly
			95 fault 1
			110 heal 1
			139 begin ` + run + ` task=0.1
			159 unschedule nightly`, ""},
		{"a run that is late after a fault", `
			50 schedule nightly
			95 fault 1
			110 heal 1
			141 begin ` + run + ` task=0.1
			159 unschedule nightly`, "target"},
		{"a fault that was healed long before", `
			50 schedule nightly
			60 fault 1
			70 heal 1
			111 begin ` + run + ` task=0.1
			159 unschedule nightly`, "target"},
		{"faults in a row, after which one run replaces two", `
			50 schedule nightly
			95 fault 1
			110 heal 1
			130 fault 2
			165 heal 2
			190 begin nightly-20260301-1201 task=0.1
			219 unschedule nightly`, ""},
		{"a run for the earlier of two times", `
			50 schedule nightly
			101 begin ` + run + ` task=0.1
			219 unschedule nightly`, "target"},
		{"two jobs for one time", `
			50 schedule nightly
			101 begin ` + run + ` task=0.1
			102 begin ` + run + `-2 task=0.1
			159 unschedule nightly`, "repeated"},
		{"a run before its time", `
			50 schedule nightly
			99 begin ` + run + ` task=0.1
			159 unschedule nightly`, "target"},
		{"a run of an ended schedule", `
			50 schedule nightly
			90 unschedule nightly
			101 begin ` + run + ` task=0.1`, "target"},
		{"a whole gang", `
			1 accepted g tasks=2 gang
			2 begin g task=0.1
			3 begin g task=1.1
			4 end g task=0.1
			5 end g task=1.1
			9 state g state=FINISHED`, ""},
		{"half a gang", `
			1 accepted g tasks=2 gang
			2 begin g task=0.1
			3 killed g task=0.1
			9 state g state=FAILED`, "gang"},
		{"half a gang because a task failed to start, and all of it again", `
			1 accepted g tasks=2 gang
			2 begin g task=0.1
			3 recorded g task=1.1 failed=1
			3 killed g task=0.1
			4 begin g task=0.2
			5 begin g task=1.2
			15 end g task=0.2
			16 end g task=1.2
			19 state g state=FINISHED`, ""},
		{"half a gang because of a fault, and all of it again", `
			1 accepted g tasks=2 gang
			2 begin g task=0.1
			2.5 fault 1
			2.6 heal 1
			3 killed g task=0.1
			4 begin g task=0.2
			14 begin g task=1.2
			15 end g task=0.2
			16 end g task=1.2
			19 state g state=FINISHED`, ""},
		{"a gang that begins within the window of a machine that is slow for 3 s", `
			1 accepted g tasks=2 gang
			2 begin g task=0.1
			8 slow machine seconds=2
			9 slow machine seconds=1
			14.9 begin g task=1.1
			16 end g task=0.1
			16 end g task=1.1
			19 state g state=FINISHED`, ""},
		{"a gang that begins later than a slow machine explains", `
			1 accepted g tasks=2 gang
			2 begin g task=0.1
			9 slow machine seconds=3
			15.1 begin g task=1.1
			16 end g task=0.1
			16 end g task=1.1
			19 state g state=FINISHED`, "gang"},
		{"a task that runs after its recorded end on a slow machine", `
			1 accepted a tasks=1
			2 begin a task=0.1
			3 recorded a task=0.1 state=FINISHED
			9 slow machine seconds=9
			10 end a task=0.1
			19 state a state=FINISHED`, "record"},
		{"a gang whose tasks ended in different tries", `
			1 accepted g tasks=2 gang
			1 fault 1
			2 begin g task=0.1
			2 begin g task=1.1
			3 end g task=0.1
			3 killed g task=1.1
			4 begin g task=1.2
			5 end g task=1.2
			9 heal 1
			9 state g state=FINISHED`, "gang"},
		{"a finished job with two tasks", `
			1 accepted a tasks=2
			2 begin a task=0.1
			3 end a task=0.1
			3 begin a task=1.1
			4 end a task=1.1
			9 state a state=FINISHED`, ""},
		{"a job that never ends", `
			1 accepted a tasks=1
			2 begin a task=0.1
			9 state a state=RUNNING`, "end"},
		{"a job that disappears", `1 accepted a tasks=1`, "end"},
		{"a finished job without a task's end", `
			1 accepted a tasks=2
			2 begin a task=0.1
			3 end a task=0.1
			9 state a state=FINISHED`, "end"},
		{"a failed job", `
			1 accepted a tasks=1
			9 state a state=FAILED`, ""},
		{"services", `
			1 begin s task=0.1
			1 begin s task=1.1
			1 begin app.v1 task=0.1
			2 begin app.v2 task=0.1
			3 killed app.v1 task=0.1
			4 count s tasks=2
			4 count app. tasks=1
			5 alive s task=0.1
			5 alive s task=1.1
			5 alive app.v2 task=0.1`, ""},
		{"services with too few and too many tasks", `
			1 begin s task=0.1
			1 begin app.v1 task=0.1
			2 begin app.v2 task=0.1
			3 count s tasks=1
			4 count app. tasks=1
			5 alive app.v1 task=0.1
			5 alive app.v2 task=0.1`, "count count"},
		{"a deployment that does not end", `
			1 deployment d
			9 active d`, "deployment"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rules []string
			found := Check(parseHistory(t, c.history), limits)
			for _, v := range found {
				rules = append(rules, v.Rule)
			}
			if got := strings.Join(rules, " "); got != c.want {
				t.Errorf("got %q, want %q: %v", got, c.want, found)
			}
		})
	}
}

// TestHistoryIsReadAsWritten encodes and reads events.
func TestHistoryIsReadAsWritten(t *testing.T) {
	want := parseHistory(t, "1 begin a task=2.1 on=h1/G1\n2 accepted b tasks=3 gang")
	var text bytes.Buffer
	for _, e := range want {
		if err := json.NewEncoder(&text).Encode(e); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := ReadHistory(&text); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := ReadHistory(strings.NewReader("{\"at\":1}\n{\"at\":")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a torn line: %v", err)
	}
}
