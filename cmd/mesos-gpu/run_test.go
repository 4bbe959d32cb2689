package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/creack/pty"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

// runAgainst runs a command line against an API that accepts jobs.
func runAgainst(t *testing.T, line ...string) (printed string, submitted []job.Spec, err error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/agents" {
			w.Write([]byte(`{"agents": [{"id": "a", "types": ["V100"], "gpus": 3}]}`))
			return
		}
		var spec job.Spec
		if err := json.NewDecoder(r.Body).Decode(&spec); err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/jobs" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		submitted = append(submitted, spec)
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte("{}"))
	}))
	t.Cleanup(s.Close)
	var out bytes.Buffer
	c := newRoot(cli.ProcessIO{Stdout: &out, Stderr: io.Discard, Getenv: func(name string) string { return map[string]string{"MESOS_GPU_API": s.URL}[name] }})
	c.SetArgs(append([]string{"run"}, line...))
	err = c.ExecuteContext(t.Context())
	return out.String(), submitted, err
}

// With --detach run submits the job, prints its name and returns.
func TestRunDetached(t *testing.T) {
	for _, line := range [][]string{
		{"--detach", "--name", "web", "--restart", "always", "--", "serve"},
		{"-d", "--", "train"},
	} {
		printed, submitted, err := runAgainst(t, line...)
		if err != nil || len(submitted) != 1 || printed != submitted[0].Name+"\n" {
			t.Errorf("%v: got %v, %q and %+v", line, err, printed, submitted)
			continue
		}
		if got, want := submitted[0].Service != nil, slices.Contains(line, "always"); got != want {
			t.Errorf("%v: a service: got %v, want %v", line, got, want)
		}
	}
}

// A grace period of 0 is rejected, because the job would get the default.
func TestRunRejectsZeroGrace(t *testing.T) {
	_, submitted, err := runAgainst(t, "-d", "--kill-grace", "0", "--", "train")
	if !cli.IsUsage(err) || !strings.Contains(err.Error(), "--kill-grace") || len(submitted) > 0 {
		t.Errorf("got %v and %+v", err, submitted)
	}
}

// A service does not end, so there is no exit status to wait for.
func TestRunServiceNeedsDetach(t *testing.T) {
	_, submitted, err := runAgainst(t, "--restart", "always", "--", "serve")
	if !cli.IsUsage(err) || !strings.Contains(err.Error(), "give --detach too") || len(submitted) > 0 {
		t.Errorf("got %v and %+v", err, submitted)
	}
}

func TestShareFlags(t *testing.T) {
	_, submitted, err := runAgainst(t, "--detach", "--gpu-memory", "30%", "--gpu-cores", "25", "--", "serve")
	if err != nil || len(submitted) != 1 || submitted[0].Request.GPUs != 1 || submitted[0].Request.Share != (gpu.ShareRequest{MemPercent: 30, Cores: 25}) {
		t.Errorf("got %+v, %v", submitted, err)
	}
	_, submitted, err = runAgainst(t, "--detach", "--gpus", "2", "--gpu-memory", "1.5GiB", "--", "serve")
	if err != nil || len(submitted) != 1 || submitted[0].Request.GPUs != 2 || submitted[0].Request.Share != (gpu.ShareRequest{MemMiB: 1536}) {
		t.Errorf("got %+v, %v", submitted, err)
	}
	for want, args := range map[string][]string{
		"--gpu-memory: \"0%\" is not a whole number of percent": {"--gpu-memory", "0%", "--", "serve"},
		"cores of a share are 120 %":                            {"--gpu-cores", "120", "--", "serve"},
		"parts of devices have no gpu_topology":                 {"--gpu-cores", "20", "--gpus", "2", "--gpu-topology", "nvlink", "--", "serve"},
	} {
		if _, submitted, err := runAgainst(t, args...); !cli.IsUsage(err) || !strings.Contains(err.Error(), want) || len(submitted) > 0 {
			t.Errorf("%v: got %v and %+v, want %q", args, err, submitted, want)
		}
	}
}

// On a terminal, and only there, the lines of several tasks have colored labels.
func TestRunLabelsLinesOnTerminal(t *testing.T) {
	c := newFakeCluster()
	c.logs = map[string]string{"sweep.0.1.x": "one\n", "sweep.1.1.x": "two\n"}
	address, screen, ended := c.serve(t), make(chan string), make(chan int)
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	go func() {
		text, _ := io.ReadAll(keys) // ends with an error when tty is closed
		screen <- string(text)
	}()
	go func() {
		defer tty.Close()
		ended <- runCommandLine(t.Context(), strings.Fields("run --name sweep --tasks 2 -- true"), cli.ProcessIO{
			Stdin:  nil,
			Stdout: tty,
			Stderr: io.Discard,
			Getenv: func(name string) string {
				return map[string]string{"MESOS_GPU_API": address}[name]
			},
		})
	}()
	c.awaitJob("sweep")
	c.changeTask("sweep", 0, job.Finished, 0)
	c.changeTask("sweep", 1, job.Finished, 0)
	status := <-ended
	got := <-screen
	for _, want := range []string{"\x1b[32msweep.0 | \x1b[0mone\r\n", "\x1b[33msweep.1 | \x1b[0mtwo\r\n"} {
		if !strings.Contains(got, want) || status != 0 {
			t.Errorf("status %d, printed %q, want %q", status, got, want)
		}
	}
	piped := make(chan commandRun)
	go func() { piped <- commandAt(t, address, "run", "--name", "plain", "--tasks", "2", "--", "true") }()
	c.awaitJob("plain")
	c.mu.Lock()
	c.logs["plain.0.1.x"] = "three\n"
	c.mu.Unlock()
	c.changeTask("plain", 0, job.Finished, 0)
	c.changeTask("plain", 1, job.Finished, 0)
	(<-piped).expect(t, "three\n", "", 0)
}

// A variable that is given by name only has the value of this process.
func TestRunCopiesVariables(t *testing.T) {
	_, submitted, err := runAgainst(t, "-d", "-e", "MESOS_GPU_API", "-e", "A=b", "--", "x")
	if err != nil || len(submitted) != 1 || !strings.HasPrefix(submitted[0].Env["MESOS_GPU_API"], "http://") || submitted[0].Env["A"] != "b" {
		t.Errorf("got %v, %+v", err, submitted)
	}
	if _, _, err := runAgainst(t, "-d", "-e", "UNSET", "--", "x"); !cli.IsUsage(err) || !strings.Contains(err.Error(), "write NAME=value") {
		t.Errorf("got %v", err)
	}
}
