package framework

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/zktest"
)

// statusFeed receives the statuses of a scheduler.
type statusFeed chan Status

func (f statusFeed) await(t *testing.T, what string, matches func(Status) bool) Status {
	t.Helper()
	limit := time.After(waitTimeout)
	var last Status
	for {
		select {
		case last = <-f:
			if matches(last) {
				return last
			}
		case <-limit:
			t.Fatalf("not so: %s; last %+v", what, last)
		}
	}
}

// A leader reports the master to which it is subscribed, and why it is not.
func TestStatusOfLeader(t *testing.T) {
	c, feed := mesostest.NewCluster(t, 1), make(statusFeed, 1000)
	startInstance(t, c, SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), OnStatus: func(s Status) { feed <- s }})
	feed.await(t, "leads without a master", func(s Status) bool { return s == Status{Leadership: Leading} })
	subscribed := func(s Status) bool { return s.Leadership == Leading && s.Master.URL != "" && s.Master.Err == nil }
	if s := feed.await(t, "subscribed", subscribed); s.Master.URL != c.URL() {
		t.Errorf("subscribed to %s, want %s", s.Master.URL, c.URL())
	}
	for range 2 { // the second failure has the same text as the first
		c.DropSubscription()
		feed.await(t, "not subscribed", func(s Status) bool { return s.Leadership == Leading && s.Master.URL == "" && s.Master.Err != nil })
		feed.await(t, "subscribed again", subscribed)
	}
}

// A candidate stands by, leads, and reports why it has lost leadership.
func TestStatusOfCandidate(t *testing.T) {
	c, server, feed := mesostest.NewCluster(t, 1), zktest.StartServer(t), make(statusFeed, 1000)
	startInstance(t, c, SchedulerConfig{JournalPath: "zk://" + server.Addr() + "/mesos-gpu/test", SessionTimeout: brief, OnStatus: func(s Status) { feed <- s }})
	feed.await(t, "stands by", func(s Status) bool { return s.Leadership == StandingBy })
	feed.await(t, "leads", func(s Status) bool { return s.Leadership == Leading && s.Master.URL != "" })
	server.Stop()
	feed.await(t, "misses ZooKeeper", func(s Status) bool { return s.ZooKeeperError != nil })
	s := feed.await(t, "has lost leadership", func(s Status) bool { return s.Leadership == LostLeadership })
	if !errors.Is(s.LeadershipError, zkconn.ErrLost) || s.Master.URL != "" {
		t.Errorf("got %+v", s)
	}
}
