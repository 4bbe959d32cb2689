package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"mesos-gpu/framework/api"
)

// keyboard is the terminal that standard input is.
type keyboard struct{ fd int }

// keyboard is nil where it is none.
func (a *app) keyboard() *keyboard {
	f, ok := a.in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &keyboard{int(f.Fd())}
}

// size is 0 by 0 where the terminal does not tell.
func (k *keyboard) size() (rows, cols int) {
	cols, rows, err := term.GetSize(k.fd)
	if err != nil {
		return 0, 0
	}
	return rows, cols
}

// raw has keys passed on as they are, until restore is called.
func (k *keyboard) raw() (restore func(), err error) {
	before, err := term.MakeRaw(k.fd)
	if err != nil {
		return nil, fmt.Errorf("have the terminal pass keys on: %w", err)
	}
	return func() { _ = term.Restore(k.fd, before) }, nil // a terminal that has gone needs none
}

// resizes tells the size whenever it changes, until ctx ends or stop is called.
func (k *keyboard) resizes(ctx context.Context) (sizes <-chan api.Size, stop func()) {
	changed, told := make(chan os.Signal, 1), make(chan api.Size)
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
			rows, cols := k.size()
			select {
			case told <- api.Size{Rows: rows, Cols: cols}:
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
