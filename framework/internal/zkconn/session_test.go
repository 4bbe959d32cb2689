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

	"mesos-gpu/internal/zktest"
)

func TestTargets(t *testing.T) {
	good := map[string]Target{
		"zk://h1/mesos-gpu":           {Hosts: []string{"h1:2181"}, Path: "/mesos-gpu"},
		"zk://h1:1,[::1]:2,::2/a//b/": {Hosts: []string{"h1:1", "[::1]:2", "[::2]:2181"}, Path: "/a/b"},
	}
	for url, want := range good {
		got, err := Parse(url)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", url, err, diff)
		}
	}
	for url, want := range map[string]string{
		"http://h1/x": "does not begin", "zk://h1": "path of its own", "zk://h1/": "path of its own",
		"zk:///x": "host is missing", "zk://h1,,h2/x": "host is missing", "zk://gpu:secret@h1/x": "into a file",
	} {
		if _, err := Parse(url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

func quietLog() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, addr string, timeout time.Duration) *Session {
	t.Helper()
	s, err := Dial(within(t), Target{Hosts: []string{addr}, Path: "/x"}, timeout, quietLog())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// A client that is cut off knows that its session is over before the server
// ends it, which others see by the end of its ephemeral znode.
func TestLostBeforeTheServerSaysSo(t *testing.T) {
	server := zktest.Start(t)
	proxy := zktest.NewProxy(t, server.Addr())
	s := dial(t, proxy.Addr(), 6*time.Second)
	if _, err := s.Conn.Create("/mine", nil, zk.FlagEphemeral, s.ACL); err != nil {
		t.Fatal(err)
	}
	other := dial(t, server.Addr(), zktest.MaxSession)
	_, _, gone, err := other.Conn.ExistsW("/mine")
	if err != nil || !s.Held() {
		t.Fatal(err, s.Held())
	}
	proxy.Cut()
	var ended zk.Event
	select {
	case <-s.Lost():
		if s.Held() {
			t.Error("a lost session is held")
		}
		ended = <-gone
	case ended = <-gone: // a machine that stalls brings both at once
		if s.Held() {
			t.Error("the server ended the session before its owner knew")
		}
		<-s.Lost()
	}
	if ended.Type != zk.EventNodeDeleted {
		t.Errorf("got %v", ended)
	}
	err = s.Do(within(t), func() error { _, _, err := s.Conn.Get("/"); return err })
	if !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
}

// A session outlives broken connections and a restart of the server.
func TestSessionSurvivesARestart(t *testing.T) {
	server := zktest.Start(t)
	proxy := zktest.NewProxy(t, server.Addr())
	s := dial(t, proxy.Addr(), zktest.MaxSession)
	id := s.Conn.SessionID()
	for _, disturb := range []func(){proxy.Break, server.Restart} {
		disturb()
		if err := s.Do(within(t), func() error { _, _, err := s.Conn.Get("/"); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if s.Conn.SessionID() != id || !s.Held() {
		t.Error("it is another session")
	}
}

// A server that takes a connection and never answers does not cost the
// session.
func TestSessionSurvivesASilentServer(t *testing.T) {
	proxy := zktest.NewProxy(t, zktest.Start(t).Addr())
	s := dial(t, proxy.Addr(), DefaultTimeout)
	id := s.Conn.SessionID()
	ignored := proxy.Ignore()
	proxy.Break()
	<-ignored
	if err := s.Do(within(t), func() error { _, _, err := s.Conn.Get("/"); return err }); err != nil {
		t.Fatal(err)
	}
	if s.Conn.SessionID() != id || !s.Held() {
		t.Error("it is another session")
	}
}

// Nor does it keep anybody who closes the session.
func TestCloseDoesNotAwaitASilentServer(t *testing.T) {
	proxy := zktest.NewProxy(t, zktest.Start(t).Addr())
	s := dial(t, proxy.Addr(), zktest.MaxSession)
	ignored := proxy.Ignore()
	proxy.Break()
	<-ignored
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(zktest.MaxSession / answerWithin / 2):
		t.Error("it waits still for an answer")
	}
}

func TestPasswordKeepsOthersOut(t *testing.T) {
	server := zktest.Start(t)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("gpu:s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target := Target{Hosts: []string{server.Addr()}, Path: "/x", AuthFile: file}
	s, err := Dial(within(t), target, 0, quietLog())
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
	if _, _, err := dial(t, server.Addr(), 0).Conn.Get("/closed"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger: %v", err)
	}
	target.AuthFile = filepath.Join(t.TempDir(), "none")
	if _, err := Dial(within(t), target, 0, quietLog()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(file, []byte("a:b\nc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target.AuthFile = file
	if _, err := Dial(within(t), target, 0, quietLog()); err == nil || !strings.Contains(err.Error(), "user:password") {
		t.Errorf("two lines: %v", err)
	}
}

func TestPasswordThatOthersMayReadWarns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	for mode, want := range map[os.FileMode]int{0o640: 0, 0o644: 1} {
		if err := os.WriteFile(file, []byte("gpu:s3cret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		log, said := logtest.NewNullLogger()
		if auth, err := ReadAuth(file, log); auth != "gpu:s3cret" || err != nil || len(said.AllEntries()) != want {
			t.Errorf("mode %04o: %q, %v, %d warnings, want %d", mode, auth, err, len(said.AllEntries()), want)
		}
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Dial(ctx, Target{Hosts: []string{"127.0.0.1:1"}, Path: "/x"}, 0, quietLog()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
