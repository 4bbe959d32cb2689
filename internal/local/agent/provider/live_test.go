package provider_test

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/resources"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor"
	"mesos-gpu/internal/local/agent"
	"mesos-gpu/internal/local/master"
	"mesos-gpu/internal/testing/advertisetest"
	"mesos-gpu/internal/testing/reexec"
)

func TestMain(m *testing.M) {
	unlimited := func(c *executor.ExecutorConfig) {
		c.ReadShareLimits = func(context.Context, string) (executor.ShareEnforcement, error) {
			return executor.ShareEnforcement{}, nil
		}
	}
	reexec.Main(m, reexec.CommandTable{"executor": reexec.ExecutorCommand(unlimited)})
}

// cluster runs an embedded master and agent until the test ends.
func cluster(t *testing.T) (masterURL, agentURL string) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(t.Output())
	ms, as := httptest.NewUnstartedServer(nil), httptest.NewUnstartedServer(nil)
	m := master.New(master.MasterConfig{Log: log, Addr: ms.Listener.Addr().String()})
	a, err := agent.New(agent.AgentConfig{
		Log: log, Master: m, WorkDir: filepath.Join(t.TempDir(), "agent"), Addr: as.Listener.Addr().String(), ExecutorPath: binary,
		Resources: []mesos.Resource{resources.NewCPUs(4).Resource, resources.NewMemory(4096).Resource, resources.NewDisk(100).Resource},
	})
	if err != nil {
		t.Fatal(err)
	}
	ms.Config.Handler, as.Config.Handler = m.Handler(), a.Handler()
	ms.Start()
	as.Start()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- m.Run(ctx) }()
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
		<-ended
		as.CloseClientConnections()
		ms.CloseClientConnections()
		as.Close()
		ms.Close()
	})
	<-a.Ready()
	return ms.URL, as.URL
}

func TestDevicesWithdrawnWhileInUse(t *testing.T) {
	m, a := cluster(t)
	advertisetest.RunWithdrawal(t, m, a)
}

func TestSharedDevices(t *testing.T) {
	m, a := cluster(t)
	advertisetest.RunSharing(t, m, a)
}
