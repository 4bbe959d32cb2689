package advertise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/isolator/internal/daemonlock"
)

// providerState is the folder that outlives the daemon: the lock that keeps a second
// daemon away, and the provider id, by which the agent knows its provider
// again.
type providerState struct {
	dir   string
	close func()
}

// openProviderState takes the lock. Two providers with one id abort a Mesos agent.
func openProviderState(dir string) (*providerState, error) {
	release, err := daemonlock.LockFolder(dir, "provider.lock")
	if err != nil {
		return nil, err
	}
	return &providerState{dir: dir, close: release}, nil
}

func (s *providerState) idPath() string { return filepath.Join(s.dir, "provider_id") }

// providerIdentity is who the provider is, and to whom.
type providerIdentity struct {
	provider string
	// agent is the id of the agent that gave it; "" where that did not tell.
	agent string
}

// readIdentity reads the checkpoint, empty where there is none: a line with the
// provider's id, and one with the agent's.
func (s *providerState) readIdentity() (providerIdentity, error) {
	text, err := os.ReadFile(s.idPath())
	if errors.Is(err, fs.ErrNotExist) {
		return providerIdentity{}, nil
	}
	if err != nil {
		return providerIdentity{}, fmt.Errorf("read provider id: %w", err)
	}
	provider, agent, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if provider == "" || len(text) > 1024 || strings.Contains(agent, "\n") {
		return providerIdentity{}, fmt.Errorf("read provider id: %s holds %d bytes, want one id and the agent's; remove it if the agent has no tasks that hold GPUs",
			s.idPath(), len(text))
	}
	return providerIdentity{provider, agent}, nil
}

// writeIdentity checkpoints it: after a crash the file holds the old one or the
// new one, whole.
func (s *providerState) writeIdentity(i providerIdentity) error {
	if err := atomicfile.Write(s.idPath(), []byte(i.provider+"\n"+i.agent+"\n"), 0o600); err != nil {
		return fmt.Errorf("checkpoint provider id: %w", err)
	}
	return nil
}

// removeID removes the id, after the agent said that it did.
func (s *providerState) removeID() error {
	if err := os.Remove(s.idPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget provider id: %w", err)
	}
	return nil
}
