package docker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/outputtimes"
	"mesos-gpu/executor/rotate"
	"mesos-gpu/internal/outputindex"
)

// containerOutput copies a container's output into the sandbox.
type containerOutput struct {
	files []*lossyWriter // stdout and stderr
	// times is nil if the times cannot be recorded.
	times  *outputtimes.TimeRecorder
	conn   types.HijackedResponse
	copied chan struct{} // closed when everything is copied
}

// openOutput opens stdout and stderr in the sandbox and starts to copy. The
// agent opened the same files for the executor's own output, which is small:
// after a rotation it continues in the older file.
func (r *runningContainer) openOutput(ctx context.Context) (*containerOutput, error) {
	o := &containerOutput{}
	for _, s := range outputindex.Streams() {
		file, err := rotate.Open(filepath.Join(r.sandbox, s.String()), r.logs)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open task output: %w", err), o.closeFiles())
		}
		o.files = append(o.files, &lossyWriter{file: file, log: r.log.WithField("output", s.String())})
	}
	times, err := outputtimes.Create(r.sandbox)
	if err != nil {
		r.log.WithError(err).Warn("the output's times and order are not recorded")
	} else {
		o.times = times
		o.recordTime()
	}
	if err := r.attachOutput(ctx, o); err != nil {
		return nil, errors.Join(err, o.closeFiles())
	}
	return o, nil
}

// recordTime records how far the output has come. An error costs the order of a few lines,
// and no output.
func (o *containerOutput) recordTime() {
	if o.times == nil {
		return
	}
	var ends, starts outputindex.Positions
	for i, f := range o.files {
		starts[i], ends[i] = f.file.Positions()
	}
	if err := o.times.Record(ends, starts); err != nil {
		o.files[0].log.WithError(err).Debug("cannot record the time of output")
	}
}

// timedWriter writes one stream and records when.
type timedWriter struct {
	*lossyWriter
	output *containerOutput
}

// Write implements io.Writer.
func (w timedWriter) Write(p []byte) (int, error) {
	n, err := w.lossyWriter.Write(p)
	w.output.recordTime()
	return n, err
}

// reportNewVolumes writes to standard error, before the task does, that volumes
// are empty: the name may be mistyped, or the data on another agent.
func (o *containerOutput) reportNewVolumes(names []string) {
	for _, name := range names {
		// A lossyWriter accepts all output.
		_, _ = fmt.Fprintf(timedWriter{o.files[1], o}, "mesos-gpu: volume %s did not exist on this agent: it is new and empty\n", name)
	}
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
		if _, err := stdcopy.StdCopy(timedWriter{o.files[0], o}, timedWriter{o.files[1], o}, conn.Reader); err != nil {
			r.log.WithError(err).Warn("copying the task's output ended early")
		}
	}()
	return nil
}

func (o *containerOutput) closeFiles() error {
	var errs []error
	for _, f := range o.files {
		errs = append(errs, f.writeGapNote())
	}
	o.recordTime()
	for _, f := range o.files {
		errs = append(errs, f.file.Close())
	}
	if o.times != nil {
		errs = append(errs, o.times.Close())
	}
	return errors.Join(errs...)
}

// lossyWriter accepts all output of a task, even if it cannot be written: a
// full disk must not block the task. It writes a note about the lost bytes and
// continues when there is space again.
type lossyWriter struct {
	file      rotate.Writer
	log       logrus.FieldLogger
	lostBytes int // bytes lost since the last successful write
}

// Write implements io.Writer. It always accepts all of b.
func (w *lossyWriter) Write(b []byte) (int, error) {
	if w.writeGapNote() != nil {
		w.lostBytes += len(b)
		return len(b), nil
	}
	n, err := w.file.Write(b)
	if err != nil {
		w.lostBytes = len(b) - n
		w.log.WithError(err).Warn("cannot write the task's output; output is lost until a write succeeds")
	}
	return len(b), nil
}

// writeGapNote writes the number of lost bytes into the file.
func (w *lossyWriter) writeGapNote() error {
	if w.lostBytes == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w.file, "\n[mesos-gpu: %d bytes of output were lost here]\n", w.lostBytes); err != nil {
		return err
	}
	w.log.WithField("lost", w.lostBytes).Info("task's output is written again")
	w.lostBytes = 0
	return nil
}

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
	if err := r.output.closeFiles(); err != nil {
		r.log.WithError(err).Warn("the end of the task's output is lost")
	}
}
