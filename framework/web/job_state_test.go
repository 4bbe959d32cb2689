package web_test

import (
	"regexp"
	"strings"
	"testing"

	"mesos-gpu/job"
)

var quotedWord = regexp.MustCompile(`'([A-Z]+)'`)

// TestJobStateRanks checks that the page orders states as job.Job.State does.
func TestJobStateRanks(t *testing.T) {
	_, list, found := strings.Cut(pageSources(t)["cluster.js"], "const stateRanks = [")
	list, _, closed := strings.Cut(list, "]")
	var ranks []job.State
	for _, m := range quotedWord.FindAllStringSubmatch(list, -1) {
		ranks = append(ranks, job.State(m[1]))
	}
	if !found || !closed || len(ranks) != len(job.States()) {
		t.Fatalf("the page ranks %d states: %v", len(ranks), ranks)
	}
	for i, low := range ranks {
		for _, high := range ranks[i:] {
			j := job.Job{Tasks: []job.Task{{State: high}, {State: low}}}
			if got := j.State(); got != high {
				t.Errorf("a job of %s and %s is %s, on the page %s", low, high, got, high)
			}
		}
	}
}
