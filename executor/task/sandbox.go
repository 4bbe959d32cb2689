package task

import (
	"fmt"
	"os"
)

// AllowTraversal lets every user enter the executor's sandbox, but not list it. The agent
// closes it to all but the executor's user. A task that runs as another user works in a
// folder below it, or in the sandbox itself.
func AllowTraversal(sandbox string) error {
	info, err := os.Stat(sandbox)
	if err == nil {
		err = os.Chmod(sandbox, info.Mode().Perm()|0o001)
	}
	if err != nil {
		return fmt.Errorf("let the task enter the executor's sandbox: %w", err)
	}
	return nil
}
