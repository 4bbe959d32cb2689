package crash

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"mesos-gpu/internal/zktest"
)

// TestKilledLeader kills the leader of two, the standby takes over, and what
// was killed stands by.
func TestKilledLeader(t *testing.T) {
	deaths := 24
	if testing.Short() {
		deaths = 5
	}
	t.Parallel()
	zk := zktest.Start(t)
	c := newCluster(t)
	p := newProof(t, c.binary)
	books := audit(c)
	schedulers := newPair(t, c, zk)
	all := gather(t, p, schedulers.apis())
	began := time.Now()
	for _, at := range leaderPlan(deaths, rand.New(rand.NewPCG(3, 4))) {
		schedulers.killLeader(at)
	}
	jobs := schedulers.finish(c, all, p)
	books.end()
	t.Logf("%s; %d jobs ended, %d of %d GPUs held at most in %d looks, %s in all\n%s",
		schedulers.figures(), jobs, books.most, agents*gpusPerAgent, books.looks, time.Since(began).Round(time.Millisecond), schedulers.hits.table())
}

// leaderPlan is so many deaths of a scheduler that has led for a while: what it
// found in the journal is dealt with.
func leaderPlan(deaths int, chance *rand.Rand) (all []point) {
	for _, p := range plan(2*deaths+30, chance) {
		if p.Kind != "framework" && p.Kind != "requeue" && p.When != anytime {
			all = append(all, p)
		}
	}
	return all[:deaths]
}

// TestZooKeeperRestarts ends and starts ZooKeeper while jobs come in, alone
// and together with the leader.
func TestZooKeeperRestarts(t *testing.T) {
	t.Parallel()
	zk := zktest.Start(t)
	c := newCluster(t)
	p := newProof(t, c.binary)
	books := audit(c)
	schedulers := newPair(t, c, zk)
	all := gather(t, p, schedulers.apis())
	began, leaders := time.Now(), 0
	for _, r := range []struct {
		name              string
		end               func()
		before, meanwhile func(leader *member) // nil is nothing
	}{
		{name: "stopped", end: zk.Stop},
		{name: "killed", end: zk.Kill},
		{name: "killed, the leader with it", end: zk.Kill, meanwhile: (*member).die},
		{name: "killed, the leader before", end: zk.Kill, before: (*member).die},
		{name: "killed, the leader while it records", end: zk.Kill, before: (*member).dieAtLaunch, meanwhile: (*member).die},
		{name: "away for longer than a session", end: zk.Stop, meanwhile: (*member).awaitLoss},
	} {
		leader, _ := schedulers.settled()
		if r.before != nil {
			r.before(leader)
		}
		r.end()
		if r.meanwhile != nil {
			r.meanwhile(leader)
		}
		select {
		case <-leader.ended:
			leaders++
			leader.start(t)
		default:
		}
		down := time.Now()
		zk.Restart()
		back := time.Now()
		all.awaitMore(5)
		t.Logf("ZooKeeper %s: it started in %s, 5 jobs ended %s later", r.name, back.Sub(down).Round(time.Millisecond), time.Since(back).Round(time.Millisecond))
	}
	jobs := schedulers.finish(c, all, p)
	books.end()
	t.Logf("%d leaders died; %d jobs ended, %d of %d GPUs held at most in %d looks, %s in all",
		leaders, jobs, books.most, agents*gpusPerAgent, books.looks, time.Since(began).Round(time.Millisecond))
}

func (m *member) die() {
	m.kill()
	m.await(m.ended, "its end")
}

// dieAtLaunch has it die at a moment that may come while ZooKeeper goes.
func (m *member) dieAtLaunch() { m.order(point{When: after, Kind: "launch", Nth: 1}) }

// awaitLoss waits until it leads no more.
func (m *member) awaitLoss() {
	m.t.Helper()
	await(m.t, "the leader to give up", func() error {
		if h, err := m.health(); err == nil {
			return fmt.Errorf("it is %s", h.Role)
		}
		return nil
	})
}
