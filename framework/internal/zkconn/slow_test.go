package zkconn

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// slowServer is a fake ZooKeeper server that only maintains sessions: it answers connect
// requests after a delay, and pings immediately.
type slowServer struct {
	granted time.Duration
	mu      sync.Mutex
	delay   time.Duration // before a connect request is answered
	refuses bool
	came    int      // number of connections so far
	last    net.Conn // the server's end
	serving sync.WaitGroup
}

func (z *slowServer) reach(_, _ string, _ time.Duration) (net.Conn, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.refuses {
		return nil, syscall.ECONNREFUSED
	}
	client, server := net.Pipe()
	z.came, z.last = z.came+1, server
	delay := z.delay
	z.serving.Go(func() {
		defer server.Close()
		z.serve(server, delay)
	})
	return client, nil
}

// Message lengths in bytes, and an operation code, of ZooKeeper's protocol.
const (
	connected = 36 // answer to a connect request
	answered  = 16 // answer that consists of its header only
	closing   = -11
)

func (z *slowServer) serve(c net.Conn, delay time.Duration) {
	if _, err := request(c); err != nil {
		return
	}
	time.Sleep(delay)
	hello := make([]byte, 4+connected)
	binary.BigEndian.PutUint32(hello, connected)
	binary.BigEndian.PutUint32(hello[8:], uint32(z.granted.Milliseconds()))
	binary.BigEndian.PutUint64(hello[12:], 7) // session id
	binary.BigEndian.PutUint32(hello[20:], 16)
	_, err := c.Write(hello)
	for err == nil {
		var asked []byte
		if asked, err = request(c); err != nil {
			return
		}
		answer := make([]byte, 4+answered)
		binary.BigEndian.PutUint32(answer, answered)
		copy(answer[4:], asked[:4]) // request id
		if _, err = c.Write(answer); int32(binary.BigEndian.Uint32(asked[4:])) == closing {
			return
		}
	}
}

func request(c net.Conn) ([]byte, error) {
	length := make([]byte, 4)
	if _, err := io.ReadFull(c, length); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length))
	_, err := io.ReadFull(c, body)
	return body, err
}

// setDelayAndDisconnect changes the server's behaviour and breaks the current connection.
func (z *slowServer) setDelayAndDisconnect(delay time.Duration, refuses bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.delay, z.refuses = delay, refuses
	_ = z.last.Close()
}

func (z *slowServer) connections() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.came
}

// connectTo returns a session with the server, which ends before the test's bubble does.
func (z *slowServer) connectTo(t *testing.T, log logrus.FieldLogger) *Session {
	t.Helper()
	target := TargetFolder{Hosts: []string{"127.0.0.1:1"}, Path: "/x"}
	s := newSession(target, z.granted, log)
	s.dialTCP = z.reach
	if err := s.connectSession(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	return s
}

// A client waits for a server that takes longer than a third of the session's timeout to
// answer a reconnect, as long as more than that time is left.
func TestSessionSurvivesASlowServer(t *testing.T) {
	for delay, survives := range map[time.Duration]bool{3500 * time.Millisecond: true, 5 * time.Second: false} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z := &slowServer{granted: 10 * time.Second}
				s := z.connectTo(t, discardLog())
				defer z.serving.Wait()
				defer s.Close()
				began := time.Now()
				z.setDelayAndDisconnect(delay, false)
				if !survives {
					<-s.Lost()
					if took := time.Since(began); took > z.granted*9/10 {
						t.Errorf("the session is lost after %s: the server may have ended it", took)
					}
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := s.Retry(ctx, func() error { return deleteMissing(s) }); err != nil || !s.IsHeld() {
					t.Fatalf("got %v, held %t", err, s.IsHeld())
				}
				if got := z.connections(); got != 2 {
					t.Errorf("it came back by %d connections, want the first and one more", got)
				}
			})
		})
	}
}

// deleteMissing sends a request whose answer consists of its header only.
func deleteMissing(s *Session) error { return s.Conn.Delete("/x", 0) }

// The reason for a lost connection is logged once, and so is the recovery.
func TestConnectionLossIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, said := logtest.NewNullLogger()
		z := &slowServer{granted: 10 * time.Second}
		s := z.connectTo(t, log)
		defer z.serving.Wait()
		defer s.Close()
		z.setDelayAndDisconnect(0, true)
		time.Sleep(3 * time.Second) // the client reconnects every second
		z.setDelayAndDisconnect(0, false)
		if err := s.Retry(t.Context(), func() error { return deleteMissing(s) }); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range said.AllEntries() {
			if got = append(got, e.Message); e.Level == logrus.WarnLevel && !errors.Is(e.Data[logrus.ErrorKey].(error), syscall.ECONNREFUSED) {
				t.Errorf("%s: %v", e.Message, e.Data)
			}
		}
		if diff := cmp.Diff([]string{"no connection to ZooKeeper", "connected to ZooKeeper"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A request whose write failed counts as possibly carried out and is retried.
func TestFailedWriteIsUnknown(t *testing.T) {
	client, server := net.Pipe()
	_ = server.Close()
	defer client.Close()
	if _, err := (&observedConn{Conn: client}).Write([]byte{0}); !IsOutcomeUnknown(err) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}
