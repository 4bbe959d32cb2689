package request

import (
	"context"

	"mesos-gpu/framework/api"
)

// TaskSandbox is a task's sandbox on its agent. Paths are relative and clean. The methods
// return ErrNoFile or ErrUnreadable, wrapped, for a path that cannot be read.
type TaskSandbox interface {
	// ListFiles lists a folder by name. The list is empty for a file.
	ListFiles(ctx context.Context, path string) ([]api.SandboxFile, error)
	// ReadFile reads from a file, and returns its size.
	ReadFile(ctx context.Context, path string, offset, length uint64) (data []byte, size uint64, err error)
}
