package fit

import (
	"fmt"
	"strings"
	"testing"

	"mesos-gpu/job"
)

// TestPatternsAreMatchedOnce checks that clusters with a common cache compile an expression once and compare it once with
// each value.
func TestPatternsAreMatchedOnce(t *testing.T) {
	cache := &PatternCache{}
	p := PlacementPolicy{Patterns: cache}
	var agents []AgentResources
	for i := range 200 {
		agents = append(agents, AgentResources{ID: fmt.Sprint("a", i), Hostname: fmt.Sprintf("host%d.example", i), Free: Amount{CPUs: 1}})
	}
	con := mustParseConstraint(t, `hostname LIKE host[0-9]\.example`)
	d := Demand{Amount: Amount{CPUs: 1}, Constraints: []job.Constraint{con}}
	if got := len(NewCluster(agents, p, noon).PlaceTasks(&d, 200)); got != 10 {
		t.Fatalf("placed %d tasks, want 10", got)
	}
	m := cache.find(con)
	if m.known.Len() != 200 || m.matches.Len() != 10 {
		t.Fatalf("knows %d values and %d matches, want 200 and 10", m.known.Len(), m.matches.Len())
	}
	m.Pattern = job.Pattern{} // a second comparison would fail
	if got := len(NewCluster(agents, p, noon).PlaceTasks(&d, 200)); got != 10 {
		t.Errorf("placed %d tasks from stored results, want 10", got)
	}
}

// TestOversizedPatternsMatchNoAgent checks what becomes of a job of an earlier release whose expressions would be refused
// now: it waits, and the explanation says why.
func TestOversizedPatternsMatchNoAgent(t *testing.T) {
	agents := []AgentResources{typedAgent("a", v100, 4)}
	for name, list := range map[string][]job.Constraint{
		"one":      {{Field: "hostname", Operator: job.Like, Value: strings.Repeat("[a-z0-9.]{1000}", 1400)}},
		"unlike":   {{Field: "hostname", Operator: job.Unlike, Value: strings.Repeat(".{1000}", 100)}},
		"together": {{Field: "hostname", Operator: job.Unlike, Value: "[a-z]{400}"}, {Field: "rack", Operator: job.Unlike, Value: "[a-z]{400}"}},
	} {
		d := Demand{Job: "j", Amount: Amount{CPUs: 1}, Constraints: list}
		c := NewCluster(agents, PlacementPolicy{}, noon)
		if got := c.PlaceTasks(&d, 1); got != nil {
			t.Errorf("%s: placed %v", name, got)
		}
		if got := c.ExplainShortage(&d); !strings.Contains(got.Found, "more than 10") || len(got.Found) > 500 {
			t.Errorf("%s: explained as %+v", name, got)
		}
	}
}

// TestPatternCacheIsBounded checks that results stay right when the cache is emptied.
func TestPatternCacheIsBounded(t *testing.T) {
	var cache PatternCache
	for i := range maxCachedPatterns + 10 {
		text := fmt.Sprint("v", i)
		match := cache.valueMatcher(job.Constraint{Field: "x", Operator: job.Like, Value: text})
		if i%1000 == 0 && (!match(text) || match("other")) {
			t.Fatalf("%s: wrong result", text)
		}
	}
	if n := len(cache.patterns); n > maxCachedPatterns {
		t.Errorf("stores %d patterns, more than %d", n, maxCachedPatterns)
	}
}
