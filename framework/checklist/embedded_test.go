//go:build !mesos

package checklist

import (
	"context"
	"net/http"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/master"
)

// cluster is an embedded master with scripted agents.
type cluster struct {
	t      testing.TB
	master *master.EmbeddedMaster
	agents []*agent
}

func newCluster(t testing.TB, addr string, machines []machine) *cluster {
	t.Helper()
	c := &cluster{t: t, master: newMaster(t, addr)}
	for _, m := range machines {
		a := newAgent(t, m)
		a.registerWith(c.master)
		c.agents = append(c.agents, a)
	}
	return c
}

func newMaster(t testing.TB, addr string) *master.EmbeddedMaster {
	m := master.New(master.MasterConfig{Log: newLogger(t, "master"), Addr: addr, AllocationInterval: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return m
}

// handler returns the master's handler.
func (c *cluster) handler() http.Handler { return c.master.Handler() }

// finishTasks ends the job's tasks as FINISHED.
func (c *cluster) finishTasks(name string) {
	for _, a := range c.agents {
		for _, id := range a.runningTasks(name) {
			a.endTask(id, mesos.TASK_FINISHED)
		}
	}
}

// loseTasks makes the agents lose the job's tasks without an update. It returns false if they cannot.
func (c *cluster) loseTasks(name string) bool {
	for _, a := range c.agents {
		for _, id := range a.runningTasks(name) {
			a.loseTask(id)
		}
	}
	return true
}

// disconnect disconnects an agent from the master, heal reconnects it.
func (c *cluster) disconnect(m machine) { c.master.Lost(c.findAgent(m).id) }

func (c *cluster) reconnect(m machine) { c.findAgent(m).registerWith(c.master) }

func (c *cluster) findAgent(m machine) *agent {
	for _, a := range c.agents {
		if a.machine == m {
			return a
		}
	}
	c.t.Fatalf("no agent %s", m.ip)
	return nil
}

// newSuccessor returns a cluster with a new master without state; takeOver makes the agents register there.
func (c *cluster) newSuccessor(addr string) *cluster {
	return &cluster{t: c.t, master: newMaster(c.t, addr), agents: c.agents}
}

func (c *cluster) registerAgents() {
	for _, a := range c.agents {
		a.registerWith(c.master)
	}
}
