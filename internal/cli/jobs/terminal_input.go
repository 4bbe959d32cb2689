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

// ttyInput is the terminal that standard input is.
type ttyInput struct{ fd int }

// terminalInput returns nil if standard input is no terminal.
func (a *commands) terminalInput() *ttyInput {
	f, ok := a.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &ttyInput{int(f.Fd())}
}

// windowSize is 0 by 0 where the terminal does not tell.
func (k *ttyInput) windowSize() (rows, cols int) {
	cols, rows, err := term.GetSize(k.fd)
	if err != nil {
		return 0, 0
	}
	return rows, cols
}

// makeRaw has keys passed on as they are, until restore is called.
func (k *ttyInput) makeRaw() (restore func(), err error) {
	before, err := term.MakeRaw(k.fd)
	if err != nil {
		return nil, fmt.Errorf("have the terminal pass keys on: %w", err)
	}
	return func() { _ = term.Restore(k.fd, before) }, nil // a terminal that has gone needs none
}

// watchResizes sends the size whenever it changes, until ctx ends or stop is called.
func (k *ttyInput) watchResizes(ctx context.Context) (sizes <-chan api.WindowSize, stop func()) {
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
			rows, cols := k.windowSize()
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
