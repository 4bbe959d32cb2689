package unified

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"mesos-gpu/executor/rotate"
)

// rotateInterval is how often the task's output is looked at: in between it may
// grow beyond its limit.
const rotateInterval = 5 * time.Second

// rotateOutput keeps the output within its limits until the task or ctx ends. The
// agent holds the files, so they stay the same ones.
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
		for _, name := range outputNames() {
			err := rotate.Truncate(ctx, r.sandbox, nestedPath(r.id.Value, name), r.logs)
			if err == nil {
				err = linkRotated(r.sandbox, r.id.Value, name, r.logs.Files)
			}
			if err != nil && ctx.Err() == nil {
				r.log.WithError(err).Warn("cannot rotate the task's output")
			}
		}
	}
}

// linkRotated makes the files that rotation has begun appear where the present
// one does. They move on by themselves: each name stays linked to its like.
func linkRotated(sandbox, container, name string, files int) error {
	for n := 1; n < files; n++ {
		rotated := name + "." + strconv.Itoa(n)
		if _, err := os.Lstat(filepath.Join(sandbox, nestedPath(container, rotated))); err != nil {
			return nil // nor are there later ones
		}
		if err := os.Symlink(nestedPath(container, rotated), filepath.Join(sandbox, rotated)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}
