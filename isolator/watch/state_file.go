package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/isolator/health"
)

// stateContent is the content of the file.
type stateContent struct {
	Boot    string                       `json:"boot,omitempty"`
	Cordons map[string]cordonRecord      `json:"cordons"`
	Faults  map[string]health.SavedState `json:"faults"`
}

// stateFile is the file that survives restarts. Its lock is taken before
// Watcher.mu.
type stateFile struct {
	sync.Mutex
	// path is the file. boot is WatcherConfig.Boot, which is written into it.
	path, boot string
	// savedFaults are the faults in the file when it was opened, by device.
	// Those of devices that the host does not have at the moment are written
	// back unchanged: the devices may return.
	savedFaults map[string]health.SavedState
}

// openStateFile reads the file. A reboot resets devices, so faults are cleared
// if the machine has been rebooted since. They are kept if the boot id is
// unknown.
func openStateFile(dir, boot string) (*stateFile, stateContent, error) {
	f := &stateFile{path: filepath.Join(dir, "devices.json"), boot: boot, savedFaults: map[string]health.SavedState{}}
	var c stateContent
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, c, fmt.Errorf("make state folder: %w", err)
	}
	text, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, c, fmt.Errorf("read cordons: %w", err)
	}
	if err == nil {
		if err := json.Unmarshal(text, &c); err != nil {
			return nil, c, fmt.Errorf("read cordons: %s: %w; remove it to start without any", f.path, err)
		}
	}
	if c.Cordons == nil {
		c.Cordons = map[string]cordonRecord{}
	}
	if boot == "" {
		f.boot = c.Boot
	}
	if c.Faults == nil || c.Boot != "" && c.Boot != f.boot {
		c.Faults = map[string]health.SavedState{}
	}
	f.savedFaults = c.Faults
	return f, c, nil
}

// writeContent replaces the file. After a crash it has the old or the new
// content.
func (f *stateFile) writeContent(c stateContent) error {
	c.Boot = f.boot
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encode cordons: %w", err)
	}
	if err := atomicfile.Write(f.path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write cordons: %w", err)
	}
	return nil
}
