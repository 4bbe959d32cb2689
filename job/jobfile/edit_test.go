package jobfile

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func editableSpec() job.Spec {
	return job.Spec{
		Name:         "train",
		Priority:     3,
		Preemptible:  true,
		Role:         "lab",
		Retries:      2,
		MaxParallel:  4,
		Timeout:      time.Hour,
		RunTime:      time.Minute,
		MaxWait:      time.Second,
		OnTimeout:    job.RequeueOnTimeout,
		MinRunTime:   time.Minute,
		PreemptAfter: time.Second,
		Notify:       []job.NotificationRule{{To: "mailto:a@example.org"}},
		Request:      gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}},
		CPUs:         2,
		MemMiB:       512,
		DiskMiB:      64,
		Command:      []string{"train"},
		Container:    job.Container{Labels: map[string]string{"team": "vision", "tier": "1"}},
		Env:          map[string]string{"LR": "0.1", "SEED": "1"},
	}
}

func TestEdit(t *testing.T) {
	for _, c := range []struct {
		edit string
		want func(*job.Spec)
	}{
		{`{}`, func(*job.Spec) {}},
		{`{"priority": 9, "timeout": "2h", "run_time": null, "retries": 0}`,
			func(s *job.Spec) { s.Priority, s.Timeout, s.RunTime, s.Retries = 9, 2*time.Hour, 0, 0 }},
		{"role: research\npreemptible: false\nmax_parallel: null\nmax_wait: 1m\n",
			func(s *job.Spec) { s.Role, s.Preemptible, s.MaxParallel, s.MaxWait = "research", false, 0, time.Minute }},
		{`{"gpu_type": ["A100", "H100"]}`, func(s *job.Spec) { s.Request.Types.Include = []string{"A100", "H100"} }},
		{`{"gpu_type": {"exclude": ["K80"]}}`, func(s *job.Spec) { s.Request.Types = gpu.TypeSelector{Exclude: []string{"K80"}} }},
		{`{"gpu_type": null}`, func(s *job.Spec) { s.Request.Types = gpu.TypeSelector{} }},
		{`{"labels": {"team": "nlp", "tier": null, "new": "x"}}`, func(s *job.Spec) { s.Labels = map[string]string{"team": "nlp", "new": "x"} }},
		{`{"labels": {"team": null, "tier": null}}`, func(s *job.Spec) { s.Labels = nil }},
		{`{"labels": null}`, func(s *job.Spec) { s.Labels = nil }},
		{`{"gpus": 2, "cpus": 4, "mem": "8GiB", "disk": null, "command": ["train", "--resume"]}`, func(s *job.Spec) {
			s.Request.GPUs, s.CPUs, s.MemMiB, s.DiskMiB, s.Command = 2, 4, 8<<10, 0, []string{"train", "--resume"}
		}},
		{`{"env": {"LR": 0.01, "SEED": null, "NEW": "x"}}`, func(s *job.Spec) { s.Env = map[string]string{"LR": "0.01", "NEW": "x"} }},
	} {
		e, err := ReadEdit(strings.NewReader(c.edit), "edit")
		if err != nil {
			t.Errorf("%s: %v", c.edit, err)
			continue
		}
		got, want := editableSpec(), editableSpec()
		labels := got.Labels
		if err := e.Apply(&got); err != nil {
			t.Error(err)
		}
		c.want(&want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.edit, diff)
		}
		if len(labels) != 2 || labels["team"] != "vision" {
			t.Errorf("%s modified the labels of the job before: %v", c.edit, labels)
		}
	}
}

func TestWrongEdits(t *testing.T) {
	for edit, want := range map[string]string{
		`{"image": "x"}`:                  "image: cannot be changed after the submission; command, cpus, disk, env,",
		`{"prioritty": 2}`:                `unknown key "prioritty"; did you mean "priority"?`,
		`{"timeout": "soon"}`:             "timeout: ",
		`{"labels": {"a": [1]}}`:          "labels: a: ",
		`{"labels": {"a": 1, "a": null}}`: "edit:1:21: labels: a is given twice",
		`[1]`:                             "a job file is a list of keys",
		"priority: 1\n---\nrole: a":       "one edit is expected",
	} {
		if _, err := ReadEdit(strings.NewReader(edit), "edit"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", edit, err, want)
		}
	}
}

// TestEditableKeysAreThoseOfSpec: each key that may be edited is copied by CopyEditable, and no other.
func TestEditableKeysAreThoseOfSpec(t *testing.T) {
	for _, k := range jobKeys() {
		if k.name == "share" || k.name == "health_check" { // their values are parts of larger ones, which are reset
			continue
		}
		full := editableSpec()
		full.Image, full.KillGrace, full.Gang = "x", 9, true
		var got job.Spec
		got.CopyEditable(&full)
		before := got
		k.reset(&got)
		if changed := !reflect.DeepEqual(before, got); changed != slices.Contains(EditableKeys(), k.name) {
			t.Errorf("%s: copied %t, editable %t", k.name, changed, slices.Contains(EditableKeys(), k.name))
		}
	}
}

// TestEncodedEdits: flags and overrides are read again as the same edit.
func TestEncodedEdits(t *testing.T) {
	set := func(texts ...string) (all []Override) {
		for _, text := range texts {
			o, err := ParseOverride(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, o)
		}
		return all
	}
	for _, c := range []struct {
		given     map[string][]string
		overrides []Override
		want      string
	}{
		{map[string][]string{"priority": {"5"}, "timeout": {"2h0m0s"}}, nil, `{"priority":5,"timeout":"2h0m0s"}`},
		{map[string][]string{"priority": {"0"}, "max-parallel": {"0"}, "preemptible": {"false"}}, nil, `{"max_parallel":null,"preemptible":null,"priority":null}`},
		{map[string][]string{"gpu-type": {"A100", "H100"}, "label": {"a=b"}}, set("labels.c=", "labels.d=2"),
			`{"gpu_type":["A100","H100"],"labels":{"a":"b","c":null,"d":2}}`},
		{nil, set("run_time=30m", "timeout="), `{"run_time":"30m","timeout":null}`},
	} {
		edit, err := EncodeEdit(c.given, c.overrides)
		if err != nil {
			t.Error(err)
			continue
		}
		text, err := json.Marshal(edit)
		if err != nil || string(text) != c.want {
			t.Errorf("got %s, %v, want %s", text, err, c.want)
		}
		if _, err := ReadEdit(strings.NewReader(string(text)), "edit"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := EncodeEdit(map[string][]string{"timeout": {"soon"}}, nil); err == nil || !strings.Contains(err.Error(), "--timeout: ") {
		t.Errorf("got %v", err)
	}
	for _, f := range EditFlags() {
		if f.Usage == "" {
			t.Errorf("flag %s has no explanation", f.Name)
		}
	}
	if n := len(EditFlags()); n < len(EditableKeys()) {
		t.Errorf("%d flags for %d keys", n, len(EditableKeys()))
	}
}
