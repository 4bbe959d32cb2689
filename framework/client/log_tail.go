package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"mesos-gpu/framework/api"
)

// openTail returns the last lines and, with Follow, the output after them. It reads the
// log from the start, because agents do not index lines.
func (c *Client) openTail(ctx context.Context, task string, o LogOptions) (io.ReadCloser, error) {
	past := o
	past.TailLines, past.TailBytes, past.Follow = 0, 0, false
	l := &logReader{ctx: ctx, client: c, task: task, options: past}
	err := l.openAnswer()
	if o.Follow && isNoLog(err) {
		o.TailLines, o.TailBytes = 0, 0
		return c.OpenTaskLog(ctx, task, o) // no output yet
	}
	if err != nil {
		return nil, err
	}
	last, err := readLastLines(l, o.TailLines)
	_ = l.Close() // it was read to its end
	if err != nil {
		return nil, fmt.Errorf("read log of task %s: %w", task, err)
	}
	if !o.Follow {
		return io.NopCloser(bytes.NewReader(last)), nil
	}
	// Continue where the first read ended; the preceding bytes identify the position.
	o.Offset, o.TailLines, o.TailBytes = l.options.Offset, 0, 0
	rest := &logReader{ctx: ctx, client: c, task: task, options: o, preceding: l.preceding}
	if err := rest.openFirst(); err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(last), &catchUpReader{o.OnCaughtUp}, rest), rest}, nil
}

// readLastLines returns the last n lines. It stores no more than those.
func readLastLines(r io.Reader, n int) ([]byte, error) {
	lines := make([][]byte, 0, min(n, 1000))
	in := bufio.NewReader(r)
	first := 0 // index of the oldest line once the ring is full
	for {
		line, err := in.ReadBytes('\n')
		switch {
		case len(line) == 0:
		case len(lines) < n:
			lines = append(lines, line)
		default:
			lines[first] = line
			first = (first + 1) % n
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return bytes.Join(append(lines[first:len(lines):len(lines)], lines[:first]...), nil), nil
}

// catchUpReader is empty. It calls onCaughtUp, unless that is nil, when it is read.
type catchUpReader struct{ onCaughtUp func() }

func (c *catchUpReader) Read([]byte) (int, error) {
	if c.onCaughtUp != nil {
		c.onCaughtUp()
	}
	return 0, io.EOF
}

// openPast returns the existing output, which it reads as a log that is not followed, and then
// the output after it.
func (c *Client) openPast(ctx context.Context, task string, o LogOptions) (io.ReadCloser, error) {
	rest := o
	rest.OnCaughtUp, rest.TailBytes = nil, 0
	past := &logReader{ctx: ctx, client: c, task: task, options: o}
	past.options.Follow = false
	err := past.openAnswer()
	if isNoLog(err) {
		o.OnCaughtUp()
		return c.OpenTaskLog(ctx, task, rest)
	}
	if err != nil {
		return nil, err
	}
	return &pastReader{past: past, rest: &logReader{ctx: ctx, client: c, task: task, options: rest}, onCaughtUp: o.OnCaughtUp}, nil
}

// isNoLog reports whether a task has no output, or none yet.
func isNoLog(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// pastReader reads past to its end, and then opens and reads rest.
type pastReader struct {
	past, rest *logReader
	onCaughtUp func()
	followed   bool // whether rest is open
}

func (p *pastReader) Read(data []byte) (int, error) {
	if p.followed {
		return p.rest.Read(data)
	}
	n, err := p.past.Read(data)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return n, err
	case err == nil || n > 0:
		return n, nil
	}
	p.onCaughtUp()
	// The preceding bytes identify the position, although files may be rotated meanwhile.
	p.rest.options.Offset, p.rest.preceding = p.past.options.Offset, p.past.preceding
	if err := p.rest.openFirst(); err != nil {
		return 0, err
	}
	p.followed = true
	return p.rest.Read(data)
}

// Close closes both.
func (p *pastReader) Close() error { return errors.Join(p.past.Close(), p.rest.Close()) }
