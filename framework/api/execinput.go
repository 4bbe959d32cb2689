package api

import (
	"fmt"
	"io"
	"sync"
)

// input is what was typed and the command has not read: ExecWindow at most. It
// is the command's standard input.
type input struct {
	took func(n int) // tells who types, now and then, that so much was read

	mu     sync.Mutex
	more   sync.Cond // of buf, or that it has ended
	buf    []byte
	ended  bool
	untold int // read, and not told yet
}

func newInput(took func(n int)) *input {
	in := &input{took: took}
	in.more.L = &in.mu
	return in
}

// add adds what was typed; nothing is the end.
func (in *input) add(p []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if on := len(in.buf) + in.untold + len(p); on > ExecWindow {
		return fmt.Errorf("%d bytes of input are on their way, at most %d may be", on, ExecWindow)
	}
	if len(p) == 0 {
		in.ended = true
	}
	if !in.ended {
		in.buf = append(in.buf, p...)
	}
	in.more.Broadcast()
	return nil
}

// Read implements io.Reader. It waits for more, and thus ends with the session.
func (in *input) Read(p []byte) (int, error) {
	n, told, err := in.read(p)
	if told > 0 {
		in.took(told)
	}
	return n, err
}

func (in *input) read(p []byte) (n, told int, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.buf) == 0 && !in.ended {
		in.more.Wait()
	}
	if len(in.buf) == 0 {
		return 0, 0, io.EOF
	}
	n = copy(p, in.buf)
	in.buf = in.buf[n:]
	if in.untold += n; in.untold >= ExecWindow/4 {
		told, in.untold = in.untold, 0
	}
	return n, told, nil
}

// end ends it, also with the session.
func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.more.Broadcast()
}
