package advertise

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func mustOpen(t *testing.T, dir string) *state {
	t.Helper()
	s, err := openState(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func TestOneDaemonHoldsTheState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "state")
	s := mustOpen(t, dir)
	log, _ := newLog()
	err := Run(context.Background(), Config{AgentURL: "http://127.0.0.1:1", StateDir: dir, Log: log})
	want := fmt.Sprintf("advertise GPUs: lock %s/provider.lock: another daemon (process %d) holds it: an agent is served by one; "+
		"stop that one or choose another folder", dir, os.Getpid())
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	s.close()
	mustOpen(t, dir)
}

func TestIdentity(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	if got, err := s.identity(); got != (identity{}) || err != nil {
		t.Errorf("fresh state: %q, %v", got, err)
	}
	for _, want := range []identity{{"one", ""}, {"two", "agent"}} {
		if err := s.setIdentity(want); err != nil {
			t.Fatal(err)
		}
		if got, err := s.identity(); got != want || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	left, err := filepath.Glob(filepath.Join(s.dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for range 2 {
		if err := s.forget(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.identity(); got != (identity{}) || err != nil {
		t.Errorf("after forget: %q, %v", got, err)
	}
}

func TestDamagedIdentity(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	for name, text := range map[string]string{"empty": " \n", "long": strings.Repeat("x", 1100), "three lines": "a\nb\nc\n"} {
		if err := os.WriteFile(s.idFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.identity(); err == nil || !strings.Contains(err.Error(), s.idFile()) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if err := os.Remove(s.idFile()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.idFile(), "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.identity(); err == nil {
		t.Error("a folder was read as an identity")
	}
	if err := s.setIdentity(identity{"x", "y"}); err == nil {
		t.Error("a folder was replaced by an identity")
	}
	if err := s.forget(); err == nil {
		t.Error("a folder was forgotten")
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
