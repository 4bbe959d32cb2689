package unified

import (
	"fmt"
	"path/filepath"

	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/internal/outputindex"
)

// linkOutput replaces the executor's stdout and stderr by links to those of
// the nested container. Readers then find the output of every task in the same
// place. The agent continues to write the executor's own output to the files
// that it has open, which have no name any more; the executor's log is another
// file.
func linkOutput(sandbox, container string) error {
	for _, s := range outputindex.Streams() {
		if err := atomicfile.Symlink(nestedPath(container, s.String()), filepath.Join(sandbox, s.String())); err != nil {
			return fmt.Errorf("link task output: %w", err)
		}
	}
	return nil
}

// nestedPath returns the path of a nested container's file, relative to its
// executor's sandbox.
func nestedPath(container, name string) string { return filepath.Join("containers", container, name) }

// SandboxPath implements task.SandboxOwner.
func (r *nestedContainer) SandboxPath() string {
	return filepath.Join(r.sandbox, nestedPath(r.id.Value, ""))
}
