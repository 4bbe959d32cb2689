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
	"mesos-gpu/internal/zktest"
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func session(t *testing.T, addr string, timeout time.Duration) *zkconn.Session {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	s, err := zkconn.Dial(within(t), zkconn.Target{Hosts: []string{addr}, Path: "/x"}, timeout, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

const folder = "/test/election"

func join(t *testing.T, s *zkconn.Session, url string) (*Candidate, chan error) {
	t.Helper()
	c, err := Join(within(t), s, folder, Member{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	leads := make(chan error, 1)
	go func() { leads <- c.Await(context.WithoutCancel(t.Context())) }()
	return c, leads
}

func wantLeader(t *testing.T, s *zkconn.Session, url string) {
	t.Helper()
	m, err := Leader(within(t), s, folder)
	if err != nil || m.URL != url {
		t.Errorf("%q leads, %v, want %q", m.URL, err, url)
	}
}

// The lead goes down the line, each time to one, whether the one before left,
// was cut off, or one in the middle went.
func TestTheLeadGoesDownTheLine(t *testing.T) {
	server := zktest.Start(t)
	proxy := zktest.NewProxy(t, server.Addr())
	watcher := session(t, server.Addr(), zktest.MaxSession)
	if _, err := Leader(within(t), watcher, folder); !errors.Is(err, ErrNoLeader) {
		t.Errorf("before anybody joins: %v", err)
	}
	sessions := []*zkconn.Session{
		session(t, proxy.Addr(), 5*time.Second), // is cut off
		session(t, server.Addr(), zktest.MaxSession),
		session(t, server.Addr(), zktest.MaxSession), // leaves before it led
		session(t, server.Addr(), zktest.MaxSession),
	}
	var leads []chan error
	for i, s := range sessions {
		_, c := join(t, s, fmt.Sprintf("http://s%d", i))
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
	proxy.Cut()
	await(1)
	sessions[2].Close()
	if err := <-leads[2]; !errors.Is(err, zkconn.ErrLost) {
		t.Errorf("candidate 2 left and got %v", err)
	}
	wantLeader(t, watcher, "http://s1")
	sessions[1].Close()
	await(3)
}

// A restart of ZooKeeper does not change who leads.
func TestRestartKeepsTheLine(t *testing.T) {
	server := zktest.Start(t)
	first, second := session(t, server.Addr(), zktest.MaxSession), session(t, server.Addr(), zktest.MaxSession)
	_, a := join(t, first, "http://a")
	if err := <-a; err != nil {
		t.Fatal(err)
	}
	_, b := join(t, second, "http://b")
	server.Restart()
	wantLeader(t, second, "http://a")
	if len(b) > 0 {
		t.Errorf("the second waits no more: %v", <-b)
	}
	wantLeader(t, first, "http://a") // it is connected again, and says when it leaves
	first.Close()
	if err := <-b; err != nil {
		t.Errorf("after the first left: %v", err)
	}
}

// A candidate that was made twice, because the answer was lost, does not wait
// for itself.
func TestNobodyWaitsForItself(t *testing.T) {
	s := session(t, zktest.Start(t).Addr(), zktest.MaxSession)
	for range 2 {
		_, leads := join(t, s, "http://a")
		if err := <-leads; err != nil {
			t.Fatal(err)
		}
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	addr := zktest.Start(t).Addr()
	_, a := join(t, session(t, addr, zktest.MaxSession), "http://a")
	if err := <-a; err != nil {
		t.Fatal(err)
	}
	c, err := Join(within(t), session(t, addr, zktest.MaxSession), folder, Member{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Await(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
