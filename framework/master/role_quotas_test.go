package master

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/internal/testing/mesostest"
)

// TestQuotasOfMaster: of the master's roles, those with a limit of GPUs are read, from the leader; each change is passed on
// once. A master before Mesos 1.9 has a list where later ones have limits.
func TestQuotasOfMaster(t *testing.T) {
	old, leader := mesostest.NewMaster(t), mesostest.NewMaster(t)
	r := startClient(t, ConnectionConfig{Master: old.URL(), listInterval: time.Millisecond})
	nextEvent[sched.Subscribed](t, r)
	old.Demote(leader.URL())
	changes := make(chan []quota.MesosQuota)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.WatchQuotas(ctx, func(list []quota.MesosQuota) { changes <- list }) }()
	const before = `{"roles": [
		{"name": "a", "quota": {"role": "a", "guarantee": {"gpus": 2}, "limit": {"gpus": 4, "cpus": 8}, "consumed": {"gpus": 3}}},
		{"name": "b", "quota": {"role": "b", "guarantee": {}, "limit": {"cpus": 8}, "consumed": {"gpus": 3}}},
		{"name": "c", "quota": {"role": "c", "guarantee": [{"name": "gpus", "scalar": {"value": 2}}]}},
		{"name": "d"}]}`
	for _, test := range []struct {
		roles string
		want  []quota.MesosQuota
	}{
		{before, []quota.MesosQuota{{Role: "a", Limit: 4, Guarantee: 2, Used: 3}}},
		{`{"roles": [{"name": "b", "quota": {"limit": {"gpus": 0}}}]}`, []quota.MesosQuota{{Role: "b"}}},
		{`{"roles": []}`, nil},
	} {
		leader.SetRoles(test.roles)
		if diff := cmp.Diff(test.want, <-changes); diff != "" {
			t.Errorf("quotas of %s (-want +got):\n%s", test.roles, diff)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	leader.SetRoles("no JSON")
	if list, err := r.ListQuotas(t.Context()); err == nil {
		t.Errorf("an answer that is no JSON gives %v", list)
	}
	leader.Close()
	if _, err := r.ListQuotas(t.Context()); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a dead leader: %v", err)
	}
}
