package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
	"mesos-gpu/marathon"
)

// marathonTranslate runs the command on a definition in a file, with additional flags.
func marathonTranslate(t *testing.T, definition string, flags ...string) (printed string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.json")
	if err := os.WriteFile(path, []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := newRoot(cli.ProcessIO{Stdin: strings.NewReader(definition), Stdout: &out, Stderr: &out, Getenv: func(string) string { return "" }})
	c.SetArgs(append([]string{"marathon", "translate", path}, flags...))
	err = c.ExecuteContext(t.Context())
	return out.String(), err
}

const service = `{"id": "/g/web", "cmd": "serve", "gpus": 1, "version": "2020-01-01T00:00:00.000Z", "constraints": [["gpu_type", "LIKE", "V100|A100"]]}`

func TestTranslateAsJSON(t *testing.T) {
	printed, err := marathonTranslate(t, service, "-o", "json", "--role", "web")
	if err != nil {
		t.Fatal(err)
	}
	var got job.Spec
	if err := json.Unmarshal([]byte(printed), &got); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(got.Validate(), got.CheckReserved()); err != nil { // so that it can be submitted
		t.Error(err)
	}
	type told struct {
		name, group, role string
		labels            int
	}
	if got, want := (told{got.Name, got.Group, got.Role, len(got.Labels)}), (told{"g_web", "", "web", 0}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Without -o json the output is a job file with the same job.
func TestTranslatePrintsAJobFile(t *testing.T) {
	asJSON, err := marathonTranslate(t, service, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	printed, err := marathonTranslate(t, service)
	if err != nil {
		t.Fatal(err)
	}
	var want job.Spec
	if err := json.Unmarshal([]byte(asJSON), &want); err != nil {
		t.Fatal(err)
	}
	got, err := jobfile.Read(strings.NewReader(printed), "printed")
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-json +file):\n%s", diff)
	}
}

func TestTranslateErrors(t *testing.T) {
	for _, test := range []struct {
		definition string
		flags      []string
		want       []string
	}{
		{`{"id": "/a", "cmd": "x", "gpus": 0.5, "tty": true}`, nil, []string{"app.json: /gpus: 0.5 is not a whole number", "app.json: /tty: not served: "}},
		{`{"id": "/a", "cmd": "x", "role": "other"}`, nil, []string{`/role: "other" is not one of the roles allowed here: *`}},
		{`{"id": "/a", "cmd": "x", "instances": 0}`, nil, []string{"app.json: translate /a: the app is suspended"}},
		{`{`, nil, []string{"app.json: read JSON"}},
		{service, []string{"--gpu-scheduling-behavior", "undefined"}, []string{"use restricted or unrestricted"}},
	} {
		printed, err := marathonTranslate(t, test.definition, test.flags...)
		if err == nil || printed != "" || cli.IsUsage(err) != (test.flags != nil) {
			t.Errorf("%s: got %v and %q", test.definition, err, printed)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want …%s…", test.definition, err, want)
			}
		}
	}
}

// The app definition of the scheduler uses only existing flags.
func TestSchedulerDefinitionHasFlags(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "marathon", "mesos-gpu-scheduler.json"))
	if err != nil {
		t.Fatal(err)
	}
	definition, err := marathon.ParseApp(text, marathon.ParseSettings{Role: "*"})
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(definition.Cmd)
	if got, want := words[:3], []string{"exec", "/usr/bin/mesos-gpu", "scheduler"}; !slices.Equal(got, want) {
		t.Errorf("it runs %v, want %v", got, want)
	}
	scheduler, _, err := newRoot(cli.ProcessIO{Getenv: func(string) string { return "" }}).Find([]string{"scheduler"})
	if err != nil {
		t.Fatal(err)
	}
	if err := scheduler.ParseFlags(words[3:]); err != nil {
		t.Error(err)
	}
}
