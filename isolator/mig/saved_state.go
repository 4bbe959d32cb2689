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

// stateFile is the file with the state that survives a restart.
const stateFile = "mig.json"

// savedState is the content of the file.
type savedState struct {
	// Boot is the boot during which the instances were created.
	Boot string              `json:"boot"`
	GPUs map[string]savedGPU `json:"gpus"`
}

// savedGPU is the layout requested for a GPU, and the instances that were, or were about to be,
// created for it. An instance has no name that is known in advance: profile and place identify
// it while it exists.
type savedGPU struct {
	Requested []string             `json:"requested,omitempty"`
	Made      []layout.GPUInstance `json:"made,omitempty"`
}

// UnmarshalJSON also reads the file of release 0.1.0, in which requested was called asked.
func (g *savedGPU) UnmarshalJSON(text []byte) error {
	type current savedGPU
	decoded := struct {
		*current
		Asked []string `json:"asked"`
	}{current: (*current)(g)}
	if err := json.Unmarshal(text, &decoded); err != nil {
		return err
	}
	if g.Requested == nil {
		g.Requested = decoded.Asked
	}
	return nil
}

// loadState reads the state of an earlier daemon. A boot destroys all instances, so those that
// exist after it were created by other software.
func (p *Partitioner) loadState() error {
	p.saved = savedState{Boot: p.cfg.BootID, GPUs: map[string]savedGPU{}}
	path := filepath.Join(p.cfg.StateDir, stateFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the state of MIG GPUs: %w", err)
	}
	var was savedState
	err = json.Unmarshal(text, &was)
	if err == nil && was.GPUs == nil {
		err = errors.New("gpus is missing")
	}
	if err != nil {
		return fmt.Errorf("read the state of MIG GPUs: %s has %d bytes of invalid content (%w): remove it once no GPU has instances of this daemon",
			path, len(text), err)
	}
	for uuid, g := range was.GPUs {
		if was.Boot != p.cfg.BootID {
			g.Made = nil
		}
		p.saved.GPUs[uuid] = g
	}
	return nil
}

func (s savedState) writeTo(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, stateFile), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("save the state of MIG GPUs: %w", err)
	}
	return nil
}

// lockAndUpdate is updateState for callers that do not hold changeLock.
func (p *Partitioner) lockAndUpdate(update func(map[string]savedGPU)) error {
	p.changeLock.Lock()
	defer p.changeLock.Unlock()
	return p.updateState(update)
}

// updateState changes the state. It writes the file before the change takes effect.
func (p *Partitioner) updateState(change func(map[string]savedGPU)) error {
	p.mu.Lock()
	next := savedState{Boot: p.saved.Boot, GPUs: maps.Clone(p.saved.GPUs)}
	p.mu.Unlock()
	change(next.GPUs)
	if err := next.writeTo(p.cfg.StateDir); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saved = next
	return nil
}
