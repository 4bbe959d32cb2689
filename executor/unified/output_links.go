package unified

import (
	"fmt"
	"path/filepath"

	"mesos-gpu/internal/atomicfile"
)

// linkOutput makes the executor's stdout and stderr links to those of the
// nested container, so that a reader of the executor's sandbox finds the
// task's output where every task's output is. The agent still writes what the
// executor says to the files it opened, which have no name any more; its own
// log is another file.
func linkOutput(sandbox, container string) error {
	for _, name := range outputNames() {
		if err := atomicfile.Symlink(nestedPath(container, name), filepath.Join(sandbox, name)); err != nil {
			return fmt.Errorf("link task output: %w", err)
		}
	}
	return nil
}

func outputNames() []string { return []string{"stdout", "stderr"} }

// nestedPath is a file of the nested container's, from its executor's sandbox.
func nestedPath(container, name string) string { return filepath.Join("containers", container, name) }
