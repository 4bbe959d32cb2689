package crash

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/internal/testing/zktest"
)

// TestKilledLeader repeatedly kills the leader of two schedulers. The standby takes over,
// and a new process becomes the standby.
func TestKilledLeader(t *testing.T) {
	deaths := 5
	if testneeds.IsLongRun() {
		deaths = 24
	}
	t.Parallel()
	zk := zktest.StartServer(t)
	c := newCluster(t)
	p := newTaskEvidence(t, c.binary)
	books := startAuditor(c)
	schedulers := newPair(t, c, zk)
	all := startUsers(t, p, schedulers.apis())
	began := time.Now()
	for _, at := range planLeaderCrashes(deaths, rand.New(rand.NewPCG(3, 4))) {
		schedulers.killLeader(at)
	}
	jobs := schedulers.finish(c, all, p)
	books.stopAuditor()
	t.Logf("%s; %d jobs ended, %d of %d GPUs held at most in %d looks, %s in all\n%s",
		schedulers.summarize(), jobs, books.most, agents*gpusPerAgent, books.looks, time.Since(began).Round(time.Millisecond), schedulers.hits.formatTable())
}

// planLeaderCrashes returns that many crash points that a scheduler reaches after it has
// led for a while and processed what it found in the journal.
func planLeaderCrashes(deaths int, chance *rand.Rand) (all []crashPoint) {
	for _, p := range planCrashes(2*deaths+30, chance) {
		if p.Kind != "framework" && p.Kind != "requeue" && p.When != anytime {
			all = append(all, p)
		}
	}
	return all[:deaths]
}

// TestZooKeeperRestartsDuringSubmissions restarts ZooKeeper while jobs are submitted, alone
// and together with the leader.
func TestZooKeeperRestartsDuringSubmissions(t *testing.T) {
	t.Parallel()
	zk := zktest.StartServer(t)
	c := newCluster(t)
	p := newTaskEvidence(t, c.binary)
	books := startAuditor(c)
	schedulers := newPair(t, c, zk)
	all := startUsers(t, p, schedulers.apis())
	began, leaders := time.Now(), 0
	for _, r := range []struct {
		name              string
		end               func()
		before, meanwhile func(leader *pairMember) // nil: does nothing
	}{
		{name: "stopped", end: zk.Stop},
		{name: "killed", end: zk.Kill},
		{name: "killed, the leader with it", end: zk.Kill, meanwhile: (*pairMember).die},
		{name: "killed, the leader before", end: zk.Kill, before: (*pairMember).die},
		{name: "killed, the leader while it records", end: zk.Kill, before: (*pairMember).dieAtLaunch, meanwhile: (*pairMember).die},
		{name: "away for longer than a session", end: zk.Stop, meanwhile: (*pairMember).awaitLoss},
	} {
		leader, _ := schedulers.awaitSettled()
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
	books.stopAuditor()
	t.Logf("%d leaders died; %d jobs ended, %d of %d GPUs held at most in %d looks, %s in all",
		leaders, jobs, books.most, agents*gpusPerAgent, books.looks, time.Since(began).Round(time.Millisecond))
}

func (m *pairMember) die() {
	m.kill()
	m.await(m.ended, "its end")
}

// dieAtLaunch sets a crash point that may be reached while ZooKeeper stops.
func (m *pairMember) dieAtLaunch() { m.setCrashPoint(crashPoint{When: after, Kind: "launch", Nth: 1}) }

// awaitLoss waits until the scheduler no longer leads.
func (m *pairMember) awaitLoss() {
	m.t.Helper()
	pollUntilOK(m.t, "the leader to give up", func() error {
		if h, err := m.health(); err == nil {
			return fmt.Errorf("the scheduler is %s", h.Role)
		}
		return nil
	})
}
