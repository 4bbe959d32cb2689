package zktest

import (
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

type silent struct{}

func (silent) Printf(string, ...any) {}

func dial(t *testing.T, addr string) (*zk.Conn, <-chan zk.Event) {
	t.Helper()
	c, events, err := zk.Connect([]string{addr}, 4*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, events
}

// What was written is there after the server was killed, and after it was
// stopped; the address stays.
func TestRestartKeepsDataAndPort(t *testing.T) {
	s := StartServer(t)
	c, _ := dial(t, s.Addr())
	if _, err := c.Create("/a", []byte("x"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(){s.Kill, s.Stop} {
		end()
		if ServerMode(s.Addr()) != "" {
			t.Fatal("it serves though it has ended")
		}
		s.Restart()
		again, _ := dial(t, s.Addr())
		if data, _, err := again.Get("/a"); err != nil || string(data) != "x" {
			t.Errorf("after the restart: %q, %v", data, err)
		}
	}
}

func await(t *testing.T, events <-chan zk.Event, state zk.State) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case ev := <-events:
			if ev.State == state {
				return
			}
		case <-limit:
			t.Fatalf("state %s did not come", state)
		}
	}
}

func TestProxyCutsAndHeals(t *testing.T) {
	s := StartServer(t)
	p := NewProxy(t, s.Addr())
	c, events := dial(t, p.Addr())
	await(t, events, zk.StateHasSession)
	p.BreakConnections()
	await(t, events, zk.StateDisconnected)
	await(t, events, zk.StateHasSession)
	p.CutNetwork()
	await(t, events, zk.StateDisconnected)
	p.HealNetwork()
	p.BreakConnections() // the connection that was held back
	await(t, events, zk.StateHasSession)
	if _, _, err := c.Exists("/"); err != nil {
		t.Error(err)
	}
}

func TestNextTestGetsServerWithoutZnodes(t *testing.T) {
	var first string
	t.Run("first", func(t *testing.T) {
		s := StartServer(t)
		first = s.Addr()
		c, _ := dial(t, s.Addr())
		for _, path := range []string{"/a", "/a/b", "/c"} {
			if _, err := c.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		}
	})
	s := StartServer(t)
	c, _ := dial(t, s.Addr())
	znodes, _, err := c.Children("/")
	if s.Addr() != first || err != nil || !slices.Equal(znodes, []string{"zookeeper"}) {
		t.Errorf("server %s after %s, znodes %q, %v", s.Addr(), first, znodes, err)
	}
}
