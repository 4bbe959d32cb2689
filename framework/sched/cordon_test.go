package sched

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestHost: an agent is found by its id or its hostname, as long as the master
// lists it, it has offered, or its host is cordoned.
func TestHost(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := New(Config{}, Past{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	st.Step(now, Agents{Agents: []Agent{{ID: "S1", Hostname: "one"}, {ID: "S2"}}})
	st.Step(now, Offers{Offers: []Offer{{ID: "o", AgentID: "S3", Hostname: "three"}}})
	st.Step(now, Cycle{})
	st.Step(now, Cordon{Host: "four", Reason: "gone"})
	got := map[string]string{}
	for _, name := range []string{"S1", "one", "S2", "S3", "three", "four", "S4", ""} {
		got[name] = st.Host(name)
	}
	want := map[string]string{"S1": "one", "one": "one", "S2": "S2", "S3": "three", "three": "three", "four": "four", "S4": "", "": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnreadableOperations: a record that another release wrote keeps a host
// closed, and a role's quota as in the table.
func TestUnreadableOperations(t *testing.T) {
	cfg := Config{Policy: Policy{Roles: []Role{{Name: "a", Quota: Quota{AllTypes: 1}}, {Name: "b", Quota: Quota{AllTypes: 2}}}}}
	st := New(cfg, Past{Documents: map[string][]byte{
		"scheduler/cordon/one": []byte("?"), "scheduler/quota/a": []byte("?"), "scheduler/quota/b": []byte(`{"quota":"many"}`), "other/cordon/two": []byte("{}"),
	}})
	if diff := cmp.Diff(map[string]Cordoned{"one": {Reason: "its record cannot be read"}}, Cordons(st.Documents())); diff != "" {
		t.Errorf("cordons (-want +got):\n%s", diff)
	}
	if !st.shut("one", "S1") || st.shut("two", "S2") {
		t.Errorf("shut: one %t, two %t", st.shut("one", "S1"), st.shut("two", "S2"))
	}
	for i, r := range st.Standings() {
		if r.Set || r.Quota[AllTypes] != i+1 {
			t.Errorf("role %s may hold %q, set %t", r.Name, r.Quota, r.Set)
		}
	}
}

// TestOwnDocumentsAreNobodyElses: neither asked for nor put.
func TestOwnDocumentsAreNobodyElses(t *testing.T) {
	st := New(Config{}, Past{})
	documents := map[string][]byte{"scheduler/cordon/one": []byte("{}")}
	if err := st.AdmitPuts(documents); err == nil {
		t.Error("admitted")
	}
	st.Step(time.Unix(1, 0), Put{Key: "scheduler/cordon/one", Value: []byte("{}")})
	if st.shut("one", "") || len(st.Documents()) > 0 {
		t.Errorf("put: %q", st.Documents())
	}
}
