package master

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/zktest"
)

// fakeTree is one ZooKeeper folder. err makes requests fail.
type fakeTree struct {
	mu      sync.Mutex
	nodes   map[string]string // nil: the folder does not exist
	err     error
	watches []chan zk.Event
	dials   int
}

func (f *fakeTree) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	for _, w := range f.watches {
		close(w)
	}
	f.watches = nil
}

func (f *fakeTree) watch() chan zk.Event {
	f.watches = append(f.watches, make(chan zk.Event))
	return f.watches[len(f.watches)-1]
}

func (f *fakeTree) ExistsW(string) (bool, *zk.Stat, <-chan zk.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes != nil, nil, f.watch(), f.err
}

func (f *fakeTree) ChildrenW(string) ([]string, *zk.Stat, <-chan zk.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes == nil && f.err == nil {
		return nil, nil, nil, zk.ErrNoNode
	}
	return slices.Collect(maps.Keys(f.nodes)), nil, f.watch(), f.err
}

func (f *fakeTree) Get(path string) ([]byte, *zk.Stat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, ok := f.nodes[strings.TrimPrefix(path, "/mesos/")]
	if !ok {
		return nil, nil, zk.ErrNoNode
	}
	return []byte(text), nil, nil
}

func (f *fakeTree) Close() {}

func masterJSON(port int) string { return fmt.Sprintf(`{"address":{"ip":"10.0.0.1","port":%d}}`, port) }

func newFakeDetector(f *fakeTree) *zkDetector {
	cfg := ConnectionConfig{Log: newDiscardLogger(), random: func() float64 { return 0.5 }}
	cfg.setDefaults()
	d := newZKDetector(&cfg, &zkAddress{TargetFolder: zkconn.TargetFolder{Path: "/mesos"}}, func(error) {})
	d.dial = func(context.Context) (zkConn, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.dials++
		return f, nil
	}
	return d
}

// TestZKDetector goes from an empty ZooKeeper to a leader, through all errors that ZooKeeper can cause.
func TestZKDetector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTree{}
		d := newFakeDetector(f)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go d.run(ctx)
		why := func(want string) {
			t.Helper()
			short, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			if base, _, err := d.findLeader(short); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("leader %q, %v, want an error with %q", base, err, want)
			}
		}
		leads := func(want string) <-chan struct{} {
			t.Helper()
			synctest.Wait()
			base, changed, err := d.findLeader(ctx)
			if err != nil || base != want {
				t.Errorf("leader %q, %v, want %s", base, err, want)
			}
			return changed
		}
		why("ZooKeeper has no /mesos")
		f.change(func() { f.nodes = map[string]string{"log_replicas": ""} })
		why("has 1 nodes and none is a master's")
		f.change(func() { f.nodes["info_0000000001"] = "\x0a" })
		why("in the binary form of Mesos before 0.24")
		f.change(func() { f.nodes = map[string]string{"json.info_0000000001": "nonsense"} })
		why("decode master info")
		f.change(func() {
			f.nodes = map[string]string{"json.info_0000000002": masterJSON(1), "json.info_0000000003": masterJSON(2)}
		})
		changed := leads("http://10.0.0.1:1")

		f.change(func() { f.nodes = map[string]string{} }) // no master leads: that ends no session
		leads("http://10.0.0.1:1")
		f.change(func() { f.err = errors.New("connection lost") })
		time.Sleep(time.Minute)
		leads("http://10.0.0.1:1")
		if n := f.dials; n < 5 || n > 20 {
			t.Errorf("%d connections in a minute without ZooKeeper", n)
		}
		select {
		case <-changed:
			t.Error("the leader counts as changed")
		default:
		}
		f.change(func() { f.nodes, f.err = map[string]string{"json.info_0000000003": masterJSON(2)}, nil })
		time.Sleep(15 * time.Second) // until the next connection
		leads("http://10.0.0.1:2")
		<-changed
	})
}

// TestZooKeeper follows masters with a real ZooKeeper: an election, the end of the leader, a restart of ZooKeeper,
// and a new subscription.
func TestZooKeeper(t *testing.T) {
	t.Parallel()
	server := zktest.StartServer(t)
	one, two := mesostest.NewMaster(t), mesostest.NewMaster(t)
	conn := connect(t, server.Addr(), "")
	if _, err := conn.Create("/mesos", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	r := startClient(t, ConnectionConfig{Master: "zk://" + server.Addr() + "/mesos"})
	stand := func(m *mesostest.FakeMaster) string {
		t.Helper()
		host, port, _ := strings.Cut(strings.TrimPrefix(m.URL(), "http://"), ":")
		text := fmt.Sprintf(`{"address":{"hostname":"localhost","ip":%q,"port":%s}}`, host, port)
		path, err := conn.Create("/mesos/json.info_", []byte(text), zk.FlagSequence, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := stand(one)
	nextEvent[sched.Subscribed](t, r)
	if len(one.Calls()) != 1 {
		t.Fatal("not subscribed to the first master")
	}
	stand(two)
	if err := conn.Delete(first, -1); err != nil { // it does not lead any more, although its stream is open
		t.Fatal(err)
	}
	nextEvent[sched.Disconnected](t, r)
	if id := nextEvent[sched.Subscribed](t, r).FrameworkID; id != "framework-1" || len(two.Calls()) != 1 {
		t.Errorf("subscribed with id %q; the second master got %d calls", id, len(two.Calls()))
	}
	r.PostOperation(sched.SuppressOffers{})
	two.AwaitCall(t, 1, scheduler.Call_SUPPRESS, nil)

	server.Stop()
	r.PostOperation(sched.ReviveOffers{})
	two.AwaitCall(t, 1, scheduler.Call_REVIVE, nil) // the session continues without ZooKeeper
	two.DropSubscription()
	nextEvent[sched.Subscribed](t, r) // and a new session finds the last known leader
	server.Restart()
}

// TestZooKeeperPassword reads a folder that requires authentication.
func TestZooKeeperPassword(t *testing.T) {
	t.Parallel()
	server := zktest.StartServer(t)
	m := mesostest.NewMaster(t)
	conn := connect(t, server.Addr(), "mesos:s3cret")
	host, port, _ := strings.Cut(strings.TrimPrefix(m.URL(), "http://"), ":")
	acl := zk.DigestACL(zk.PermAll, "mesos", "s3cret")
	if _, err := conn.Create("/closed", nil, 0, acl); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Create("/closed/json.info_", fmt.Appendf(nil, `{"address":{"ip":%q,"port":%s}}`, host, port), zk.FlagSequence, acl); err != nil {
		t.Fatal(err)
	}
	nextEvent[sched.Subscribed](t, startClient(t, ConnectionConfig{
		Master:     "zk://" + server.Addr() + "/closed",
		ZKAuthFile: writeFile(t, "mesos:s3cret\n", 0o600),
	}))
	nextEvent[sched.Subscribed](t, startClient(t, ConnectionConfig{Master: "zk://mesos:s3cret@" + server.Addr() + "/closed"}))

	stranger := startClient(t, ConnectionConfig{Master: "zk://" + server.Addr() + "/closed"})
	if _, err := stranger.ListAgents(context.Background()); err == nil || !strings.Contains(err.Error(), "not authenticated") {
		t.Errorf("a stranger got %v", err)
	}
	for text, want := range map[string]string{"hunter2": "is not one line of the form user:password", "a:b\nc:hunter2": "is not one line"} {
		_, err := New(ConnectionConfig{Master: "zk://z/mesos", ZKAuthFile: writeFile(t, text, 0o600), ExecutorPath: "/x", Log: newDiscardLogger()})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func connect(t *testing.T, addr, auth string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(discardLogger{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if auth != "" {
		if err := conn.AddAuth("digest", []byte(auth)); err != nil {
			t.Fatal(err)
		}
	}
	return conn
}
