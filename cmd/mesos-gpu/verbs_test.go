package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/testing/verbs"
	"mesos-gpu/job"
)

// TestVerbsAreCommands checks that the command of each verb sends the verb's request.
func TestVerbsAreCommands(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"FILE":     "name: train\ncommand: sleep 1\nservice: true\n",
		"SCHEDULE": "name: nightly\ncommand: sleep 1\nschedule: {cron: 0 3 * * *}\n",
	}
	for name, text := range files {
		files[name] = filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files["FOLDER"] = dir
	spec := job.Spec{Name: "train", Tasks: 1, Command: []string{"sleep", "2"}, Service: &job.Service{}}
	spec.Ports = []job.Port{{Name: "http"}}
	train := api.NewJobView(&job.Job{Spec: new(spec), Tasks: []job.Task{{ID: "train.0.1.x", Job: "train", State: job.Running, Ports: []int{31000}}}}, "")
	nightly := api.ScheduleView{Spec: job.Spec{Name: "nightly", Schedule: &job.Schedule{Cron: "0 3 * * *"}}}
	answers := map[string]any{
		"/v1/jobs/train": train, "/v1/jobs": api.JobList{Jobs: []api.JobView{train}}, "/v1/schedules/nightly": nightly,
		"/v1/schedules": api.ScheduleList{Schedules: []api.ScheduleView{nightly}}, "/v1/roles/lab/quota": api.RoleStatus{Name: "lab"},
		"/v1/jobs/train/rerun": train,
	}
	requests := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Method + " " + r.URL.Path
		answer, ok := answers[r.URL.Path]
		if !ok && r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if !ok {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if r.URL.Path == "/v1/schedules" && r.Method == http.MethodPost {
			answer = nightly
		} else if r.URL.Path == "/v1/jobs" && r.Method == http.MethodPost {
			answer = train
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	for _, v := range verbs.List() {
		args := strings.Fields(v.Command)
		for i, arg := range args {
			if file, ok := files[arg]; ok {
				args[i] = file
			}
		}
		var out, errs bytes.Buffer
		status := runCommandLine(t.Context(), args, cli.ProcessIO{
			Stdin:  strings.NewReader(""),
			Stdout: io.MultiWriter(&out, forwardedPortDialer{}),
			Stderr: &errs,
			Getenv: func(name string) string {
				return map[string]string{"MESOS_GPU_API": s.URL}[name]
			},
		})
		var sent []string
		for late := time.After(time.Minute); !slices.ContainsFunc(sent, v.IsRequest); { // port-forward may end before the server has read its request
			select {
			case request := <-requests:
				sent = append(sent, request)
			case <-late:
				t.Fatalf("%s: mesos-gpu %s sent %q, want %s; status %d, %s", v.Name, v.Command, sent, v.Request, status, errs.String())
			}
		}
		for len(requests) > 0 {
			<-requests
		}
		if word, _, _ := strings.Cut(v.Name, " "); args[0] != word {
			t.Errorf("the command of %q is %s", v.Name, args[0])
		}
	}
}

// forwardedPortDialer connects to the address that port-forward prints, because the command sends its request for each
// connection.
type forwardedPortDialer struct{}

func (forwardedPortDialer) Write(text []byte) (int, error) {
	if address, _, found := strings.Cut(string(text), " is forwarded"); found {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return 0, err
		}
		_ = conn.Close()
	}
	return len(text), nil
}
