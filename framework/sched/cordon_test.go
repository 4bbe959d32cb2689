package sched

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
)

// TestHostIsResolvedByAgentIDOrHostname checks that an agent is found by its id or its hostname as long as the master lists it, it has
// offered, or its host is cordoned.
func TestHostIsResolvedByAgentIDOrHostname(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := New(SchedulerSettings{}, RecoveredState{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	st.Step(now, AgentsListed{Agents: []Agent{{ID: "S1", Hostname: "one"}, {ID: "S2"}}})
	st.Step(now, OffersReceived{Offers: []Offer{{ID: "o", AgentID: "S3", Hostname: "three"}}})
	st.Step(now, Cycle{})
	st.Step(now, CordonHost{Host: "four", Reason: "gone"})
	got := map[string]string{}
	for _, name := range []string{"S1", "one", "S2", "S3", "three", "four", "S4", ""} {
		got[name] = st.ResolveHost(name)
	}
	want := map[string]string{"S1": "one", "one": "one", "S2": "S2", "S3": "three", "three": "three", "four": "four", "S4": "", "": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnreadableDocumentsCloseHostAndKeepQuota checks that a host stays closed and a role has its configured quota if another
// release wrote the documents.
func TestUnreadableDocumentsCloseHostAndKeepQuota(t *testing.T) {
	cfg := SchedulerSettings{Policy: Policy{Policy: placement.Policy{Roles: []queue.Role{
		{Name: "a", Quota: quota.Quota{quota.AllTypes: 1}},
		{Name: "b", Quota: quota.Quota{quota.AllTypes: 2}},
	}}}}
	st := New(cfg, RecoveredState{Documents: map[string][]byte{
		"scheduler/cordon/one": []byte("?"), "scheduler/quota/a": []byte("?"), "scheduler/quota/b": []byte(`{"quota":"many"}`), "other/cordon/two": []byte("{}"),
	}})
	if diff := cmp.Diff(map[string]CordonState{"one": {Reason: "its record cannot be read"}}, ParseCordons(st.Documents())); diff != "" {
		t.Errorf("cordons (-want +got):\n%s", diff)
	}
	if !st.isClosed("one", "S1") || st.isClosed("two", "S2") {
		t.Errorf("shut: one %t, two %t", st.isClosed("one", "S1"), st.isClosed("two", "S2"))
	}
	for i, r := range st.RoleUsages() {
		if r.QuotaOverridden || r.Quota[quota.AllTypes] != i+1 {
			t.Errorf("role %s may hold %q, set %t", r.Name, r.Quota, r.QuotaOverridden)
		}
	}
}

// TestReservedDocumentsAreRejected checks that users cannot store the scheduler's own documents.
func TestReservedDocumentsAreRejected(t *testing.T) {
	st := New(SchedulerSettings{}, RecoveredState{})
	documents := map[string][]byte{"scheduler/cordon/one": []byte("{}")}
	if err := st.AdmitDocuments(documents); err == nil {
		t.Error("admitted")
	}
	st.Step(time.Unix(1, 0), PutDocument{Key: "scheduler/cordon/one", Value: []byte("{}")})
	if st.isClosed("one", "") || len(st.Documents()) > 0 {
		t.Errorf("put: %q", st.Documents())
	}
}
