package api

import (
	"context"
	"io"
)

// ExecRequest is what to run in a task's container.
type ExecRequest struct {
	Argv       []string // at least one; bounded: 64 KiB in all
	TTY        bool
	Stdin      bool
	Rows, Cols int // of the terminal at first; 0: not known
}

// Terminal is the other end of a command: what is typed, what it prints, and how big the window is.
type Terminal struct {
	Stdin          io.Reader   // nil: none
	Stdout, Stderr io.Writer   // with a TTY all goes to Stdout
	Resize         <-chan Size // nil: never
}

// Size is that of a terminal's window.
type Size struct{ Rows, Cols int }

// Execer is the service's part (its own small interface, beside Service; the leader implements it).
type Execer interface {
	// Exec runs a command in a running task's container until it ends or ctx does, and returns its exit code (128+signal).
	//   Errors: framework/api's NotFound/Conflict kind for no such job/task, not running, no container.
	Exec(ctx context.Context, name string, task int, r ExecRequest, t Terminal) (int, error)
}
