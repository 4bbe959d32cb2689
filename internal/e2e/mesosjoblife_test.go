//go:build mesos

package e2e

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/gogo/protobuf/proto"
	"github.com/gogo/protobuf/types"
	mesosapi "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"

	"mesos-gpu/job"
)

// TestMesosHoldsAndRequeues checks holds and requeues on Apache Mesos.
func TestMesosHoldsAndRequeues(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkHolds(t, m.startScheduler(t))
}

// TestMesosWarnings checks warnings on Apache Mesos.
func TestMesosWarnings(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkWarnings(t, m.startScheduler(t))
}

// TestMesosMovesBetweenRoles checks paused roles and moves on Apache Mesos.
func TestMesosMovesBetweenRoles(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkMoves(t, m.startScheduler(t, "--roles", writeJobFile(t, "roles.yaml", movingRoles)))
}

// TestMesosWarnedStops checks warnings by HTTP and delays of preemptions on Apache Mesos, and the warning of a task whose agent is
// drained by Mesos itself, for maintenance.
func TestMesosWarnedStops(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	c := m.startScheduler(t, "--roles", writeJobFile(t, "roles.yaml", warnedRoles))
	checkPreemptionDelays(t, &warnedJob{t: t, c: c})
	w := checkWarnedStops(t, c)
	w.awaitWarning(func(task *job.Task) {
		m.callOperator(t, &operator.Call{Type: operator.Call_DRAIN_AGENT, DrainAgent: &operator.Call_DrainAgent{
			AgentID: mesosapi.AgentID{Value: task.AgentID}, MaxGracePeriod: &types.Duration{Seconds: 3600},
		}})
	})
}

// callOperator posts a call to the master's operator API.
func (m *mesos) callOperator(t *testing.T, call *operator.Call) {
	t.Helper()
	body, err := proto.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post("http://"+m.master+"/api/v1", "application/x-protobuf", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", call.Type, res.Status)
	}
}
