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

// providerState is the folder with the lock, which excludes a second daemon,
// and the provider id, by which the agent recognizes its provider after a
// restart.
type providerState struct {
	dir   string
	close func()
}

// openProviderState takes the lock: two providers with the same id abort a
// Mesos agent.
func openProviderState(dir string) (*providerState, error) {
	release, err := daemonlock.LockFolder(dir, "provider.lock")
	if err != nil {
		return nil, err
	}
	return &providerState{dir: dir, close: release}, nil
}

func (s *providerState) idPath() string { return filepath.Join(s.dir, "provider_id") }

// providerIdentity is the provider's id and the agent that assigned it.
type providerIdentity struct {
	provider string
	// agent is the id of the agent that assigned provider; "" if the agent
	// does not report its id.
	agent string
}

// readIdentity reads the file with one line for the provider's id and one for
// the agent's. Without a file both are empty.
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

// writeIdentity replaces the file. After a crash it has the old or the new
// identity.
func (s *providerState) writeIdentity(i providerIdentity) error {
	if err := atomicfile.Write(s.idPath(), []byte(i.provider+"\n"+i.agent+"\n"), 0o600); err != nil {
		return fmt.Errorf("checkpoint provider id: %w", err)
	}
	return nil
}

// removeID removes the file after the agent has removed the provider.
func (s *providerState) removeID() error {
	if err := os.Remove(s.idPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget provider id: %w", err)
	}
	return nil
}
