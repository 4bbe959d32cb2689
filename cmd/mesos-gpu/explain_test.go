package main

import (
	"strings"
	"testing"

	"mesos-gpu/job/jobfile"
)

// Each key is listed and explained; a wrong one leads to the right one.
func TestExplain(t *testing.T) {
	all := newCluster().command(t, "explain")
	for _, key := range jobfile.Keys() {
		if !strings.Contains(all.out, "\n"+key.Name+" ") {
			t.Errorf("%s is not listed", key.Name)
		}
		one := newCluster().command(t, "explain "+key.Name)
		if !strings.HasPrefix(one.out, key.Name+"\n\n") || one.status != 0 || !strings.Contains(strings.Join(strings.Fields(one.out), " "), strings.Join(strings.Fields(key.Doc), " ")) {
			t.Errorf("%s is explained by %+v", key.Name, one)
		}
	}
	newCluster().command(t, "explain gpu").wants(t, "", `a job file has no key "gpu"; did you mean "gpus"?: see mesos-gpu explain`, 2)
}

func TestWrapped(t *testing.T) {
	for text, want := range map[string]string{
		"one two three":      "  one\n  two\n  three",
		"a b c d":            "  a b c\n  d",
		"":                   " ",
		"incomprehensible a": "  incomprehensible\n  a",
	} {
		if got := wrapped(text, 8); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
