package master

import (
	"fmt"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// A thousand running tasks are far more than one machine has.
func BenchmarkAllocate(b *testing.B) {
	m := New(Config{})
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
		m.agents[id.Value].charge("f", mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: t.TaskID.Value}}, false, t)
	}
	for b.Loop() {
		m.locked(m.allocate)
	}
}
