package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The configuration file has the scheduler, the role and defaults of jobs, also for several contexts. Variables of the
// environment, flags and keys of job files replace them.
func TestClientConfig(t *testing.T) {
	c := newFakeCluster()
	config := filepath.Join(t.TempDir(), "config.yaml")
	text := "api: " + c.serve(t) + `
role: vision
job: {timeout: 7d, labels: {team: a}}
context: day
contexts:
  day: {}
  night:
    role: speech
    job: {priority: 3}
  away: {api: "http://127.0.0.1:1"}
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file := writeJobFile(t, "name: NAME\ncommand: ls\n")
	for i, test := range []struct {
		line, env      string
		role           string
		days, priority int
	}{
		{"submit --name job-0 " + file, "", "vision", 7, 0},
		{"run -d --name job-1 -- ls", "", "vision", 7, 0},
		{"run -d --name job-2 --timeout 1d --role x -- ls", "", "x", 1, 0},
		{"submit --name job-3 --set role=y --set timeout= " + file, "", "y", 0, 0},
		{"submit --name job-4 --context night " + file, "", "speech", 0, 3},
		{"run -d --name job-5 -- ls", "MESOS_GPU_CONTEXT=night", "speech", 0, 3},
		{"run -d --name job-6 -- ls", "MESOS_GPU_ROLE=z", "z", 7, 0},
	} {
		environment := map[string]string{"MESOS_GPU_CONFIG": config}
		if name, value, ok := strings.Cut(test.env, "="); ok {
			environment[name] = value
		}
		if r := commandIn(t, environment, "", strings.Fields(test.line)...); r.status != 0 || r.err != "" || len(c.jobs) != i+1 {
			t.Fatalf("%s: %+v", test.line, r)
		}
		if s := c.jobs[i].Spec; s.Role != test.role || s.Timeout.Hours() != float64(24*test.days) || s.Priority != test.priority {
			t.Errorf("%s: role %s, timeout %s, priority %d", test.line, s.Role, s.Timeout, s.Priority)
		}
	}
	inFolder := filepath.Join(t.TempDir(), "mesos-gpu")
	if err := os.Mkdir(inFolder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(inFolder, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		line, out, err string
		env            map[string]string
		status         int
	}{
		{"ps -q --name job-0", "job-0\n", "", map[string]string{"XDG_CONFIG_HOME": filepath.Dir(inFolder)}, 0},
		{"ps -q --context away", "", "127.0.0.1:1", nil, 1},
		{"ps -q --name job-0", "job-0\n", "", map[string]string{"MESOS_GPU_CONTEXT": "day"}, 0},
		{"ps -q", "", "http://127.0.0.1:2", map[string]string{"MESOS_GPU_API": "http://127.0.0.1:2"}, 1},
		{"ps -q --api http://127.0.0.1:3", "", "http://127.0.0.1:3", nil, 1},
		{"ps --context nowhere", "", config + `: there is no context "nowhere": the contexts are away, day, night`, nil, 2},
		{"ps --context day", "", "--context day: there is no /nope/config.yaml, which defines contexts", map[string]string{"MESOS_GPU_CONFIG": "/nope/config.yaml"}, 2},
	} {
		environment := map[string]string{"MESOS_GPU_CONFIG": config}
		maps.Copy(environment, test.env)
		if test.env["XDG_CONFIG_HOME"] != "" {
			delete(environment, "MESOS_GPU_CONFIG")
		}
		commandIn(t, environment, "", strings.Fields(test.line)...).expect(t, test.out, test.err, test.status)
	}
	for text, want := range map[string]string{
		"rol: x":                    `line 1: unknown key "rol"; did you mean "role"?`,
		"contexts: {a: {jobs: {}}}": `context a: line 1: unknown key "jobs"; did you mean "job"?`,
		"- a":                       "line 1: want keys such as api",
		"job: {timeout: soon}":      `job: line 1: timeout: "soon" is not a duration`,
	} {
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		commandIn(t, map[string]string{"MESOS_GPU_CONFIG": config}, "", "run", "-d", "--", "ls").expect(t, "", config+": "+want, 1)
	}
}
