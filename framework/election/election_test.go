package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/internal/testing/zktest"
)

func testTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func newSession(t *testing.T, addr string, timeout time.Duration) *zkconn.Session {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	s, err := zkconn.Dial(testTimeout(t), zkconn.TargetFolder{Hosts: []string{addr}, Path: "/x"}, timeout, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

const folder = "/test/election"

func joinForTest(t *testing.T, s *zkconn.Session, url string) (*Candidate, chan error) {
	t.Helper()
	c, err := JoinElection(testTimeout(t), s, folder, CandidateInfo{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	leads := make(chan error, 1)
	go func() { leads <- c.AwaitLeadership(context.WithoutCancel(t.Context())) }()
	return c, leads
}

func wantLeader(t *testing.T, s *zkconn.Session, url string) {
	t.Helper()
	m, err := FindLeader(testTimeout(t), s, folder)
	if err != nil || m.URL != url {
		t.Errorf("%q leads, %v, want %q", m.URL, err, url)
	}
}

// Leadership passes to exactly one candidate at a time, whether the leader left or lost its
// connection, or a candidate in the middle left.
func TestLeadershipPassesToNextCandidate(t *testing.T) {
	server := zktest.StartServer(t)
	proxy := zktest.NewProxy(t, server.Addr())
	watcher := newSession(t, server.Addr(), zktest.MaxSession)
	if _, err := FindLeader(testTimeout(t), watcher, folder); !errors.Is(err, ErrNoLeader) {
		t.Errorf("before any candidate joins: %v", err)
	}
	sessions := []*zkconn.Session{
		newSession(t, proxy.Addr(), 5*time.Second), // loses its connection
		newSession(t, server.Addr(), zktest.MaxSession),
		newSession(t, server.Addr(), zktest.MaxSession), // leaves before it leads
		newSession(t, server.Addr(), zktest.MaxSession),
	}
	var leads []chan error
	for i, s := range sessions {
		_, c := joinForTest(t, s, fmt.Sprintf("http://s%d", i))
		leads = append(leads, c)
	}
	await := func(i int) {
		t.Helper()
		select {
		case err := <-leads[i]:
			if err != nil {
				t.Fatalf("candidate %d: %v", i, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("candidate %d does not lead", i)
		}
		for j := i + 1; j < len(leads); j++ {
			if len(leads[j]) > 0 && j != 2 {
				t.Errorf("candidates %d and %d lead", i, j)
			}
		}
		wantLeader(t, watcher, fmt.Sprintf("http://s%d", i))
	}
	await(0)
	proxy.CutNetwork()
	await(1)
	sessions[2].Close()
	if err := <-leads[2]; !errors.Is(err, zkconn.ErrLost) {
		t.Errorf("candidate 2 left and got %v", err)
	}
	wantLeader(t, watcher, "http://s1")
	sessions[1].Close()
	await(3)
}

// A restart of ZooKeeper does not change the leader.
func TestZooKeeperRestartKeepsCandidateOrder(t *testing.T) {
	server := zktest.StartServer(t)
	first, second := newSession(t, server.Addr(), zktest.MaxSession), newSession(t, server.Addr(), zktest.MaxSession)
	_, a := joinForTest(t, first, "http://a")
	if err := <-a; err != nil {
		t.Fatal(err)
	}
	_, b := joinForTest(t, second, "http://b")
	server.Restart()
	wantLeader(t, second, "http://a")
	if len(b) > 0 {
		t.Errorf("the second waits no more: %v", <-b)
	}
	wantLeader(t, first, "http://a") // also waits until the session is connected again
	first.Close()
	if err := <-b; err != nil {
		t.Errorf("after the first left: %v", err)
	}
}

// A candidate that was created twice, because the answer was lost, does not wait for
// itself.
func TestCandidateDoesNotWaitForItself(t *testing.T) {
	s := newSession(t, zktest.StartServer(t).Addr(), zktest.MaxSession)
	for range 2 {
		_, leads := joinForTest(t, s, "http://a")
		if err := <-leads; err != nil {
			t.Fatal(err)
		}
	}
}

func TestAwaitLeadershipEndsWithItsContext(t *testing.T) {
	addr := zktest.StartServer(t).Addr()
	_, a := joinForTest(t, newSession(t, addr, zktest.MaxSession), "http://a")
	if err := <-a; err != nil {
		t.Fatal(err)
	}
	c, err := JoinElection(testTimeout(t), newSession(t, addr, zktest.MaxSession), folder, CandidateInfo{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.AwaitLeadership(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
