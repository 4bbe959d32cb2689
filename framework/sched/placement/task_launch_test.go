package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// Tasks of a gang reach each other at their agents, on their first ports.
func TestGangPeers(t *testing.T) {
	j := &queue.WaitingJob{Spec: &job.Spec{Name: "train", Gang: true, Tasks: 3}}
	agents := []fit.AgentResources{{Hostname: "a1"}, {Hostname: "fd00::2"}}
	got := gangPeers(j, agents, []fit.Placement{{Agent: 1, Ports: []int{31000, 31001}}, {Agent: 0, Ports: []int{31002}}, {Agent: 0}})
	want := []job.GangPeer{{Host: "fd00::2", Port: 31000}, {Host: "a1", Port: 31002}, {Host: "a1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if peers := gangPeers(&queue.WaitingJob{Spec: &job.Spec{Tasks: 1}}, agents, []fit.Placement{{}}); peers != nil {
		t.Errorf("a job that is no gang has the peers %v", peers)
	}
}
