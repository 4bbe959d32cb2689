package control

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/api"
)

func TestInfoDescribesScheduler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startControllerWith(t, newFakeCluster(), ControllerConfig{
			Log: discardLogger(), Version: "v2.0", Settings: marathon.ParseSettings{BridgeNetwork: "mesos-bridge", DefaultNetwork: "overlay"},
			Flags: SchedulerFlags{
				FrameworkName: "gpu", User: "root", FailoverTimeout: time.Hour, SessionTimeout: 10 * time.Second,
				Master: "zk://user:secret@a:2181,b:2181/mesos", JournalPath: "zk://user:secret@a:2181,b:2181/gpu",
			},
		})
		synctest.Wait()
		got, err := s.control.GetInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := api.SchedulerInfo{
			Name: "mesos-gpu", Version: api.ServedVersion, BuildRef: "v2.0", Elected: true, Leader: "127.0.0.1:1", FrameworkID: "f1",
			Marathon: api.MarathonConfig{
				Checkpoint:         true,
				DefaultNetworkName: "overlay",
				Executor:           "//cmd",
				FailoverTimeout:    3600,
				Features:           []string{"external_volumes", "gpu_resources", "task_killing"},
				FrameworkName:      "gpu",
				HighlyAvailable:    true,
				Hostname:           "127.0.0.1",
				Master:             "zk://a:2181,b:2181/mesos",
				MesosBridgeName:    "mesos-bridge",
				MesosLeaderUIURL:   "http://127.0.0.1:5050/",
				MesosRole:          "*",
				MesosUser:          "root",
				WebUIURL:           "http://127.0.0.1:1",
			},
			ZooKeeper: api.ZooKeeperConfig{URL: "zk://a:2181,b:2181/gpu", SessionTimeout: 10_000}, HTTP: api.HTTPConfig{HTTPPort: 1},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestAbdicationEndsLeadership checks that the leader answers and then stops leading.
func TestAbdicationEndsLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInBubble(t, newFakeCluster(), nil)
		s.mustSend("DELETE", "/v2/leader", "")
		if err := <-s.ended; err == nil {
			t.Error("it ended without the error of the cluster")
		}
		s.stop()
	})
}
