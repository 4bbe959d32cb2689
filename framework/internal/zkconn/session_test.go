package zkconn

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/internal/testing/zktest"
)

func TestTargets(t *testing.T) {
	good := map[string]TargetFolder{
		"zk://h1/mesos-gpu":           {Hosts: []string{"h1:2181"}, Path: "/mesos-gpu"},
		"zk://h1:1,[::1]:2,::2/a//b/": {Hosts: []string{"h1:1", "[::1]:2", "[::2]:2181"}, Path: "/a/b"},
	}
	for url, want := range good {
		got, err := ParseTarget(url)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", url, err, diff)
		}
	}
	for url, want := range map[string]string{
		"http://h1/x": "does not begin", "zk://h1": "path of its own", "zk://h1/": "path of its own",
		"zk:///x": "host is missing", "zk://h1,,h2/x": "host is missing", "zk://gpu:secret@h1/x": "into a file",
	} {
		if _, err := ParseTarget(url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

func discardLog() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

func testTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func dialForTest(t *testing.T, addr string, timeout time.Duration) *Session {
	t.Helper()
	s, err := Dial(testTimeout(t), TargetFolder{Hosts: []string{addr}, Path: "/x"}, timeout, discardLog())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// A disconnected client considers its session lost before the server expires it, which
// others notice when its ephemeral znode disappears.
func TestSessionIsLostBeforeServerExpiresIt(t *testing.T) {
	server := zktest.StartServer(t)
	proxy := zktest.NewProxy(t, server.Addr())
	s := dialForTest(t, proxy.Addr(), 6*time.Second)
	if _, err := s.Conn.Create("/mine", nil, zk.FlagEphemeral, s.ACL); err != nil {
		t.Fatal(err)
	}
	other := dialForTest(t, server.Addr(), zktest.MaxSession)
	_, _, gone, err := other.Conn.ExistsW("/mine")
	if err != nil || !s.IsHeld() {
		t.Fatal(err, s.IsHeld())
	}
	proxy.CutNetwork()
	var ended zk.Event
	select {
	case <-s.Lost():
		if s.IsHeld() {
			t.Error("a lost session is held")
		}
		ended = <-gone
	case ended = <-gone: // if the machine stalls, both happen at the same time
		if s.IsHeld() {
			t.Error("the server ended the session before its owner knew")
		}
		<-s.Lost()
	}
	if ended.Type != zk.EventNodeDeleted {
		t.Errorf("got %v", ended)
	}
	err = s.Retry(testTimeout(t), func() error { _, _, err := s.Conn.Get("/"); return err })
	if !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
}

// A session survives broken connections and a restart of the server.
func TestSessionSurvivesARestart(t *testing.T) {
	server := zktest.StartServer(t)
	proxy := zktest.NewProxy(t, server.Addr())
	s := dialForTest(t, proxy.Addr(), zktest.MaxSession)
	id := s.Conn.SessionID()
	for _, disturb := range []func(){proxy.BreakConnections, server.Restart} {
		disturb()
		if err := s.Retry(testTimeout(t), func() error { _, _, err := s.Conn.Get("/"); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if s.Conn.SessionID() != id || !s.IsHeld() {
		t.Error("it is another session")
	}
}

// A session survives a server that accepts a connection and never answers.
func TestSessionSurvivesASilentServer(t *testing.T) {
	proxy := zktest.NewProxy(t, zktest.StartServer(t).Addr())
	s := dialForTest(t, proxy.Addr(), DefaultTimeout)
	id := s.Conn.SessionID()
	ignored := proxy.IgnoreNextConnection()
	proxy.BreakConnections()
	<-ignored
	if err := s.Retry(testTimeout(t), func() error { _, _, err := s.Conn.Get("/"); return err }); err != nil {
		t.Fatal(err)
	}
	if s.Conn.SessionID() != id || !s.IsHeld() {
		t.Error("it is another session")
	}
}

// Close does not wait for a server that never answers.
func TestCloseDoesNotWaitForSilentServer(t *testing.T) {
	proxy := zktest.NewProxy(t, zktest.StartServer(t).Addr())
	s := dialForTest(t, proxy.Addr(), zktest.MaxSession)
	ignored := proxy.IgnoreNextConnection()
	proxy.BreakConnections()
	<-ignored
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(zktest.MaxSession / connectTimeoutDivisor / 2):
		t.Error("it waits still for an answer")
	}
}

func TestDigestAuthenticationProtectsZnodes(t *testing.T) {
	server := zktest.StartServer(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("gpu:s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target := TargetFolder{Hosts: []string{server.Addr()}, Path: "/x", AuthFile: file}
	s, err := Dial(testTimeout(t), target, 0, discardLog())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Conn.Create("/closed", []byte("x"), 0, s.ACL); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Conn.Get("/closed"); err != nil {
		t.Errorf("the owner: %v", err)
	}
	if _, _, err := dialForTest(t, server.Addr(), 0).Conn.Get("/closed"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger: %v", err)
	}
	target.AuthFile = filepath.Join(t.TempDir(), "none")
	if _, err := Dial(testTimeout(t), target, 0, discardLog()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(file, []byte("a:b\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target.AuthFile = file
	if _, err := Dial(testTimeout(t), target, 0, discardLog()); err == nil || !strings.Contains(err.Error(), "user:password") {
		t.Errorf("two lines: %v", err)
	}
}

func TestReadablePasswordFileIsReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	for mode, want := range map[os.FileMode]int{0o640: 0, 0o644: 1} {
		if err := os.WriteFile(file, []byte("gpu:s3cret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil { // independent of the umask
			t.Fatal(err)
		}
		log, said := logtest.NewNullLogger()
		if auth, err := ReadAuthFile(file, log); auth != "gpu:s3cret" || err != nil || len(said.AllEntries()) != want {
			t.Errorf("mode %04o: %q, %v, %d warnings, want %d", mode, auth, err, len(said.AllEntries()), want)
		}
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Dial(ctx, TargetFolder{Hosts: []string{"127.0.0.1:1"}, Path: "/x"}, 0, discardLog()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A loop of successful calls ends with its context.
func TestRetryDoesNotCallAfterItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := newSession(TargetFolder{Hosts: []string{"127.0.0.1:1"}, Path: "/x"}, 0, discardLog())
	calls := 0
	var err error
	for err == nil {
		err = s.Retry(ctx, func() error {
			if calls++; calls == 3 {
				cancel()
			}
			return nil
		})
	}
	if !errors.Is(err, context.Canceled) || calls != 3 {
		t.Errorf("%d calls, then %v", calls, err)
	}
}
