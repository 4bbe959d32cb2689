package crash

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/zktest"
)

// sessionTimeout is how long ZooKeeper waits for a silent leader.
const sessionTimeout = time.Second

// schedulerPair is two schedulers with one journal in ZooKeeper: a leader and a standby.
type schedulerPair struct {
	t       testing.TB
	members [2]*pairMember
	hits    crashCounts
	takings []time.Duration // times from a leader's death until the next one leads
	deposed int
}

// pairMember is one scheduler of the pair, in successive processes.
type pairMember struct {
	processSettings
	*schedulerProcess
	api *client.Client
}

func newPair(t testing.TB, c *crashCluster, zk *zktest.ZooKeeperServer) *schedulerPair {
	t.Helper()
	p := &schedulerPair{t: t, hits: crashCounts{}}
	for i := range p.members {
		m := &pairMember{processSettings: processSettings{
			Master: c.url, API: newAddress(t), Journal: "zk://" + zk.Addr() + "/mesos-gpu/crash", Session: sessionTimeout,
			Executor: c.binary, Logs: c.logs,
		}}
		var err error
		if m.api, err = client.New(m.API); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.api.Close)
		m.start(t)
		p.members[i] = m
	}
	return p
}

func (m *pairMember) start(t testing.TB) {
	t.Helper()
	m.schedulerProcess = startProcess(t, m.processSettings)
	m.awaitUnlessEnded(m.up, "its API listens")
}

// apis returns both addresses, for clients.
func (p *schedulerPair) apis() string { return p.members[0].API + "," + p.members[1].API }

// awaitSettled waits until one scheduler leads with a connected master and the other is a standby.
func (p *schedulerPair) awaitSettled() (leader, standby *pairMember) {
	p.t.Helper()
	pollUntilOK(p.t, "a leader and a standby", func() error {
		leader, standby = nil, nil
		for _, m := range p.members {
			switch h, err := m.health(); {
			case err != nil:
				return err
			case h.Role == api.Leader && h.Connected:
				leader = m
			case h.Role == api.Standby:
				standby = m
			}
		}
		if leader == nil || standby == nil {
			return fmt.Errorf("leader %t, standby %t", leader != nil, standby != nil)
		}
		return nil
	})
	return leader, standby
}

// health returns the member's health. Unlike other client calls it does not wait for a takeover.
func (m *pairMember) health() (api.HealthStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return m.api.GetHealth(ctx)
}

// killLeader makes the leader die at that point, waits until the standby has taken over, and
// starts a new process as the standby.
func (p *schedulerPair) killLeader(at crashPoint) {
	p.t.Helper()
	for {
		leader, standby := p.awaitSettled()
		emptyChannel(standby.leads)
		leader.setCrashPoint(at)
		select {
		case <-leader.ended:
			p.countCrash(leader, at)
			p.awaitTakeover(leader, standby)
			leader.start(p.t)
			return
		case <-standby.leads:
			// On a busy machine the leader's session may expire before it reaches the point.
			p.deposed++
			leader.kill()
			<-leader.ended
			leader.start(p.t)
		case <-time.After(waitTimeout):
			p.t.Fatalf("waited %s for the leader's death %s", waitTimeout, at)
		}
	}
}

func (p *schedulerPair) countCrash(dead *pairMember, at crashPoint) { p.hits[dead.awaitDeath(at)]++ }

// awaitTakeover waits until the standby leads and records how long that took.
func (p *schedulerPair) awaitTakeover(dead, standby *pairMember) {
	p.t.Helper()
	select {
	case now := <-standby.leads:
		p.takings = append(p.takings, now.Sub(dead.at))
	case <-standby.ended:
		p.t.Fatalf("the standby ended instead of leading: %v", standby.err)
	case <-time.After(waitTimeout):
		p.t.Fatalf("waited %s for the standby to lead", waitTimeout)
	}
}

func emptyChannel(c <-chan time.Time) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}

// summarize returns statistics of the takeovers for the test's log.
func (p *schedulerPair) summarize() string {
	slices.Sort(p.takings)
	if len(p.takings) == 0 {
		return "no takeover"
	}
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("%d takeovers, with a session of %s: least %s, median %s, most %s; %d times a leader that lived was deposed",
		len(p.takings), sessionTimeout, ms(p.takings[0]), ms(p.takings[len(p.takings)/2]), ms(p.takings[len(p.takings)-1]), p.deposed)
}

// finish waits for all jobs, checks the evidence and stops both schedulers.
func (p *schedulerPair) finish(c *crashCluster, all *testUsers, evidence *taskEvidence) (jobs int) {
	p.t.Helper()
	ended := all.finishAll()
	leader, standby := p.awaitSettled()
	evidence.checkAll(c, leader.api, ended)
	standby.stop()
	leader.stop()
	return len(ended)
}
