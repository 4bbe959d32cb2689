package jobfile

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

func defaultsOf(t *testing.T, text, role string) (*Defaults, error) {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Content) == 0 {
		return NewDefaults(&yaml.Node{}, role)
	}
	return NewDefaults(doc.Content[0], role)
}

// TestDefaultsOfJobs checks that defaults are values of absent keys only, in files and beside flags.
func TestDefaultsOfJobs(t *testing.T) {
	d, err := defaultsOf(t, "timeout: 7d\nrole: speech\ngpu_type: A100\nlabels: {team: vision}\n", "vision")
	if err != nil {
		t.Fatal(err)
	}
	specs, err := ReadAll(strings.NewReader(head+"gpus: 1\ngpu_type: V100\n---\nname: b\ncommand: ls\ngpus: 2\nrole: prod\n"), "f.yaml", &Changes{Defaults: d})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := specs[0], specs[1]; a.Role != "vision" || a.Request.Types.String() != "V100" || a.Labels["team"] != "vision" || a.Timeout.Hours() != 168 ||
		b.Role != "prod" || b.Request.Types.String() != "A100" {
		t.Errorf("got %+v and %+v", *a, *b)
	}
	o, err := ParseOverride("timeout=")
	if err != nil {
		t.Fatal(err)
	}
	specs, err = ReadAll(strings.NewReader(head+"gpus: 1\n"), "f.yaml", &Changes{Defaults: d, Overrides: []Override{o}})
	if err != nil || specs[0].Timeout != 0 {
		t.Errorf("a default that --set removes: %v, %v", specs, err)
	}
	spec := &job.Spec{}
	given := map[string][]string{"gpu-type": {"H100"}, "role": nil}
	if err := d.ApplyTo(spec, given); err != nil || len(spec.Request.Types.Include) > 0 || spec.Role != "vision" {
		t.Errorf("beside flags: %+v, %v", *spec, err)
	}
}

func TestMistakesInDefaults(t *testing.T) {
	for text, want := range map[string]string{
		"\ntimeout: soon":  `line 2: timeout: "soon" is not a duration`,
		"gpu: 1":           `unknown key "gpu"; did you mean "gpus"?`,
		"name: a":          "a job has its own name and command",
		"[a]":              "needs keys of job files",
		"role: 1\nrole: 2": "role is already set",
	} {
		if _, err := defaultsOf(t, text, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want …%s…", text, err, want)
		}
	}
	// A mistake that a default makes together with the file's keys has no place in the file.
	d, err := defaultsOf(t, "gpu_type: A100", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAll(strings.NewReader(head), "f.yaml", &Changes{Defaults: d}); err == nil || !strings.HasPrefix(err.Error(), "f.yaml: ") {
		t.Errorf("got %v", err)
	}
}
