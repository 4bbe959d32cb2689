package apiserver

import (
	"fmt"
	"io"
	"sync"

	"mesos-gpu/framework/internal/execwire"
)

// execInput is the command's standard input. It buffers input from the client that the
// command has not read, at most execwire.InputWindow bytes.
type execInput struct {
	onConsumed func(n int) // called with the number of bytes read since the last call

	// mu protects the fields below.
	mu      sync.Mutex
	changed sync.Cond // signaled when buf or ended changes
	// buf is the input that the client has sent and the command has not read yet.
	buf []byte
	// ended is set when the client has sent the end of the input.
	ended bool
	// aborted is set if the session ended before the client has sent the end of the input.
	aborted        bool
	unacknowledged int // bytes read, but not yet reported to onConsumed
}

func newInput(took func(n int)) *execInput {
	in := &execInput{onConsumed: took}
	in.changed.L = &in.mu
	return in
}

// appendData appends input from the client; an empty p is the end of input. It returns an
// error if the client exceeds execwire.InputWindow.
func (in *execInput) appendData(p []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if on := len(in.buf) + in.unacknowledged + len(p); on > execwire.InputWindow {
		return fmt.Errorf("%d bytes of input are on their way, at most %d may be", on, execwire.InputWindow)
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
	n, told, err := in.readBuffered(p)
	if told > 0 {
		in.onConsumed(told)
	}
	return n, err
}

func (in *execInput) readBuffered(p []byte) (n, told int, err error) {
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
		told, in.unacknowledged = in.unacknowledged, 0
	}
	return n, told, nil
}

// closeInput makes Read return io.ErrUnexpectedEOF, unless the client has sent the end of
// the input before. The session calls it when it ends.
func (in *execInput) closeInput() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended, in.aborted = true, in.aborted || !in.ended
	in.changed.Broadcast()
}
