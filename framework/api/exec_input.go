package api

import (
	"fmt"
	"io"
	"sync"
)

// execInput is what was typed and the command has not read: ExecWindow at most. It
// is the command's standard input.
type execInput struct {
	onConsumed func(n int) // reports to the client, now and then, how much was read

	mu             sync.Mutex
	changed        sync.Cond // of buf, or that it has ended
	buf            []byte
	ended          bool
	unacknowledged int // read, and not told yet
}

func newInput(took func(n int)) *execInput {
	in := &execInput{onConsumed: took}
	in.changed.L = &in.mu
	return in
}

// appendData adds what was typed; nothing is the end.
func (in *execInput) appendData(p []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if on := len(in.buf) + in.unacknowledged + len(p); on > ExecWindow {
		return fmt.Errorf("%d bytes of input are on their way, at most %d may be", on, ExecWindow)
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

// Read implements io.Reader. It waits for more, and thus ends with the session.
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
	if len(in.buf) == 0 {
		return 0, 0, io.EOF
	}
	n = copy(p, in.buf)
	in.buf = in.buf[n:]
	if in.unacknowledged += n; in.unacknowledged >= ExecWindow/4 {
		told, in.unacknowledged = in.unacknowledged, 0
	}
	return n, told, nil
}

// closeInput ends it, also with the session.
func (in *execInput) closeInput() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.changed.Broadcast()
}
