package unified

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"mesos-gpu/executor/rotate"
	"mesos-gpu/internal/outputindex"
)

// rotateInterval is the time between two checks of the output's size. In
// between the output may exceed its limit.
const rotateInterval = 5 * time.Second

// rotateOutput keeps the output within its limits until the task or ctx ends.
// The agent has the files open, so they are truncated and not replaced.
func (r *nestedContainer) rotateOutput(ctx context.Context) {
	if r.logs.Bytes <= 0 {
		return
	}
	tick := time.NewTicker(rotateInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.ended:
			return
		case <-ctx.Done():
			return
		}
		for _, stream := range outputindex.Streams() {
			name := stream.String()
			err := r.output.rotate(stream, func() (int64, error) {
				return rotate.Truncate(ctx, r.sandbox, nestedPath(r.id.Value, name), r.logs)
			})
			if err == nil {
				err = linkRotated(r.sandbox, r.id.Value, name, r.logs.Files)
			}
			if err != nil && ctx.Err() == nil {
				r.log.WithError(err).Warn("cannot rotate the task's output")
			}
		}
	}
}

// linkRotated links the rotated files into the executor's sandbox. Rotation
// renames the files, not the links: each link leads to the file that has the
// same name.
func linkRotated(sandbox, container, name string, files int) error {
	for n := 1; n < files; n++ {
		rotated := name + "." + strconv.Itoa(n)
		if _, err := os.Lstat(filepath.Join(sandbox, nestedPath(container, rotated))); err != nil {
			return nil // there are no later ones either
		}
		if err := os.Symlink(nestedPath(container, rotated), filepath.Join(sandbox, rotated)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}
