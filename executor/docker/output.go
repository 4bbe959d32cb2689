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

// output copies a container's output into the sandbox.
type output struct {
	files  []*patient // stdout and stderr
	conn   types.HijackedResponse
	copied chan struct{} // closed once all is copied
}

// openOutput opens the sandbox's stdout and stderr and starts to copy. The
// agent made both for the executor's own words, which are few: what the
// executor says after a rotation goes on into the older file.
func (r *running) openOutput(ctx context.Context) (*output, error) {
	o := &output{}
	for _, name := range []string{"stdout", "stderr"} {
		file, err := rotate.Open(filepath.Join(r.sandbox, name), r.logs)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open task output: %w", err), closeAll(o.files))
		}
		o.files = append(o.files, &patient{file: file, log: r.log.WithField("output", name)})
	}
	if err := r.attach(ctx, o); err != nil {
		return nil, errors.Join(err, closeAll(o.files))
	}
	return o, nil
}

// attach copies into files that are open, whatever their names have become:
// after a restart of the engine the task may have put something else there.
func (r *running) attach(ctx context.Context, o *output) error {
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

func closeAll(files []*patient) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// patient takes all that a task says, whether it can be written or not: a full
// disk must not stop the task at its next line. It says what is lost, and goes
// on once there is space.
type patient struct {
	file io.WriteCloser
	log  logrus.FieldLogger
	lost int // bytes since the last that was written
}

// Write implements io.Writer. It takes everything.
func (p *patient) Write(b []byte) (int, error) {
	if p.mend() != nil {
		p.lost += len(b)
		return len(b), nil
	}
	n, err := p.file.Write(b)
	if err != nil {
		p.lost = len(b) - n
		p.log.WithError(err).Warn("task's output cannot be written; it is lost until it can")
	}
	return len(b), nil
}

// mend tells readers of the file that there is a gap, and how large it is.
func (p *patient) mend() error {
	if p.lost == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(p.file, "\n[mesos-gpu: %d bytes of output were lost here]\n", p.lost); err != nil {
		return err
	}
	p.log.WithField("lost", p.lost).Info("task's output is written again")
	p.lost = 0
	return nil
}

func (p *patient) close() error { return errors.Join(p.mend(), p.file.Close()) }

// drain waits until all output is in the files, or for so long.
func (o *output) drain(limit time.Duration) {
	select {
	case <-o.copied:
	case <-time.After(limit):
	}
}

// detach ends the copying and waits for its end.
func (o *output) detach() {
	o.conn.Close()
	<-o.copied
}

func (r *running) closeOutput() {
	r.output.detach()
	if err := closeAll(r.output.files); err != nil {
		r.log.WithError(err).Warn("the end of the task's output is lost")
	}
}
