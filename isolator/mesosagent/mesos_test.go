//go:build mesos

package mesosagent

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/internal/testing/apachemesos"
)

// Apache Mesos's agent reports the holder of a named device for a command task.
func TestMesosAgentReportsHolders(t *testing.T) {
	master := apachemesos.StartMaster(t)
	mesosAgent := apachemesos.AgentProcess{
		Master: master.Addr, IP: "127.0.0.1",
		Flags: []string{"--isolation=cgroups/cpu,cgroups/mem,filesystem/linux", "--resources=cpus:2;mem:1024;gpu_ids:{GPU-a,GPU-b}"},
	}.Start(t)
	mesosAgent.AwaitReady(t)
	log, _ := logtest.NewNullLogger()
	a := mustNew(t, ClientConfig{AgentURL: "http://" + mesosAgent.Addr + "/slave(1)", Log: log})
	apachemesos.PollUntil(t, "the agent to answer", func() bool { return a.RefreshState(t.Context()) == nil })
	if got := a.Holders(); len(got) != 0 {
		t.Errorf("before there is a task: %+v", got)
	}
	apachemesos.Spawn(t, nil, mesosExecute(t), "--master="+master.Addr, "--name=holds", "--command=sleep 1000", "--resources=cpus:0.1;mem:32;gpu_ids:{GPU-b}")
	apachemesos.PollUntil(t, "the task to hold its device", func() bool {
		if err := a.RefreshState(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(a.Holders()) > 0
	})
	got := a.Holders()[0]
	if got.Task != "holds" || got.Container == "" || got.Framework == "" || !slices.Equal(got.Devices, []string{"GPU-b"}) {
		t.Errorf("got %+v", got)
	}
}

func mesosExecute(t *testing.T) string {
	t.Helper()
	path := filepath.Join(os.Getenv("MESOS_PREFIX"), "bin", "mesos-execute")
	if _, err := os.Stat(path); err != nil {
		t.Skip("no mesos-execute under MESOS_PREFIX")
	}
	return path
}
