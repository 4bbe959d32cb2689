package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"mesos-gpu/internal/term"
	"mesos-gpu/internal/testing/termtest"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// The YAML output has the same content and order as the JSON output. Strings that YAML would
// parse as another type keep their quotes.
func TestYAMLMatchesJSON(t *testing.T) {
	one := 1
	v := map[string]any{
		"a_list":  []string{"no", "007", "0x1f", "1e3", "~", "null", "2026-01-01", "", "a: b", "# c", "- d", "two\nlines", "\x00\u2028", "ü"},
		"number":  1.5e-7,
		"large":   1 << 53,
		"yes":     true,
		"none":    nil,
		"empty":   []int{},
		"nothing": map[string]int{},
		"deep":    map[string]*int{"one": &one},
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	got, err := toYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	var fromJSON, fromYAML any
	if err := json.Unmarshal(text, &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(got, &fromYAML); err != nil {
		t.Fatalf("%v in:\n%s", err, got)
	}
	again, err := json.Marshal(fromYAML)
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal(again, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, want); diff != "" {
		t.Errorf("(-JSON +YAML):\n%s", diff)
	}
}

// Text of other users can neither control the terminal nor change the order of what it shows,
// in any format, and programs read the same text.
func TestEncodedOutputHasNoControlCharacters(t *testing.T) {
	const hostile = "\u009b31m \u202eexe.txt\u202c \u2066x\u2069 \x1b[2J\x7f"
	v := map[string]any{"message": hostile, hostile: "key", "list": []string{hostile}}
	for _, format := range []string{FormatJSON, FormatYAML, "line"} {
		var out bytes.Buffer
		a := &App{ProcessIO: ProcessIO{Stdout: &out}, Format: format}
		print, decode := a.PrintJSON, yaml.Unmarshal
		if format == "line" {
			print = a.PrintJSONLine
		}
		if format != FormatYAML {
			decode = json.Unmarshal
		}
		if err := print(v); err != nil {
			t.Fatal(err)
		}
		if term.HasControls(out.String()) {
			t.Errorf("%s: control characters in %q", format, out.String())
		}
		var back map[string]any
		if err := decode(out.Bytes(), &back); err != nil || back["message"] != hostile || back[hostile] != "key" {
			t.Errorf("%s: read back %q, %v", format, back, err)
		}
	}
}

// The width is that of the terminal, and colors are on unless the user disables them.
func TestTerminal(t *testing.T) {
	_, tty := termtest.OpenTerminal(t, 57)
	for env, want := range map[string]term.TerminalScreen{
		"":           {Columns: 57, Rows: 10, UseColor: true},
		"NO_COLOR=1": {Columns: 57, Rows: 10, UseColor: false},
		"TERM=dumb":  {Columns: 57, Rows: 10, UseColor: false},
	} {
		name, value, _ := strings.Cut(env, "=")
		a := &App{ProcessIO: ProcessIO{Stdout: tty, Getenv: func(asked string) string { return map[string]string{name: value}[asked] }}}
		if got := a.CurrentScreen(); got != want {
			t.Errorf("%s: got %+v, want %+v", env, got, want)
		}
	}
	if got := (&App{ProcessIO: ProcessIO{Stdout: &bytes.Buffer{}}}).CurrentScreen(); got != (term.TerminalScreen{}) {
		t.Errorf("a buffer is %+v", got)
	}
}

// TestJobFilesAreEscaped checks that a job file on a terminal has no raw character that affects it, and that it still is the same
// job.
func TestJobFilesAreEscaped(t *testing.T) {
	spec := job.Spec{Name: "a", Command: []string{"echo", "a\u202eb", "\u2066c", "\u200f\u061c", "\x1b[2J"}, Env: map[string]string{"A": "plain", "B": "\u202e"}}
	if err := spec.Complete(); err != nil {
		t.Fatal(err)
	}
	text, err := EncodeJobFile(&spec)
	if err != nil || term.HasControls(string(text)) || !strings.Contains(string(text), `\u202e`) {
		t.Errorf("%q, %v", text, err)
	}
	read, err := jobfile.Read(bytes.NewReader(text), "job.yaml")
	if err != nil || !slices.Equal(read.Command, spec.Command) || read.Env["B"] != spec.Env["B"] || read.Env["A"] != "plain" {
		t.Errorf("read again: %+v, %v", read, err)
	}
}
