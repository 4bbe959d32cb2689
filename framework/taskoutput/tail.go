package taskoutput

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/outputindex"
)

const (
	// MaxTailBytes is the largest limit of ReadTail.
	MaxTailBytes = 64 << 20
	// maxTailEntries limits the index of a tail. With more entries, times become less exact.
	maxTailEntries = 4096
	// maxEncodedBytes limits what a stored tail expands to.
	maxEncodedBytes = MaxTailBytes + 2*maxLineSearch + 1<<20
)

// Tail is the end of the output of a task that has ended, of both streams together. It never changes.
type Tail struct {
	// starts are the positions at which the text of the streams starts.
	starts outputindex.Positions
	text   [2][]byte
	// index has the entries of the text, as the executor wrote them.
	index []byte
}

// ReadTail reads the last limit bytes of a task's output, in the order in which they were written, without the beginning of
// a line that does not fit. The task must have ended. Errors are those of readFile: request.ErrNoLog if there is no output
// file.
func ReadTail(readFile ReadFile, limit int64) (*Tail, error) {
	r := NewReader(readFile, Selection{Streams: [2]bool{true, true}})
	if err := r.refreshIndex(); err != nil {
		return nil, err
	}
	end := r.known.Ends
	for _, s := range outputindex.Streams() { // an executor that was killed has not indexed all
		size, err := r.readSize(s, 0)
		if err != nil && !errors.Is(err, request.ErrNoLog) {
			return nil, err
		}
		end[s] = max(end[s], r.known.Starts[s]+size)
	}
	t := &Tail{starts: r.findTailStart(end, limit)}
	for _, s := range outputindex.Streams() {
		from := max(0, t.starts[s]-1)
		text, begin, err := r.readRange(s, from, end[s])
		if err != nil {
			return nil, err
		}
		if begin > 0 || t.starts[s] > 0 {
			skipped := skipPartialLine(text)
			text, begin = text[skipped:], begin+int64(skipped)
		}
		t.text[s], t.starts[s] = text, begin
	}
	t.writeIndex(r.entries)
	return t, nil
}

// skipPartialLine returns where the first line starts in a text whose first byte may end the line before: 1 if no line end is
// near.
func skipPartialLine(text []byte) int {
	if at := bytes.IndexByte(text[:min(len(text), maxLineSearch)], '\n'); at >= 0 {
		return at + 1
	}
	return min(1, len(text))
}

// findTailStart returns the positions after which both streams have limit bytes together up to end, by the order of the
// entries. Of what was written at one time, each stream has at least half as much as fits.
func (r *Reader) findTailStart(end outputindex.Positions, limit int64) outputindex.Positions {
	start, left := end, limit
	for i := len(r.entries); i >= 0; i-- {
		var before outputindex.Positions
		if i > 0 {
			before = r.entries[i-1].Ends
		}
		if n := sumBytes(before, start); n <= left {
			start, left = before, left-n
			continue
		}
		out, errors := start[outputindex.Stdout]-before[outputindex.Stdout], start[outputindex.Stderr]-before[outputindex.Stderr]
		errors = min(errors, max(left/2, left-out))
		start[outputindex.Stderr] -= errors
		start[outputindex.Stdout] -= min(out, left-errors)
		break
	}
	return start
}

// writeIndex sets the index to the entries that end behind the start of the text.
func (t *Tail) writeIndex(entries []outputindex.Entry) {
	list := []outputindex.Entry{{Ends: t.starts, Starts: t.starts}}
	for _, e := range entries {
		for _, s := range outputindex.Streams() {
			e.Ends[s] = max(e.Ends[s], t.starts[s])
		}
		if e.Starts = t.starts; e.Ends != list[len(list)-1].Ends {
			list = append(list, e)
		}
	}
	for len(list) > maxTailEntries {
		list = outputindex.ThinOut(list)
	}
	for _, e := range list {
		t.index = e.AppendLine(t.index)
	}
}

// readFile reads what a sandbox with only the tail would have.
func (t *Tail) readFile(file string, offset, length uint64) (data []byte, size uint64, err error) {
	switch file {
	case outputindex.FileName:
		data = t.index
	case outputindex.Stdout.String():
		data = t.text[outputindex.Stdout]
	case outputindex.Stderr.String():
		data = t.text[outputindex.Stderr]
	default:
		return nil, 0, request.ErrNoLog
	}
	size = uint64(len(data))
	from := min(offset, size)
	return data[from:min(size, from+length)], size, nil
}

// NewReader returns a reader of the selected output.
func (t *Tail) NewReader(selection Selection) *Reader {
	r := NewReader(t.readFile, selection)
	r.isTail = true
	return r
}

// Describe returns what the tail has of the selected streams.
func (t *Tail) Describe(streams [2]bool) (d api.StoredOutput) {
	for _, s := range outputindex.Streams() {
		if streams[s] {
			d.Bytes += int64(len(t.text[s]))
			d.MissingBytes += t.starts[s]
		}
	}
	return d
}

// tailHeader is the first line of an encoded tail, before the text of both streams.
type tailHeader struct {
	Starts outputindex.Positions `json:"starts"`
	Bytes  [2]int                `json:"bytes"`
	Index  string                `json:"index"`
}

// Encode returns the compressed tail.
func (t *Tail) Encode() ([]byte, error) {
	header, err := json.Marshal(tailHeader{
		Starts: t.starts,
		Bytes:  [2]int{len(t.text[outputindex.Stdout]), len(t.text[outputindex.Stderr])},
		Index:  string(t.index),
	})
	if err != nil {
		return nil, err
	}
	var to bytes.Buffer
	w := gzip.NewWriter(&to)
	for _, part := range [][]byte{header, {'\n'}, t.text[outputindex.Stdout], t.text[outputindex.Stderr]} {
		if _, err := w.Write(part); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return to.Bytes(), err
}

// DecodeTail decodes what Encode has returned.
func DecodeTail(data []byte) (*Tail, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decode stored output: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxEncodedBytes))
	if err != nil {
		return nil, fmt.Errorf("decode stored output: %w", err)
	}
	first, text, _ := bytes.Cut(plain, []byte{'\n'})
	var h tailHeader
	if err := json.Unmarshal(first, &h); err != nil {
		return nil, fmt.Errorf("decode stored output: %w", err)
	}
	out, errors := h.Bytes[outputindex.Stdout], h.Bytes[outputindex.Stderr]
	if out < 0 || errors < 0 || out > len(text) || len(text)-out != errors {
		return nil, fmt.Errorf("decode stored output: it has %d bytes, want %d and %d", len(text), out, errors)
	}
	return &Tail{starts: h.Starts, text: [2][]byte{text[:out], text[out:]}, index: []byte(h.Index)}, nil
}
