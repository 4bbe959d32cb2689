package client_test

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/local"
	"mesos-gpu/internal/testing/reexec"
	"mesos-gpu/isolator/simulated"
)

// TestMain makes the test binary the executor that the examples' agent starts. It stops
// the examples' cluster after the tests.
func TestMain(m *testing.M) {
	reexec.Main(m, reexec.CommandTable{"executor": reexec.ExecutorCommand(nil)}, cluster.stop)
}

// exampleCluster is a scheduler with an embedded master and an agent with simulated GPUs,
// in this process. The first example starts it.
type exampleCluster struct {
	once   sync.Once
	cancel context.CancelFunc
	ended  chan error
	url    string
}

var cluster exampleCluster

// schedulerAddress returns the address of the examples' scheduler.
func schedulerAddress() string {
	cluster.once.Do(cluster.start)
	return cluster.url
}

// exampleContext returns the context of an example.
func exampleContext() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	context.AfterFunc(ctx, cancel)
	return ctx
}

// newExampleClient returns a client of the examples' scheduler.
func newExampleClient() *client.Client {
	c, err := client.New(schedulerAddress())
	if err != nil {
		panic(err)
	}
	return c
}

func (e *exampleCluster) start() {
	host, err := simulated.NewHost("1xV100,1xK80", "client")
	if err != nil {
		panic(err)
	}
	binary, err := os.Executable()
	if err != nil {
		panic(err)
	}
	workDir, err := os.MkdirTemp("", "client-examples-")
	if err != nil {
		panic(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	ctx, cancel := context.WithCancel(context.Background())
	up := make(chan local.ClusterURLs, 1)
	e.cancel, e.ended = cancel, make(chan error, 1)
	go func() {
		err := local.Run(ctx, local.ClusterConfig{
			WorkDir: workDir, Hosts: []gpu.Host{host}, API: "127.0.0.1:0", Master: "127.0.0.1:0", Agent: "127.0.0.1:0",
			Binary: binary, Isolate: os.Geteuid() == 0, Log: log,
		}, func(urls local.ClusterURLs) { up <- urls })
		e.ended <- errors.Join(err, os.RemoveAll(workDir))
	}()
	select {
	case urls := <-up:
		e.url = urls.API
	case err := <-e.ended:
		panic(err)
	}
}

// stop stops the cluster if an example has started it.
func (e *exampleCluster) stop() error {
	if e.cancel == nil {
		return nil
	}
	e.cancel()
	return <-e.ended
}
