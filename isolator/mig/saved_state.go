package mig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/isolator/layout"
)

// stateFile is where a Cutter keeps what outlives the daemon.
const stateFile = "mig.json"

// savedState is the file.
type savedState struct {
	// Boot is the machine's run in which Made were made.
	Boot string              `json:"boot"`
	GPUs map[string]savedGPU `json:"gpus"`
}

// savedGPU is what was asked for of a PartitionedGPU, and what was made for that, or was
// about to be. What is made has no name that could be known before: its profile
// and place are unique while it is there.
type savedGPU struct {
	Requested []string             `json:"asked,omitempty"`
	Made      []layout.GPUInstance `json:"made,omitempty"`
}

// loadState takes over what an earlier daemon kept. A boot has ended all that it
// made: what stands there now another made.
func (c *Partitioner) loadState() error {
	c.saved = savedState{Boot: c.cfg.BootID, GPUs: map[string]savedGPU{}}
	path := filepath.Join(c.cfg.StateDir, stateFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read how GPUs are cut: %w", err)
	}
	var was savedState
	if err := json.Unmarshal(text, &was); err != nil || was.GPUs == nil {
		return fmt.Errorf("read how GPUs are cut: %s holds %d bytes that say nothing of it (%w): remove it once no GPU has instances of this daemon's", path, len(text), err)
	}
	for uuid, g := range was.GPUs {
		if was.Boot != c.cfg.BootID {
			g.Made = nil
		}
		c.saved.GPUs[uuid] = g
	}
	return nil
}

func (k savedState) writeTo(dir string) error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, stateFile), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep how GPUs are cut: %w", err)
	}
	return nil
}

// lockAndUpdate is write by who does not hold cutting.
func (c *Partitioner) lockAndUpdate(lockAndUpdate func(map[string]savedGPU)) error {
	c.changeLock.Lock()
	defer c.changeLock.Unlock()
	return c.updateState(lockAndUpdate)
}

// updateState writes what a change makes of the file before it counts.
func (c *Partitioner) updateState(change func(map[string]savedGPU)) error {
	c.mu.Lock()
	next := savedState{Boot: c.saved.Boot, GPUs: maps.Clone(c.saved.GPUs)}
	c.mu.Unlock()
	change(next.GPUs)
	if err := next.writeTo(c.cfg.StateDir); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saved = next
	return nil
}
