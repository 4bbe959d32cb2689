package mesostest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/minimesos/resource"
)

// TestForgottenTaskIsEndedByShutdown checks a task that the agent runs and the master does not
// know: its KILL has no effect, its SHUTDOWN ends it, and the agent lists it.
func TestForgottenTaskIsEndedByShutdown(t *testing.T) {
	c := NewCluster(t, 2)
	task := mesos.TaskInfo{TaskID: mesos.TaskID{Value: "t"}, Resources: []mesos.Resource{resource.NewSet("gpu_ids", "GPU-0")}}
	c.launchTasks(&scheduler.Call_Accept{Operations: []mesos.Offer_Operation{{Launch: &mesos.Offer_Operation_Launch{TaskInfos: []mesos.TaskInfo{task}}}}})
	list := func() (launched, completed int) {
		t.Helper()
		body, err := proto.Marshal(&agent.Call{Type: agent.Call_GET_TASKS})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/slave(1)/api/v1", bytes.NewReader(body))
		r.Header.Set("Content-Type", mesosapi.Protobuf)
		r.Header.Set("Accept", mesosapi.Protobuf)
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		answer := &agent.Response{}
		if err := proto.Unmarshal(w.Body.Bytes(), answer); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d, %v", w.Code, err)
		}
		return len(answer.GetTasks.LaunchedTasks), len(answer.GetTasks.CompletedTasks)
	}
	c.ForgetTask("t")
	c.handleCall(&scheduler.Call{Type: scheduler.Call_KILL, Kill: &scheduler.Call_Kill{TaskID: task.TaskID}})
	if launched, completed := list(); launched != 1 || completed != 0 {
		t.Errorf("after KILL the agent lists %d launched and %d completed tasks", launched, completed)
	}
	if !slices.Contains(c.free, "GPU-0") {
		t.Errorf("the master does not offer the device: %v", c.free)
	}
	c.handleCall(&scheduler.Call{Type: scheduler.Call_SHUTDOWN, Shutdown: &scheduler.Call_Shutdown{ExecutorID: mesos.ExecutorID{Value: "t"}}})
	if launched, completed := list(); launched != 0 || completed != 1 || len(c.free) != 2 {
		t.Errorf("after SHUTDOWN the agent lists %d launched and %d completed tasks; free: %v", launched, completed, c.free)
	}
}
