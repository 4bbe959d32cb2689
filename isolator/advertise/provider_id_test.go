package advertise

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func mustOpen(t *testing.T, dir string) *providerState {
	t.Helper()
	s, err := openProviderState(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func TestSecondDaemonIsRejected(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "state")
	s := mustOpen(t, dir)
	log, _ := newLog()
	err := Run(context.Background(), ProviderConfig{AgentURL: "http://127.0.0.1:1", StateDir: dir, Log: log})
	want := fmt.Sprintf("advertise GPUs: lock %s/provider.lock: locked by another daemon (process %d), and an agent needs exactly one: "+
		"stop it or choose another folder", dir, os.Getpid())
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	s.close()
	mustOpen(t, dir)
}

func TestProviderIdentity(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	if got, err := s.readIdentity(); got != (providerIdentity{}) || err != nil {
		t.Errorf("fresh state: %q, %v", got, err)
	}
	for _, want := range []providerIdentity{{"one", ""}, {"two", "agent"}} {
		if err := s.writeIdentity(want); err != nil {
			t.Fatal(err)
		}
		if got, err := s.readIdentity(); got != want || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	left, err := filepath.Glob(filepath.Join(s.dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for range 2 {
		if err := s.removeID(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.readIdentity(); got != (providerIdentity{}) || err != nil {
		t.Errorf("after forget: %q, %v", got, err)
	}
}

func TestDamagedIdentity(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	for name, text := range map[string]string{"empty": " \n", "long": strings.Repeat("x", 1100), "three lines": "a\nb\nc\n"} {
		if err := os.WriteFile(s.idPath(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := s.readIdentity(); err == nil || !strings.Contains(err.Error(), s.idPath()) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if err := os.Remove(s.idPath()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.idPath(), "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.readIdentity(); err == nil {
		t.Error("a folder was read as an identity")
	}
	if err := s.writeIdentity(providerIdentity{"x", "y"}); err == nil {
		t.Error("a folder was replaced by an identity")
	}
	if err := s.removeID(); err == nil {
		t.Error("a folder was forgotten")
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
