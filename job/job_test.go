package job

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the task states of docs/reference/api.md")

// docs/reference/api.md must show the table of transitions.
func TestTaskLifeIsDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| state | may become | holds resources |\n|---|---|---|\n")
	var ended []string
	for _, s := range States() {
		if !s.IsLive() {
			ended = append(ended, string(s))
			continue
		}
		next := make([]string, 0, len(transitions[s]))
		for _, n := range transitions[s] {
			next = append(next, string(n))
		}
		holds := "no"
		if s.IsPlaced() {
			holds = "yes"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s, strings.Join(next, ", "), holds)
	}
	fmt.Fprintf(&b, "| %s | — (ended) | no |\n", strings.Join(ended, ", "))
	path := filepath.Join("..", "docs", "reference", "api.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`(?m)^\| state \| may become \|.*\n(\|.*\n)+`).FindString(string(page))
	if *rewrite && got != "" {
		if err := os.WriteFile(path, []byte(strings.Replace(string(page), got, b.String(), 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(b.String(), got); diff != "" {
		t.Errorf("%s is stale: go test ./job -rewrite (-want +got):\n%s", path, diff)
	}
}

func TestStateTransitionsAreConsistent(t *testing.T) {
	for _, s := range States() {
		if _, ok := transitions[s]; !ok {
			t.Errorf("%s has no row", s)
		}
		if s.jobRank() < 0 {
			t.Errorf("%s has no rank among the states of a job", s)
		}
		if !s.CanBecome(s) {
			t.Errorf("%s may not follow itself", s)
		}
		for _, n := range transitions[s] {
			if n == Waiting {
				t.Errorf("%s goes back to %s: a new try is a new task", s, n)
			}
		}
		if s.IsLive() && !s.CanBecome(Killed) {
			t.Errorf("a %s task cannot be killed", s)
		}
	}
	if len(transitions) != len(States()) {
		t.Errorf("%d rows, %d states", len(transitions), len(States()))
	}
}

func TestJobState(t *testing.T) {
	for _, c := range []struct {
		tasks    []State
		want     State
		terminal bool
	}{
		{[]State{Waiting}, Waiting, false},
		{[]State{Running, Waiting}, Running, false},
		{[]State{Finished, Waiting}, Waiting, false},
		{[]State{Running, Finished}, Running, false},
		{[]State{Finished, Finished}, Finished, true},
		{[]State{Finished, Failed}, Failed, true},
		{[]State{Failed, Running}, Running, false},
		{[]State{Failed, Waiting, Killing}, Killing, false},
		{[]State{Running, Killed, Finished}, Running, false},
		{[]State{Unreachable, Starting, Finished}, Unreachable, false},
		{[]State{Lost, Killed}, Lost, true},
		{[]State{Finished, Killed, Failed}, Failed, true},
		{[]State{Launching, Staging, Waiting}, Staging, false},
	} {
		j := Job{}
		for _, s := range c.tasks {
			j.Tasks = append(j.Tasks, Task{State: s})
		}
		if got := j.State(); got != c.want {
			t.Errorf("%v: state %s, want %s", c.tasks, got, c.want)
		}
		if got := j.IsTerminal(); got != c.terminal {
			t.Errorf("%v: terminal %t, want %t", c.tasks, got, c.terminal)
		}
	}
}

func TestExitCode(t *testing.T) {
	code := func(n int) *int { return &n }
	for _, c := range []struct {
		tasks []Task
		want  int
	}{
		{[]Task{{State: Finished, ExitCode: code(0)}}, 0},
		{[]Task{{State: Finished}}, 0},
		{[]Task{{State: Finished, ExitCode: code(0)}, {State: Failed, ExitCode: code(3)}}, 3},
		{[]Task{{State: Killed}}, 1},
		{[]Task{{State: Failed, ExitCode: code(7)}, {State: Failed, ExitCode: code(9)}}, 7},
	} {
		if got := (&Job{Tasks: c.tasks}).ExitCode(); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.tasks, got, c.want)
		}
	}
}

func TestCloneIsIndependent(t *testing.T) {
	j := &Job{Tasks: []Task{{ID: "a", DeviceIDs: []string{"GPU-a"}, Shares: []gpu.DeviceShare{{UUID: "GPU-a"}}}}}
	c := j.Clone()
	c.Tasks[0].DeviceIDs[0] = "GPU-b"
	c.Tasks[0].Shares[0].UUID = "GPU-b"
	c.Tasks[0].ID = "b"
	if j.Tasks[0].DeviceIDs[0] != "GPU-a" || j.Tasks[0].Shares[0].UUID != "GPU-a" || j.Tasks[0].ID != "a" {
		t.Errorf("the clone's changes reached the original: %+v", j)
	}
}

func TestParseLaunchRejectsUnknownVersion(t *testing.T) {
	if _, ok, err := ParseLaunch([]byte(`{"mesos-gpu": 99}`)); !ok || err == nil ||
		!strings.Contains(err.Error(), "version 99, this executor reads versions 2 to 11") {
		t.Errorf("got %v, %v", ok, err)
	}
	for _, theirs := range []string{"", `{`, `{"version": 1}`, `[2]`, "the framework's own"} {
		if l, ok, err := ParseLaunch([]byte(theirs)); ok || err != nil {
			t.Errorf("%q read as launch %+v, %v", theirs, l, err)
		}
	}
}

// Records from before shared devices contain whole devices only. A job without shares is encoded as before.
func TestRecordsWithoutSharesAreReadable(t *testing.T) {
	const record = `{"spec":{"name":"a","tasks":1,"request":{"gpus":1,"types":{"include":["V100"]}},"cpus":1,"mem_mib":256,"containerizer":"mesos","kill_grace":5000000000},` +
		`"submitted":"2026-01-02T03:04:05Z","tasks":[{"id":"a.0.1","job":"a","index":0,"state":"RUNNING","device_ids":["GPU-a"],"gpu_types":{"V100":1},"changed":"2026-01-02T03:04:06Z"}]}`
	var j Job
	if err := json.Unmarshal([]byte(record), &j); err != nil {
		t.Fatal(err)
	}
	if !j.Spec.Request.Share.IsWhole() || j.Tasks[0].Shares != nil || j.Tasks[0].GPUTypes["V100"] != 1 {
		t.Errorf("read as %+v", j)
	}
	again, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(record, string(again)); diff != "" {
		t.Errorf("written again (-want +got):\n%s", diff)
	}
}
