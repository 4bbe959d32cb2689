package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/portrelay"
	"mesos-gpu/job"
)

// portBackend is a scheduler with one job, whose port is that of the address.
type portBackend struct {
	execBackend
	address   string
	connected chan string
}

func (b portBackend) GetJob(context.Context, string) (api.JobView, error) {
	spec := job.Spec{Name: "train", Tasks: 1, Container: job.Container{Ports: []job.Port{{Name: "web"}, {Name: "closed"}}}}
	return api.NewJobView(&job.Job{Spec: new(spec), Tasks: []job.Task{{ID: "train.0.1.x", Job: "train", State: job.Running, Ports: []int{31000, 31001}}}}, ""), nil
}

func (b portBackend) TrackConnection(name string) func() {
	b.connected <- name
	return func() { b.connected <- "" }
}

func (b portBackend) OpenPort(_ context.Context, _ string, _ int, port string) (portrelay.HalfCloser, error) {
	if port == "closed" {
		return nil, api.NewProblemf(409, "it accepts no connections").WithCode(api.CodePortClosed, "train.0.1.x")
	}
	conn, err := net.Dial("tcp", b.address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// tcpPair returns both ends of a connection.
func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near2, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far2, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = near2.Close()
		_ = far2.Close()
	})
	return near2.(*net.TCPConn), far2.(*net.TCPConn)
}

// TestForwardPort checks that data passes in both directions, that each direction ends
// separately, and that the connection counts while it lasts.
func TestForwardPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if data, err := io.ReadAll(conn); err == nil {
					_, _ = conn.Write(append(data, '!'))
				}
			}()
		}
	}()
	b := portBackend{address: l.Addr().String(), connected: make(chan string, 10)}
	s := httptest.NewServer(serveBackend(b))
	defer s.Close()
	c := connectTo(t, s.URL)
	user, local := tcpPair(t)
	forwarded := make(chan error)
	go func() { forwarded <- c.ForwardPort(t.Context(), "train", 0, "web", local) }()
	if name := <-b.connected; name != "train@1" {
		t.Errorf("a client of %q is counted", name)
	}
	data := make([]byte, 1<<20)
	if _, err := user.Write(data); err != nil || user.CloseWrite() != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(user); err != nil || len(got) != len(data)+1 || got[len(data)] != '!' {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if err := <-forwarded; err != nil {
		t.Error(err)
	}
	if end := <-b.connected; end != "" {
		t.Errorf("a client of %q is counted, want its end", end)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, open := tcpPair(t)
	go func() { forwarded <- c.ForwardPort(ctx, "train", 0, "", open) }()
	<-b.connected
	cancel()
	if err := <-forwarded; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled connection: %v", err)
	}
	<-b.connected
	for _, port := range []string{"22", "closed"} {
		p := (*api.Problem)(nil)
		if err := c.ProbePort(t.Context(), "train", 0, port); !errors.As(err, &p) || p.Status != 409 {
			t.Errorf("port %s: %v", port, err)
		}
	}
}
