package api

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
)

// ExecRequest is a command to run in a task's container.
type ExecRequest struct {
	// Argv is the program and its arguments: at least one element, MaxArgv in total.
	Argv []string
	// TTY allocates a terminal for the command. Stdin connects its standard input.
	TTY   bool
	Stdin bool
	// Rows and Cols are the initial size of the terminal; 0 means unknown.
	Rows, Cols int
}

// Terminal is the client's side of a command: its input, its output and the size of the
// window.
type Terminal struct {
	Stdin          io.Reader         // nil for none; a Read may block until Exec returns or its ctx ends
	Stdout, Stderr io.Writer         // with a TTY all output goes to Stdout
	Resize         <-chan WindowSize // nil if the size never changes
}

// WindowSize is the size of a terminal window, in characters.
type WindowSize struct {
	Rows int `json:"rows"`
	Cols int `json:"cols"`
}

const (
	// MaxArgv limits the total size of the arguments, in bytes. Each argument counts
	// one byte for its terminator.
	MaxArgv = 64 << 10
	// maxWindowSide limits rows and columns, as the kernel does.
	maxWindowSide = 1<<16 - 1
)

// Validate returns an error if the request is invalid.
func (r *ExecRequest) Validate() error {
	if len(r.Argv) == 0 || r.Argv[0] == "" {
		return fmt.Errorf("argv: a program is required")
	}
	size := 0
	for _, arg := range r.Argv {
		size += len(arg) + 1
	}
	if size > MaxArgv {
		return fmt.Errorf("argv: it has %d bytes, at most %d are taken: send the rest on standard input", size, MaxArgv)
	}
	return (WindowSize{r.Rows, r.Cols}).Validate()
}

// Validate returns an error if a side is negative or larger than the kernel permits.
func (s WindowSize) Validate() error {
	if min(s.Rows, s.Cols) < 0 || max(s.Rows, s.Cols) > maxWindowSide {
		return fmt.Errorf("%d rows and %d cols are no window: each is 0 to %d", s.Rows, s.Cols, maxWindowSide)
	}
	return nil
}

// EncodeQuery returns the request as URL query parameters.
func (r *ExecRequest) EncodeQuery() url.Values {
	q := url.Values{"argv": r.Argv}
	for name, on := range map[string]bool{"tty": r.TTY, "stdin": r.Stdin} {
		if on {
			q.Set(name, "true")
		}
	}
	for name, n := range map[string]int{"rows": r.Rows, "cols": r.Cols} {
		if n != 0 {
			q.Set(name, strconv.Itoa(n))
		}
	}
	return q
}
