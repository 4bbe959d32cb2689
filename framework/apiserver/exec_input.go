package apiserver

import (
	"fmt"
	"io"
	"sync"

	"mesos-gpu/framework/internal/execwire"
)

// execInput is the command's standard input. It buffers input from the client that the
// command has not read, at most execwire.InputWindow bytes. The client may send only as much as
// was acknowledged, so that a command that does not read costs a bounded amount of memory.
type execInput struct {
	// onConsumed acknowledges that the command has read so many bytes since the last call. It is
	// called without the lock.
	onConsumed func(n int)

	// mu protects the fields below.
	mu sync.Mutex
	// changed is signaled when buf or ended changes.
	changed sync.Cond
	// buf is the input that the client has sent and the command has not read yet.
	buf []byte
	// ended is set when the client has sent the end of the input.
	ended bool
	// aborted is set if the session ended before the client has sent the end of the input.
	aborted bool
	// unacknowledged counts the bytes that the command has read and that onConsumed has not
	// received. They are acknowledged together, a quarter of the window at a time.
	unacknowledged int
}

// newInput returns an empty input.
func newInput(onConsumed func(n int)) *execInput {
	in := &execInput{onConsumed: onConsumed}
	in.changed.L = &in.mu
	return in
}

// appendData appends input from the client; an empty p is the end of input. It returns an
// error if the client exceeds execwire.InputWindow.
func (in *execInput) appendData(p []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if sent := len(in.buf) + in.unacknowledged + len(p); sent > execwire.InputWindow {
		return fmt.Errorf("%d bytes of input are not acknowledged, at most %d are permitted", sent, execwire.InputWindow)
	}
	if len(p) == 0 {
		in.ended = true
	}
	if !in.ended {
		in.buf = append(in.buf, p...)
	}
	in.changed.Broadcast()
	return nil
}

// Read implements io.Reader. It blocks until there is input or closeInput is called. It
// returns io.EOF only if the client has sent the end of the input.
func (in *execInput) Read(p []byte) (int, error) {
	n, acknowledged, err := in.readBuffered(p)
	if acknowledged > 0 {
		in.onConsumed(acknowledged)
	}
	return n, err
}

// readBuffered waits for input and reads it. It also returns how many bytes are to be acknowledged now.
func (in *execInput) readBuffered(p []byte) (n, acknowledged int, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.buf) == 0 && !in.ended {
		in.changed.Wait()
	}
	if len(in.buf) == 0 && in.aborted {
		return 0, 0, io.ErrUnexpectedEOF
	}
	if len(in.buf) == 0 {
		return 0, 0, io.EOF
	}
	n = copy(p, in.buf)
	in.buf = in.buf[n:]
	if in.unacknowledged += n; in.unacknowledged >= execwire.InputWindow/4 {
		acknowledged, in.unacknowledged = in.unacknowledged, 0
	}
	return n, acknowledged, nil
}

// closeInput makes Read return io.ErrUnexpectedEOF, unless the client has sent the end of
// the input before. The session calls it when it ends.
func (in *execInput) closeInput() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended, in.aborted = true, in.aborted || !in.ended
	in.changed.Broadcast()
}
