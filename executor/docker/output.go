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
	conn   types.HijackedResponse
	copied chan struct{} // closed once all is copied
}

// attach opens the sandbox's stdout and stderr and starts to copy. The agent
// made both for the executor's own words, which are few: what the executor
// says after a rotation goes on into the older file.
func (r *running) attach(ctx context.Context) (*output, error) {
	var files [2]*patient
	for i, name := range []string{"stdout", "stderr"} {
		file, err := rotate.Open(filepath.Join(r.sandbox, name), r.logs)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open task output: %w", err), closeAll(files[:i]))
		}
		files[i] = &patient{file: file, log: r.log.WithField("output", name)}
	}
	conn, err := r.engine.ContainerAttach(ctx, r.id, container.AttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach to container: %w", err), closeAll(files[:]))
	}
	o := &output{conn: conn, copied: make(chan struct{})}
	go func() {
		defer close(o.copied)
		_, err := stdcopy.StdCopy(files[0], files[1], conn.Reader)
		if err := errors.Join(err, closeAll(files[:])); err != nil {
			r.log.WithError(err).Warn("copying the task's output ended early")
		}
	}()
	return o, nil
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

// close ends the copying and waits for its end.
func (o *output) close() {
	o.conn.Close()
	<-o.copied
}
