package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"mesos-gpu/isolator/health"
	"mesos-gpu/isolator/internal/checkpoint"
)

// content is the file of what outlives the daemon.
type content struct {
	Boot    string                  `json:"boot,omitempty"`
	Cordons map[string]cordon       `json:"cordons"`
	Faults  map[string]health.Saved `json:"faults"`
}

// stateFile is locked by who writes it, before Watcher.mu.
type stateFile struct {
	sync.Mutex
	path, boot string
	away       map[string]health.Saved // as read; devices may be away for a while
}

// openState reads the file. What needed a reset has had one if the machine
// was booted since, which cannot be told where the boot is not known.
func openState(dir, boot string) (*stateFile, content, error) {
	f := &stateFile{path: filepath.Join(dir, "devices.json"), boot: boot, away: map[string]health.Saved{}}
	var c content
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, c, fmt.Errorf("make state folder: %w", err)
	}
	text, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, c, fmt.Errorf("read cordons: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(text, &c); err != nil {
			return nil, c, fmt.Errorf("read cordons: %s: %w; remove it to begin without any", f.path, err)
		}
	}
	if c.Cordons == nil {
		c.Cordons = map[string]cordon{}
	}
	if boot == "" {
		f.boot = c.Boot
	}
	if c.Faults == nil || c.Boot != "" && c.Boot != f.boot {
		c.Faults = map[string]health.Saved{}
	}
	f.away = c.Faults
	return f, c, nil
}

// write replaces the file: after a crash it is the old one or the new one,
// whole.
func (f *stateFile) write(c content) error {
	c.Boot = f.boot
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cordons: %w", err)
	}
	if err := checkpoint.Write(f.path, append(text, '\n')); err != nil {
		return fmt.Errorf("write cordons: %w", err)
	}
	return nil
}
