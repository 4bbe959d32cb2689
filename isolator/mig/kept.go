package mig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"mesos-gpu/isolator/internal/checkpoint"
	"mesos-gpu/isolator/layout"
)

// fileName is where a Cutter keeps what outlives the daemon.
const fileName = "mig.json"

// kept is the file.
type kept struct {
	// Boot is the machine's run in which Made were made.
	Boot string             `json:"boot"`
	GPUs map[string]keptGPU `json:"gpus"`
}

// keptGPU is what was asked for of a GPU, and what was made for that, or was
// about to be. What is made has no name that could be known before: its profile
// and place are unique while it is there.
type keptGPU struct {
	Asked []string          `json:"asked,omitempty"`
	Made  []layout.Instance `json:"made,omitempty"`
}

// read takes over what an earlier daemon kept. A boot has ended all that it
// made: what stands there now another made.
func (c *Cutter) read() error {
	c.kept = kept{Boot: c.cfg.Boot, GPUs: map[string]keptGPU{}}
	path := filepath.Join(c.cfg.StateDir, fileName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read how GPUs are cut: %w", err)
	}
	var was kept
	if err := json.Unmarshal(text, &was); err != nil || was.GPUs == nil {
		return fmt.Errorf("read how GPUs are cut: %s holds %d bytes that say nothing of it (%w): remove it once no GPU has instances of this daemon's", path, len(text), err)
	}
	for uuid, g := range was.GPUs {
		if was.Boot != c.cfg.Boot {
			g.Made = nil
		}
		c.kept.GPUs[uuid] = g
	}
	return nil
}

func (k kept) save(dir string) error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = checkpoint.Write(filepath.Join(dir, fileName), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep how GPUs are cut: %w", err)
	}
	return nil
}

// change is write by who does not hold cutting.
func (c *Cutter) change(change func(map[string]keptGPU)) error {
	c.cutting.Lock()
	defer c.cutting.Unlock()
	return c.write(change)
}

// write writes what a change makes of the file before it counts.
func (c *Cutter) write(change func(map[string]keptGPU)) error {
	c.mu.Lock()
	next := kept{Boot: c.kept.Boot, GPUs: maps.Clone(c.kept.GPUs)}
	c.mu.Unlock()
	change(next.GPUs)
	if err := next.save(c.cfg.StateDir); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = next
	return nil
}
