package master

import (
	"fmt"
	"net/http/httptest"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/mesosapi"
)

// A thousand running tasks are far more than one machine has.
func BenchmarkAllocate(b *testing.B) {
	m := New(MasterConfig{})
	a := newAgent()
	id, err := m.Register(agentInfo(), res("cpus:2000;mem:4096;gpus:1000"), nil, a)
	if err != nil {
		b.Fatal(err)
	}
	for n := range 1000 {
		t := taskInfo(fmt.Sprintf("t%d", n), id, "cpus:1;gpus:1;gpu_ids:{"+fmt.Sprint(n)+"}")
		for i := range t.Resources {
			t.Resources[i].Allocate("*")
		}
		m.agents[id.Value].chargeTask("f", mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: t.TaskID.Value}}, false, t)
	}
	for b.Loop() {
		m.withLock(m.allocateAll)
	}
}

// BenchmarkRegister registers a thousand agents one after the other, with and
// without a framework that has an offer of each earlier agent.
func BenchmarkRegister(b *testing.B) {
	for _, there := range []bool{false, true} {
		b.Run(fmt.Sprintf("framework=%t", there), func(b *testing.B) {
			for b.Loop() {
				m := New(MasterConfig{})
				if there {
					f := newFramework(mesos.FrameworkInfo{ID: &mesos.FrameworkID{Value: "f"}, Roles: []string{"*"}})
					f.stream, _ = mesosapi.NewStream(httptest.NewRequest("POST", "/api/v1/scheduler", nil))
					m.frameworks["f"] = f
				}
				for range 1000 {
					if _, err := m.Register(agentInfo(), res("cpus:8;mem:4096"), nil, newAgent()); err != nil {
						b.Fatal(err)
					}
				}
				if want := map[bool]int{true: 1000}[there]; len(m.offers) != want {
					b.Fatalf("%d offers, want %d", len(m.offers), want)
				}
			}
		})
	}
}
