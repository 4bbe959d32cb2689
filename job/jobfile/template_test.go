package jobfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
)

// changesOf returns the changes of NAME=value variables and KEY=VALUE overrides.
func changesOf(t *testing.T, variables, overrides []string) *Changes {
	t.Helper()
	c := &Changes{Variables: map[string]string{}}
	for _, text := range variables {
		name, value, err := ParseVariable(text)
		if err != nil {
			t.Fatal(err)
		}
		c.Variables[name] = value
	}
	for _, text := range overrides {
		o, err := ParseOverride(text)
		if err != nil {
			t.Fatal(err)
		}
		c.Overrides = append(c.Overrides, o)
	}
	return c
}

// TestChangedFile checks that a changed file is read like one with the values written in it.
func TestChangedFile(t *testing.T) {
	for name, c := range map[string]struct {
		file, want           string
		variables, overrides []string
	}{
		"variables": {
			file: "name: train-{{lr}}\ngpus: \"{{n}}\"\npreemptible: '{{ yes_or_no }}'\nenv: {LR: \"{{lr}}\", TEXT: " +
				"\"a {{lr}} b {{n}}\"}\ncommand: |\n  run --lr {{lr}}\n",
			want:      "name: train-0.1\ngpus: 2\npreemptible: true\nenv: {LR: \"0.1\", TEXT: \"a 0.1 b 2\"}\ncommand: |\n  run --lr 0.1\n",
			variables: []string{"lr=0.1", "n=2", "yes_or_no=true"},
		},
		"a value cannot add keys": {
			file:      "name: a\nenv: {X: \"{{x}}\"}\ncommand: ls\n",
			want:      "name: a\nenv: {X: \"1\\nuser: root\"}\ncommand: ls\n",
			variables: []string{"x=1\nuser: root"},
		},
		"a value is not filled again": {
			file:      "name: a\nenv: {X: \"{{x}}\"}\ncommand: ls\n",
			want:      "name: a\nenv: {X: '\\{{x}}'}\ncommand: ls\n",
			variables: []string{"x={{x}}"},
		},
		"text with braces": {
			file: "name: a\ncommand: [docker, '{{.Names}}', '\\{{x}}', '\\\\{{x}}', '${X}', '{{ a b }}']\n",
			want: "name: a\ncommand: [docker, '{{.Names}}', '\\{{x}}', '\\\\{{x}}', '${X}', '{{ a b }}']\n",
		},
		"overrides": {
			file: "name: a\ngpus: 1\ngpu_type: V100\nimage: i\nenv: {A: \"1\", B: \"2\"}\ncommand: ls\ntimeout: 1h\n",
			want: "name: b\ngpus: 2\ngpu_type: [A100, H100]\nshare: {memory: 4GiB}\nenv: {B: \"2\", C.D: \"x=y\"}\nmem: 8GiB\ncommand: [ls, -l]\n",
			overrides: []string{
				"name=b", "gpus=2", "gpu_type=[A100, H100]", "image=", "env.A=", "env.C.D=x=y", "share.memory=4GiB",
				"mem=8GiB", "command=[ls, -l]", "timeout=", "labels.x=",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadAll(strings.NewReader(c.file), "f.yaml", changesOf(t, c.variables, c.overrides))
			if err != nil {
				t.Fatal(err)
			}
			want, err := Read(strings.NewReader(c.want), "want.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]*job.Spec{want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestChangeMistakes checks errors of templates and overrides.
func TestChangeMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		file, want           string
		variables, overrides []string
	}{
		"undefined":      {file: "name: a\nenv: {X: \"{{lr}}\"}\n", want: "f.yaml:2:10: variable lr has no value: give one by --var lr=VALUE"},
		"without quotes": {file: "name: a\ngpus: {{n}}\n", variables: []string{"n=1"}, want: `f.yaml:2:7: write a value that begins with a variable in quotes`},
		"no such key":    {file: "name: a\ncommand: ls\n", overrides: []string{"gpuz=1"}, want: `f.yaml: unknown key "gpuz"; did you mean "gpus"?`},
		"no such value":  {file: "name: a\ncommand: ls\n", overrides: []string{"gpus=few"}, want: `f.yaml: gpus: "few" is not a whole number`},
		"pair as value":  {file: "name: a\ncommand: ls\n", overrides: []string{"env=FOO=1"}, want: `f.yaml: env: needs NAME: value pairs, such as --set KEY.FOO=1`},
		"short form": {file: "name: a\ncommand: ls\nschedule: \"@daily\"\n", overrides: []string{"schedule.overlap=skip"},
			want: "f.yaml:3:11: schedule has no keys in this file"},
		"second document": {file: "name: a\ncommand: ls\n---\nname: b\ngpus: x\n", want: "f.yaml:5:7: gpus"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadAll(strings.NewReader(c.file), "f.yaml", changesOf(t, c.variables, c.overrides))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
	for _, text := range []string{"gpus", "=1", "env.=1", "gpus=[1", ""} {
		if _, err := ParseOverride(text); err == nil {
			t.Errorf("the override %q is accepted", text)
		}
	}
	for _, text := range []string{"lr", "=1", "a-b=1", "1a=1"} {
		if _, _, err := ParseVariable(text); err == nil {
			t.Errorf("the variable %q is accepted", text)
		}
	}
}

// TestReadAllDocuments checks files with several jobs, and that each variable counts as used.
func TestReadAllDocuments(t *testing.T) {
	c := changesOf(t, []string{"x=1", "z=2", "unused=3"}, []string{"cpus=2"})
	specs, err := ReadAll(strings.NewReader("---\nname: a-{{x}}\ncommand: ls\n---\n---\nname: b-{{z}}\ncommand: ls\n---\n"), "f.yaml", c)
	if err != nil || len(specs) != 2 || specs[0].Name != "a-1" || specs[1].Name != "b-2" || specs[0].CPUs != 2 || specs[1].CPUs != 2 {
		t.Fatalf("got %+v, %v", specs, err)
	}
	if diff := cmp.Diff([]string{"unused"}, c.UnusedVariables()); diff != "" {
		t.Error(diff)
	}
}

// TestOverrideWordsAreTaken checks that a word which looks like a variable stays as it is.
func TestOverrideWordsAreTaken(t *testing.T) {
	want := []string{"echo", "{{x}}", `\{{x}}`, "7"}
	c := &Changes{Overrides: []Override{OverrideWords("command", want)}}
	specs, err := ReadAll(strings.NewReader("name: a\ncommand: ls\n"), "f.yaml", c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, specs[0].Command); diff != "" {
		t.Error(diff)
	}
}
