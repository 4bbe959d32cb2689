package master

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	mastermsg "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// testdata/wire contains messages that a Mesos 1.12 master and agent sent, as JSON. On the wire the client reads
// protobuf, in which unknown enum values are numbers. In JSON they are names that mesos-go rejects, so tests remove
// those capabilities.

func newDiscardLogger() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

func newTestClient(t *testing.T) *Client {
	t.Helper()
	c, err := New(ConnectionConfig{Master: "http://127.0.0.1:1", ExecutorPath: "/bin/mesos-gpu", Log: newDiscardLogger(), Name: "test", Roles: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// decodeJSON decodes JSON of a newer Mesos, and encodes and decodes the message as protobuf.
func decodeJSON(t *testing.T, text []byte, into proto.Message) {
	t.Helper()
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	dropUnknown(tree)
	known, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	fresh := proto.Clone(into)
	if err := json.Unmarshal(known, fresh); err != nil {
		t.Fatal(err)
	}
	packed, err := proto.Marshal(fresh)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(packed, into); err != nil {
		t.Fatal(err)
	}
}

func dropUnknown(tree any) {
	switch v := tree.(type) {
	case map[string]any:
		if list, ok := v["capabilities"].([]any); ok {
			v["capabilities"] = slices.DeleteFunc(list, func(x any) bool {
				name, _ := x.(map[string]any)["type"].(string)
				_, agents := mesos.AgentInfo_Capability_Type_value[name]
				_, frameworks := mesos.FrameworkInfo_Capability_Type_value[name]
				_, masters := mesos.MasterInfo_Capability_Type_value[name]
				return !agents && !frameworks && !masters
			})
		}
		for k, child := range v {
			if k == "resource_provider_info" || k == "offer_constraints" {
				continue
			}
			dropUnknown(child)
		}
	case []any:
		for _, child := range v {
			dropUnknown(child)
		}
	}
}

func TestRecordedAnswersDecode(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded answers: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			if call, ok := strings.CutPrefix(name, "agent-"); ok {
				var r agent.Response
				decodeJSON(t, text, &r)
				if got := r.GetType().String(); got != call {
					t.Errorf("type %s, want %s", got, call)
				}
				return
			}
			var r mastermsg.Response
			decodeJSON(t, text, &r)
			if got := r.GetType().String(); got != strings.TrimPrefix(name, "op-") {
				t.Errorf("type %s of %s", got, name)
			}
		})
	}
}

func TestRecordedAgents(t *testing.T) {
	text, err := os.ReadFile("testdata/wire/op-GET_AGENTS.json")
	if err != nil {
		t.Fatal(err)
	}
	var r mastermsg.Response
	decodeJSON(t, text, &r)
	want := []ListedAgent{{
		ID: "ee518ef3-63c5-4d4e-a899-a44f362b9560-S1", Hostname: "127.0.0.1", URL: "http://127.0.0.1:5051/slave(1)", Active: true,
		Types: []string{"V100"}, GPUs: 4, GPUsFree: 4, DeviceIDs: []string{"GPU-a", "GPU-b", "GPU-c", "GPU-d"}, CPUs: 2, MemMiB: 23081,
		DiskMiB: 252899, Ports: []sched.PortRange{{First: 31000, Last: 32000}},
		Attributes: []sched.Attribute{{Name: "gpu_type", Value: "V100"}},
	}}
	if diff := cmp.Diff(want, newTestClient(t).convertAgents(r.GetGetAgents().GetAgents())); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
}

// TestUnknownEnumValues decodes an agent with a capability, and a task state, that mesos-go does not know.
func TestUnknownEnumValues(t *testing.T) {
	sent := mastermsg.Response{Type: mastermsg.Response_GET_AGENTS, GetAgents: &mastermsg.Response_GetAgents{Agents: []mastermsg.Response_GetAgents_Agent{{
		AgentInfo: mesos.AgentInfo{Hostname: "h"}, Capabilities: []mesos.AgentInfo_Capability{{Type: 99}},
	}}}}
	packed, err := proto.Marshal(&sent)
	if err != nil {
		t.Fatal(err)
	}
	var got mastermsg.Response
	if err := proto.Unmarshal(packed, &got); err != nil {
		t.Fatal(err)
	}
	if a := newTestClient(t).convertAgents(got.GetGetAgents().GetAgents()); len(a) != 1 || a[0].Hostname != "h" {
		t.Errorf("got %+v", a)
	}
	odd := mesos.TaskState(77)
	if u := convertUpdate(&mesos.TaskStatus{State: &odd}); u.State != "" {
		t.Errorf("a state from the future became %q", u.State)
	}
}

// TestRecordedSession applies a real master's events to the scheduler: one task finishes, the other exits with 3.
func TestRecordedSession(t *testing.T) {
	f, err := os.Open("testdata/wire/wire-scheduler.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := newTestClient(t)
	st := sched.New(sched.SchedulerSettings{Policy: sched.Policy{Policy: placement.Policy{Roles: []queue.Role{{Name: "*"}}}}}, sched.RecoveredState{})
	now := time.Unix(1_795_221_984, 0)
	for _, name := range []string{"first", "second"} {
		spec := job.Spec{
			Name:    name,
			Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}},
			CPUs:    0.1,
			MemMiB:  64,
			Command: []string{"true"},
		}
		spec.SetDefaults()
		st.Step(now, sched.SubmitJob{Spec: spec})
	}
	var s *masterSession
	var placed []string          // ids of this test's tasks, in the order of launch
	recorded := map[string]int{} // ids in the recording, in the order of their first update
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var ev scheduler.Event
		decodeJSON(t, bytes.TrimSpace(lines.Bytes()), &ev)
		if ev.GetType() == scheduler.Event_UPDATE {
			id := &ev.Update.Status.TaskID.Value
			if _, ok := recorded[*id]; !ok {
				recorded[*id] = len(recorded)
			}
			*id = placed[recorded[*id]]
		}
		if ev.GetType() == scheduler.Event_SUBSCRIBED {
			s = newSession(c, c.operatorClient, "http://127.0.0.1:1", nil)
			s.frameworkID = ev.Subscribed.FrameworkID.Value
		}
		s.emit = func(e sched.Event) {
			now = now.Add(time.Second)
			if o, ok := e.(sched.OffersReceived); ok && len(placed) == 0 {
				// In the recording, the first offer was used for one task.
				o.Offers[0].GPUs, o.Offers[0].DeviceIDs = 1, o.Offers[0].DeviceIDs[1:2]
			}
			for _, op := range append(st.Step(now, e), st.Step(now, sched.Cycle{})...) {
				if a, ok := op.(sched.AcceptOffers); ok {
					for _, l := range a.Launches {
						placed = append(placed, l.TaskID)
					}
					checkTasks(t, c, s, a)
				}
			}
		}
		if err := s.handleEvent(&ev); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]struct {
		state job.State
		exit  int
	}{"first": {job.Finished, 0}, "second": {job.Failed, 3}} {
		j, _ := st.Job(name)
		if j.State() != want.state || j.ExitCode() != want.exit {
			t.Errorf("job %s is %s with exit %d, want %s with %d", name, j.State(), j.ExitCode(), want.state, want.exit)
		}
	}
}

// checkTasks builds the TaskInfos for a real offer and checks them as a master does.
func checkTasks(t *testing.T, c *Client, s *masterSession, a sched.AcceptOffers) {
	t.Helper()
	offers := s.takeOffers(a.OfferIDs)
	if len(offers) != len(a.OfferIDs) {
		t.Fatalf("offers %v are not there", a.OfferIDs)
	}
	tasks, _, err := c.buildTasks(a, offers, s.frameworkID)
	if err != nil {
		t.Fatal(err)
	}
	for i, task := range tasks {
		got := map[string]string{}
		for _, r := range task.Resources {
			if r.GetAllocationInfo().GetRole() != "*" {
				t.Errorf("%s has no allocation", r.Name)
			}
			got[r.Name] = r.GetProviderID().GetValue()
		}
		const provider = "3cf2c3ae-d668-4866-9262-630134c7bc66"
		if diff := cmp.Diff(map[string]string{"cpus": "", "mem": "", "gpus": provider, "gpu_ids": provider}, got); diff != "" {
			t.Errorf("resources and their providers (-want +got):\n%s", diff)
		}
		e := task.Executor
		if e.GetType() != mesos.ExecutorInfo_CUSTOM || e.ExecutorID.Value != task.TaskID.Value || e.Command.GetShell() ||
			e.Command.GetValue() != "/bin/mesos-gpu" || task.Command != nil {
			t.Errorf("executor %v", e)
		}
		for _, r := range task.Resources {
			if r.Name == "gpu_ids" && !slices.Equal(r.GetSet().GetItem(), a.Launches[i].DeviceIDs) {
				t.Errorf("gpu_ids are %v, want %v", r.GetSet(), a.Launches[i].DeviceIDs)
			}
		}
		if launch, ours, err := job.ParseLaunch(task.Data); err != nil || !ours || launch.Index != a.Launches[i].Index {
			t.Errorf("launch %+v, %v, %v", launch, ours, err)
		}
		if _, err := proto.Marshal(&task); err != nil {
			t.Error(err)
		}
	}
}
