package taskoutput

import (
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/outputindex"
)

// Selection selects a part of a task's output.
type Selection struct {
	// Streams has the streams to return.
	Streams [2]bool
	// Since omits the lines that were written before; zero omits none.
	Since time.Time
	// TailLines returns the last lines only, 0 all of them. It has no effect together with After.
	TailLines int
	// After is the end of what the requester has, nil if it has nothing.
	After *outputindex.Positions
	// Offset, above 0, starts there in the current file of the first stream, and TailBytes so many bytes before its end.
	Offset, TailBytes int64
}

// FirstStream returns the first stream that is selected.
func (s *Selection) FirstStream() outputindex.Stream {
	if s.Streams[outputindex.Stdout] {
		return outputindex.Stdout
	}
	return outputindex.Stderr
}

// NewReader returns a reader of the selected output of a sandbox.
func NewReader(readFile ReadFile, selection Selection) *Reader {
	return &Reader{readFile: readFile, selection: selection}
}

// ReadParts returns the next selected output in order, at most maxPartBytes and one entry more. It returns nothing while
// there is no more.
func (r *Reader) ReadParts() ([]api.OutputPart, error) {
	if r.positioned {
		return r.readParts()
	}
	if err := r.seekStart(); err != nil {
		return nil, err
	}
	r.positioned = true
	if r.selection.TailLines > 0 && r.selection.After == nil {
		return r.lastLines(r.selection.TailLines)
	}
	return r.readParts()
}

// seekStart sets the position to the start of the selection.
func (r *Reader) seekStart() error {
	if err := r.refreshIndex(); err != nil {
		return err
	}
	if r.isTail {
		r.skipTo(r.known.Starts) // what is missing before is no loss during the read
	}
	s, stream := &r.selection, r.selection.FirstStream()
	if s.Streams[outputindex.Stdout] != s.Streams[outputindex.Stderr] {
		if _, err := r.readSize(stream, 0); err != nil {
			return err // only the other stream may have a file
		}
	}
	switch {
	case s.After != nil:
		r.skipTo(*s.After)
	case s.Offset > 0:
		r.next[stream] = r.known.Starts[stream] + s.Offset
	case s.TailBytes > 0:
		if err := r.skipToTail(stream, s.TailBytes); err != nil {
			return err
		}
	}
	if s.Since.IsZero() {
		return nil
	}
	return r.skipBefore(s.Since)
}

// FoundOutput reports whether ReadParts has found output files, also empty ones.
func (r *Reader) FoundOutput() bool { return r.positioned }

// LastPart returns the part that ends an answer.
func (r *Reader) LastPart() api.OutputPart {
	return api.OutputPart{Complete: true, Lost: r.lost, After: formatPositions(r.next)}
}

// NextOffset returns the position in the current file of the first selected stream.
func (r *Reader) NextOffset() int64 {
	stream := r.selection.FirstStream()
	return max(0, r.next[stream]-r.known.Starts[stream])
}
