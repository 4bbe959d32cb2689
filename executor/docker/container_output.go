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
	copied chan struct{} // closed when everything is copied
}

// openOutput opens stdout and stderr in the sandbox and starts to copy. The
// agent opened the same files for the executor's own output, which is small:
// after a rotation it continues in the older file.
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

// attachOutput copies into the open files. It does not open them by name
// again: the task may have replaced them before a restart of the engine.
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

// lossyWriter accepts all output of a task, even if it cannot be written: a
// full disk must not block the task. It writes a note about the lost bytes and
// continues when there is space again.
type lossyWriter struct {
	file      io.WriteCloser
	log       logrus.FieldLogger
	lostBytes int // bytes lost since the last successful write
}

// Write implements io.Writer. It always accepts all of b.
func (p *lossyWriter) Write(b []byte) (int, error) {
	if p.writeGapNote() != nil {
		p.lostBytes += len(b)
		return len(b), nil
	}
	n, err := p.file.Write(b)
	if err != nil {
		p.lostBytes = len(b) - n
		p.log.WithError(err).Warn("cannot write the task's output; output is lost until a write succeeds")
	}
	return len(b), nil
}

// writeGapNote writes the number of lost bytes into the file.
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

// waitUntilCopied waits until all output is in the files, at most for limit.
func (o *containerOutput) waitUntilCopied(limit time.Duration) {
	select {
	case <-o.copied:
	case <-time.After(limit):
	}
}

// stopCopying ends the copying and waits for it.
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
