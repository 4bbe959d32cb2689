package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/rotate"
)

// containerOutput copies a container's output into the sandbox.
type containerOutput struct {
	files  []*lossyWriter // stdout and stderr
	conn   types.HijackedResponse
	copied chan struct{} // closed once all is copied
}

// openOutput opens the sandbox's stdout and stderr and starts to copy. The
// agent made both for the executor's own words, which are few: what the
// executor says after a rotation goes on into the older file.
func (r *runningContainer) openOutput(ctx context.Context) (*containerOutput, error) {
	o := &containerOutput{}
	for _, name := range []string{"stdout", "stderr"} {
		file, err := rotate.Open(filepath.Join(r.sandbox, name), r.logs)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open task output: %w", err), closeFiles(o.files))
		}
		o.files = append(o.files, &lossyWriter{file: file, log: r.log.WithField("output", name)})
	}
	if err := r.attachOutput(ctx, o); err != nil {
		return nil, errors.Join(err, closeFiles(o.files))
	}
	return o, nil
}

// attachOutput copies into files that are open, whatever their names have become:
// after a restart of the engine the task may have put something else there.
func (r *runningContainer) attachOutput(ctx context.Context, o *containerOutput) error {
	conn, err := r.engine.ContainerAttach(ctx, r.id, container.AttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return fmt.Errorf("attach to container: %w", err)
	}
	copied := make(chan struct{})
	o.conn, o.copied = conn, copied
	go func() {
		defer close(copied)
		if _, err := stdcopy.StdCopy(o.files[0], o.files[1], conn.Reader); err != nil {
			r.log.WithError(err).Warn("copying the task's output ended early")
		}
	}()
	return nil
}

func closeFiles(files []*lossyWriter) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// lossyWriter takes all that a task says, whether it can be written or not: a full
// disk must not stop the task at its next line. It says what is lost, and goes
// on once there is space.
type lossyWriter struct {
	file      io.WriteCloser
	log       logrus.FieldLogger
	lostBytes int // bytes since the last that was written
}

// Write implements io.Writer. It takes everything.
func (p *lossyWriter) Write(b []byte) (int, error) {
	if p.writeGapNote() != nil {
		p.lostBytes += len(b)
		return len(b), nil
	}
	n, err := p.file.Write(b)
	if err != nil {
		p.lostBytes = len(b) - n
		p.log.WithError(err).Warn("task's output cannot be written; it is lost until it can")
	}
	return len(b), nil
}

// writeGapNote tells readers of the file that there is a gap, and how large it is.
func (p *lossyWriter) writeGapNote() error {
	if p.lostBytes == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(p.file, "\n[mesos-gpu: %d bytes of output were lost here]\n", p.lostBytes); err != nil {
		return err
	}
	p.log.WithField("lost", p.lostBytes).Info("task's output is written again")
	p.lostBytes = 0
	return nil
}

func (p *lossyWriter) close() error { return errors.Join(p.writeGapNote(), p.file.Close()) }

// waitUntilCopied waits until all output is in the files, or for so long.
func (o *containerOutput) waitUntilCopied(limit time.Duration) {
	select {
	case <-o.copied:
	case <-time.After(limit):
	}
}

// stopCopying ends the copying and waits for its end.
func (o *containerOutput) stopCopying() {
	o.conn.Close()
	<-o.copied
}

func (r *runningContainer) closeOutput() {
	r.output.stopCopying()
	if err := closeFiles(r.output.files); err != nil {
		r.log.WithError(err).Warn("the end of the task's output is lost")
	}
}
