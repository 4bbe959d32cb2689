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
	var p *api.Problem
	if o.Follow && errors.As(err, &p) && p.Status == http.StatusNotFound {
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
	}{io.MultiReader(bytes.NewReader(last), rest), rest}, nil
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
