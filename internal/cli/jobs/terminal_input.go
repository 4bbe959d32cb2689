package jobs

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"mesos-gpu/framework/api"
)

// ttyInput is standard input if that is a terminal.
type ttyInput struct{ fd int }

// terminalInput returns nil if standard input is not a terminal.
func (a *jobCommands) terminalInput() *ttyInput {
	f, ok := a.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &ttyInput{int(f.Fd())}
}

// windowSize returns 0 by 0 if the terminal does not report its size.
func (in *ttyInput) windowSize() (rows, cols int) {
	cols, rows, err := term.GetSize(in.fd)
	if err != nil {
		return 0, 0
	}
	return rows, cols
}

// makeRaw sets the terminal to raw mode until restore is called.
func (in *ttyInput) makeRaw() (restore func(), err error) {
	before, err := term.MakeRaw(in.fd)
	if err != nil {
		return nil, fmt.Errorf("have the terminal pass keys on: %w", err)
	}
	return func() { _ = term.Restore(in.fd, before) }, nil // a closed terminal needs no restore
}

// watchResizes sends the window size after each change, until ctx ends or stop is called.
func (in *ttyInput) watchResizes(ctx context.Context) (sizes <-chan api.WindowSize, stop func()) {
	changed, told := make(chan os.Signal, 1), make(chan api.WindowSize)
	signal.Notify(changed, syscall.SIGWINCH)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			rows, cols := in.windowSize()
			select {
			case told <- api.WindowSize{Rows: rows, Cols: cols}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return told, func() {
		signal.Stop(changed)
		cancel()
		<-ended
	}
}
