package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// completionsOf returns the completions of a command line; \t means that files are also
// accepted.
func completionsOf(t *testing.T, address string, line ...string) string {
	t.Helper()
	r := commandAt(t, address, append([]string{"__complete"}, line...)...)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	offered, directive := lines[:len(lines)-1], lines[len(lines)-1]
	if directive == ":0" {
		offered = append(offered, "\t")
	}
	return strings.Join(offered, " ")
}

func TestCompletion(t *testing.T) {
	c := newFakeCluster(fakeJob("old", time.Hour, job.Finished), fakeJob("train", time.Hour, job.Running, job.Waiting),
		fakeJob("web", time.Minute, job.Running), fakeJob("shop", time.Hour, job.Killed))
	c.jobs[2].Spec.Service, c.jobs[3].Spec.Service = &job.Service{}, &job.Service{}
	c.agents = []api.AgentSummary{{ID: "S1", Hostname: "gpu1"}, {ID: "S2", Hostname: "gpu2"}}
	c.gpus = []api.GPUView{{Type: "V100"}, {Type: "V100"}, {Type: "A100"}}
	address := c.serve(t)
	for line, want := range map[string]string{
		"describe _":        "web train shop old",
		"describe train _":  "",
		"wait train _":      "web train shop old",
		"logs _":            "web train shop old web.0.1.x train.0.1.x train.1.1.x shop.0.1.x old.0.1.x",
		"stop _":            "web.0.1.x train.0.1.x train.1.1.x shop.0.1.x old.0.1.x",
		"kill _":            "train web",
		"scale _":           "web",
		"scale train _":     "",
		"events _":          "web train shop old",
		"explain _":         "name tasks matrix",
		"explain share._":   "share.cores share.gpus share.memory",
		"explain command._": "",
		"drain gpu1 _":      "gpu1 gpu2",
		"submit _":          "\t",
		"validate a _":      "\t",
		"volume inspect _":  "",
		"ps -o _":           "table wide json yaml",
		"ps --sort _":       "gpus name priority role state submitted",
		"ps --state _":      "WAITING LAUNCHING",
		"wait --for _":      "ended running",
		"run --gpu-type _":  "V100 A100",
		"run --restart _":   "no always",
	} {
		words := strings.Fields(line)
		words[len(words)-1] = strings.TrimSuffix(words[len(words)-1], "_")
		got := completionsOf(t, address, words...)
		for late := time.Now().Add(time.Minute); got == "" && want != "" && time.Now().Before(late); { // retry, because a slow machine may exceed the timeout
			got = completionsOf(t, address, words...)
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// A scheduler that does not respond does not block completion or cause output.
func TestCompletionTimesOut(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, address := range []string{"http://" + silent.Addr().String(), "http://127.0.0.1:1"} {
		began := time.Now()
		r := commandAt(t, address, "__complete", "describe", "")
		if took := time.Since(began); took > 10*time.Second || r.out != ":36\n" {
			t.Errorf("%s: %q after %s", address, r.out, took)
		}
	}
}
