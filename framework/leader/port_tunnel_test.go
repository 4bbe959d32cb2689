package leader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/internal/portrelay"
	"mesos-gpu/job"
)

// newTunnelLeader returns the leader of execModel's job, with that port of its task. run runs relays.
func newTunnelLeader(port int, run func(context.Context, master.ExecCommand, master.ExecStreams) (int, error)) *Leader {
	model := execModel("http://192.0.2.1:5051", job.Mesos)
	j, _ := model.CopyJob("train")
	j.Spec.Ports, j.Tasks[0].Ports = []job.Port{{Name: "web"}}, []int{port}
	leads := New(&Loop{Model: modelOf(j)}, Config{})
	leads.Streams.tunnels.idleTime, leads.Streams.tunnels.run = time.Hour, run
	return leads
}

// serveRelay is the relay's command.
func serveRelay(ctx context.Context, _ master.ExecCommand, s master.ExecStreams) (int, error) {
	return 0, portrelay.Serve(ctx, struct {
		io.Reader
		io.WriteCloser
	}{s.Stdin, s.Stdout.(io.WriteCloser)})
}

func TestOpenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "connection %d", n)
			_ = conn.Close()
		}
	}()
	var relays atomic.Int32
	b := newTunnelLeader(l.Addr().(*net.TCPAddr).Port, func(ctx context.Context, c master.ExecCommand, s master.ExecStreams) (int, error) {
		relays.Add(1)
		if !c.Relay || c.ExecutorID != "train.0" || c.AgentURL != "http://192.0.2.1:5051" {
			t.Errorf("the relay is %+v", c)
		}
		return serveRelay(ctx, c, s)
	})
	for _, want := range []string{"connection 1", "connection 2"} {
		conn, err := b.Streams.OpenPort(t.Context(), "train", 0, "web")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(conn); err != nil || string(text) != want {
			t.Errorf("got %q, %v, want %q", text, err, want)
		}
		_ = conn.Close()
	}
	if n := relays.Load(); n != 1 {
		t.Errorf("%d relays, want 1", n)
	}
	_ = l.Close()
	want := func(what, name string, task int, port string, code api.ProblemCode, text string) {
		t.Helper()
		_, err := b.Streams.OpenPort(t.Context(), name, task, port)
		if p := (*api.Problem)(nil); !errors.As(err, &p) || p.Code != code || !strings.Contains(p.Detail, text) {
			t.Errorf("%s: %v, want %s and %q", what, err, code, text)
		}
	}
	want("nothing listens", "train", 0, "", api.CodePortClosed, "task train.0 accepts no connections on its port: connection refused")
	want("another port", "train", 0, "22", "conflict", "has no port")
	want("a task that waits", "train", 1, "", api.CodeTaskNotRunning, "is WAITING")
	want("no job", "other", 0, "", api.CodeJobNotFound, "other")
	b = newTunnelLeader(1, func(_ context.Context, _ master.ExecCommand, s master.ExecStreams) (int, error) {
		fmt.Fprint(s.Stderr, "mesos-gpu: unknown command relay")
		return 2, nil
	})
	want("an old executor", "train", 0, "", "mesos_failed", "its agent ended the connection: mesos-gpu: unknown command relay")
	b = newTunnelLeader(1, func(context.Context, master.ExecCommand, master.ExecStreams) (int, error) {
		return 0, api.NewProblemf(http.StatusBadGateway, "the agent is away")
	})
	want("no agent", "train", 0, "", "mesos_failed", "the agent is away")
}

// TestEndedTunnelKeepsItsSuccessor closes the last connection of a tunnel whose relay has ended, after another tunnel to
// the task has started. The idle time of the first must not remove the second from the table.
func TestEndedTunnelKeepsItsSuccessor(t *testing.T) {
	tt := &tunnelTable{idleTime: time.Hour, run: serveRelay}
	command := master.ExecCommand{ExecutorID: "train.0", Relay: true}
	first, err := tt.acquire(command)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	<-first.ended
	tt.remove(first) // its goroutine may not have done so yet
	second, err := tt.acquire(command)
	if err != nil || second == first {
		t.Fatalf("no other tunnel: %v", err)
	}
	t.Cleanup(func() { _ = second.Close() })
	tt.release(first)
	tt.closeIdle(first)
	if third, err := tt.acquire(command); err != nil || third != second {
		t.Errorf("the second tunnel is not used again: %v", err)
	}
}

// TestTunnelEndsWithoutConnections checks when the relay of a task ends, and the limit of
// its connections.
func TestTunnelEndsWithoutConnections(t *testing.T) {
	ended := make(chan struct{})
	tt := &tunnelTable{idleTime: time.Nanosecond, run: func(ctx context.Context, c master.ExecCommand, s master.ExecStreams) (int, error) {
		defer close(ended)
		return serveRelay(ctx, c, s)
	}}
	command := master.ExecCommand{ExecutorID: "train.0", Relay: true}
	tt.mu.Lock()
	one, err := tt.start(command)
	if err != nil {
		t.Fatal(err)
	}
	one.connections = 1 // before its idle time can end it
	tt.mu.Unlock()
	for range portrelay.MaxConnections - 1 {
		if got, err := tt.acquire(command); err != nil || got != one {
			t.Fatalf("another tunnel, or %v", err)
		}
	}
	_, err = tt.acquire(command)
	if p := (*api.Problem)(nil); !errors.As(err, &p) || p.Code != api.CodeTooManySessions {
		t.Errorf("more connections than the limit: %v", err)
	}
	for range portrelay.MaxConnections - 1 {
		tt.release(one)
	}
	tt.closeIdle(one)
	select {
	case <-ended:
		t.Error("a relay with a connection has ended")
	default:
	}
	tt.release(one)
	<-ended
	<-one.ended
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if len(tt.tunnels) != 0 {
		t.Errorf("%d tunnels without connections", len(tt.tunnels))
	}
}
