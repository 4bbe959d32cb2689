package advertise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"mesos-gpu/isolator/internal/checkpoint"
)

// state is the folder that outlives the daemon: the lock that keeps a second
// daemon away, and the provider id, by which the agent knows its provider
// again.
type state struct {
	dir  string
	lock *os.File
}

// openState makes the folder and takes the lock. Two providers with one id
// abort a Mesos agent, so a lock that is taken is an error at once.
func openState(dir string) (*state, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	path := filepath.Join(dir, "provider.lock")
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder := make([]byte, 32)
		n, _ := lock.Read(holder)
		err = fmt.Errorf("another daemon (process %s) holds it: an agent is served by one; stop that one or choose another state folder",
			strings.TrimSpace(string(holder[:n])))
	}
	if err == nil {
		err = errors.Join(lock.Truncate(0), writeAt(lock, fmt.Sprintf("%d\n", os.Getpid())))
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &state{dir: dir, lock: lock}, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// close gives the lock up. Its file stays: removing it would let two daemons
// hold two files of one name.
func (s *state) close() { s.lock.Close() }

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
