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
		a.join(c.master)
		c.agents = append(c.agents, a)
	}
	return c
}

func newMaster(t testing.TB, addr string) *master.EmbeddedMaster {
	m := master.New(master.MasterConfig{Log: log(t, "master"), Addr: addr, AllocationInterval: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return m
}

// handler returns the master's handler.
func (c *cluster) handler() http.Handler { return c.master.Handler() }

// finish ends the job's tasks as FINISHED.
func (c *cluster) finish(name string) {
	for _, a := range c.agents {
		for _, id := range a.running(name) {
			a.end(id, mesos.TASK_FINISHED)
		}
	}
}

// partition disconnects an agent from the master, heal reconnects it.
func (c *cluster) partition(m machine) { c.master.Lost(c.agent(m).id) }

func (c *cluster) heal(m machine) { c.agent(m).join(c.master) }

func (c *cluster) agent(m machine) *agent {
	for _, a := range c.agents {
		if a.machine == m {
			return a
		}
	}
	c.t.Fatalf("no agent %s", m.ip)
	return nil
}

// successor returns a cluster with a new master without state; takeOver makes the agents register there.
func (c *cluster) successor(addr string) *cluster {
	return &cluster{t: c.t, master: newMaster(c.t, addr), agents: c.agents}
}

func (c *cluster) takeOver() {
	for _, a := range c.agents {
		a.join(c.master)
	}
}
