package advertise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mesos-gpu/isolator/internal/checkpoint"
)

// state is the folder that outlives the daemon: the lock that keeps a second
// daemon away, and the provider id, by which the agent knows its provider
// again.
type state struct {
	dir   string
	close func()
}

// openState takes the lock. Two providers with one id abort a Mesos agent.
func openState(dir string) (*state, error) {
	release, err := checkpoint.Lock(dir, "provider.lock")
	if err != nil {
		return nil, err
	}
	return &state{dir: dir, close: release}, nil
}

func (s *state) idFile() string { return filepath.Join(s.dir, "provider_id") }

// identity is who the provider is, and to whom.
type identity struct {
	provider string
	// agent is the id of the agent that gave it; "" where that did not tell.
	agent string
}

// identity reads the checkpoint, empty where there is none: a line with the
// provider's id, and one with the agent's.
func (s *state) identity() (identity, error) {
	text, err := os.ReadFile(s.idFile())
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, nil
	}
	if err != nil {
		return identity{}, fmt.Errorf("read provider id: %w", err)
	}
	provider, agent, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if provider == "" || len(text) > 1024 || strings.Contains(agent, "\n") {
		return identity{}, fmt.Errorf("read provider id: %s holds %d bytes, want one id and the agent's; remove it if the agent has no tasks that hold GPUs",
			s.idFile(), len(text))
	}
	return identity{provider, agent}, nil
}

// setIdentity checkpoints it: after a crash the file holds the old one or the
// new one, whole.
func (s *state) setIdentity(i identity) error {
	if err := checkpoint.Write(s.idFile(), []byte(i.provider+"\n"+i.agent+"\n")); err != nil {
		return fmt.Errorf("checkpoint provider id: %w", err)
	}
	return nil
}

// forget removes the id, after the agent said that it did.
func (s *state) forget() error {
	if err := os.Remove(s.idFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget provider id: %w", err)
	}
	return nil
}
