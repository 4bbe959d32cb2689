// Package taskoutput reads the output of tasks in the order in which they wrote it, from their sandboxes, and keeps its
// end when the sandboxes are removed. It does not reach agents or stores itself: callers read and write for it.
package taskoutput

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/outputindex"
)

const (
	// readSize is the size of a read from an agent, in bytes.
	readSize = 128 << 10
	// maxPartBytes limits the output of both streams that is read at once.
	maxPartBytes = 256 << 10
	// maxTailWindow limits how much output is searched for the last lines, in bytes.
	maxTailWindow = 16 << 20
	// maxIndexBytes limits the index. The executor keeps it smaller, but the task can write to it.
	maxIndexBytes = 4 << 20
	// maxLineSearch limits how far back the start of a line is searched, in bytes.
	maxLineSearch = 16 << 10
)

const (
	// maxLogFiles limits the search for rotated files of a stream.
	maxLogFiles = 100
	// maxRotationTries limits how often a read is retried because files are renamed.
	maxRotationTries = 30
)

var errRotatedTooFast = errors.New("read output: its files are rotated faster than they are read")

// ReadFile reads from a file of a sandbox and returns its size. It returns request.ErrNoLog, wrapped, if the file does not
// exist.
type ReadFile func(file string, offset, length uint64) (data []byte, size uint64, err error)

// Reader reads both output streams of a task in the order in which they were
// written, by the index that the task's executor keeps. Positions count the bytes of a stream from
// its beginning, across rotated files. One request uses it.
//
// Without an index, because the task did not start or the executor could not write it, the order
// is unknown. The sizes of the files then give the positions. Existing output has no time, and later
// output the time at which it is noticed.
type Reader struct {
	readFile ReadFile
	// selection is what to return; positioned is set once next is where it starts.
	selection  Selection
	positioned bool
	// isTail is set if only the end of the output is stored.
	isTail bool

	// entries lists the entries that are not read yet; known is the newest entry of the index.
	entries []outputindex.Entry
	known   outputindex.Entry
	// indexOffset is where the index is read further, and lastLine the line before: the
	// executor may have replaced the file by a shorter one.
	indexOffset uint64
	lastLine    []byte
	// previousSizes are the sizes of the files before the current ones, nil if there is an index or
	// no file was found yet.
	previousSizes *[2]int64

	// next is the position of what is returned next. lost is set if output before it was rotated
	// away, until a part has reported that.
	next outputindex.Positions
	lost bool
}

// refreshIndex reads what was appended to the index.
func (r *Reader) refreshIndex() error {
	for {
		n := uint64(len(r.lastLine))
		data, _, err := r.readFile(outputindex.FileName, r.indexOffset-n, n+readSize)
		if errors.Is(err, request.ErrNoLog) && r.indexOffset == 0 {
			return r.refreshSizes()
		}
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(data, r.lastLine) {
			r.indexOffset, r.lastLine = 0, nil // a shorter file has replaced it
			continue
		}
		full := uint64(len(data)) >= n+readSize
		data = data[n:]
		data = data[:bytes.LastIndexByte(data, '\n')+1]
		if len(data) == 0 {
			return nil
		}
		for _, e := range outputindex.ParseEntries(data) {
			if !e.Follows(r.known) {
				continue
			}
			if e.Ends != r.known.Ends { // else a file was rotated
				r.entries = append(r.entries, e)
			}
			r.known = e
		}
		r.indexOffset += uint64(len(data))
		last := bytes.TrimSuffix(data, []byte{'\n'})
		r.lastLine = bytes.Clone(data[bytes.LastIndexByte(last, '\n')+1:])
		if !full {
			return nil
		}
		if r.indexOffset > maxIndexBytes {
			return fmt.Errorf("read output: %s has more than %d bytes: the task has written to it", outputindex.FileName, maxIndexBytes)
		}
	}
}

// refreshSizes replaces the index: it adds an entry for what the files have more than before. It returns request.ErrNoLog if the task has neither file.
func (r *Reader) refreshSizes() error {
	var previous [2]int64
	next := outputindex.Entry{Ends: r.known.Ends, Starts: r.known.Starts}
	missing := 0
	for _, s := range outputindex.Streams() {
		size, err := int64(0), error(nil)
		if size, previous[s], err = r.readSizes(s); errors.Is(err, request.ErrNoLog) {
			missing++
			continue
		} else if err != nil {
			return err
		}
		switch {
		case r.previousSizes == nil:
			if next.Starts[s], err = r.sumOlderFiles(s); err != nil {
				return err
			}
		case size >= r.known.Ends[s]-r.known.Starts[s] && previous[s] == r.previousSizes[s]: // no rotation
		case previous[s] == 0:
			next.Starts[s] = r.known.Ends[s] // the file was emptied
		default:
			next.Starts[s] += previous[s]
		}
		next.Ends[s] = max(next.Ends[s], next.Starts[s]+size)
	}
	if missing == len(previous) {
		return request.ErrNoLog
	}
	if r.previousSizes != nil {
		next.Time = time.Now()
	}
	r.previousSizes = &previous
	if next.Ends != r.known.Ends {
		r.entries = append(r.entries, next)
	}
	r.known = next
	return nil
}

// readSizes returns the sizes of a stream's current file and of the rotated file before it, 0 for a file that does not
// exist. It reads again if the files were rotated meanwhile.
func (r *Reader) readSizes(s outputindex.Stream) (size, previous int64, err error) {
	for range maxRotationTries {
		before, err := r.readSize(s, 1)
		if err != nil && !errors.Is(err, request.ErrNoLog) {
			return 0, 0, err
		}
		if size, err = r.readSize(s, 0); err != nil {
			return 0, 0, err
		}
		previous, err = r.readSize(s, 1)
		if err != nil && !errors.Is(err, request.ErrNoLog) {
			return 0, 0, err
		}
		if previous == before {
			return size, previous, nil
		}
	}
	return 0, 0, errRotatedTooFast
}

// sumOlderFiles returns the bytes of a stream's files before the current one.
func (r *Reader) sumOlderFiles(s outputindex.Stream) (total int64, err error) {
	for n := 1; n <= maxLogFiles; n++ {
		size, err := r.readSize(s, n)
		if errors.Is(err, request.ErrNoLog) {
			break
		}
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}

// readSize returns the size of a stream's file with a number, as of outputFileName.
func (r *Reader) readSize(s outputindex.Stream, n int) (int64, error) {
	_, size, err := r.readFile(outputFileName(s, n), 0, 1)
	return int64(size), err
}

// skipTo continues after a position that a reader already has.
func (r *Reader) skipTo(at outputindex.Positions) {
	r.next = at
	r.dropReadEntries()
}

// dropReadEntries removes the entries that end before the position.
func (r *Reader) dropReadEntries() {
	for len(r.entries) > 0 {
		ends := r.entries[0].Ends
		if ends[outputindex.Stdout] > r.next[outputindex.Stdout] || ends[outputindex.Stderr] > r.next[outputindex.Stderr] {
			return
		}
		r.entries = r.entries[1:]
	}
}

// skipToTail continues so many bytes before the end of a stream's current file, at most at its start.
func (r *Reader) skipToTail(s outputindex.Stream, count int64) error {
	size, err := r.readSize(s, 0)
	if err == nil {
		r.next[s] = r.known.Starts[s] + max(0, size-count)
	}
	return err
}

// skipBefore skips the lines that were written before a time. It skips none whose time is unknown.
func (r *Reader) skipBefore(since time.Time) error {
	for len(r.entries) > 0 && r.entries[0].Time.Before(since) && !r.entries[0].Time.IsZero() {
		r.next, r.entries = r.entries[0].Ends, r.entries[1:]
	}
	return r.alignToLines()
}

// alignToLines moves the position of each stream back to the start of its line.
func (r *Reader) alignToLines() error {
	for _, s := range outputindex.Streams() {
		from := max(0, r.next[s]-maxLineSearch)
		text, begin, err := r.readRange(s, from, r.next[s])
		if err != nil {
			return err
		}
		if at := bytes.LastIndexByte(text, '\n'); at >= 0 {
			r.next[s] = begin + int64(at) + 1
		} else if begin == 0 {
			r.next[s] = 0
		}
	}
	return nil
}

// lastLines returns the last lines of the present output and continues after it. It reads from the
// end, first a small window and then larger ones, until they have enough lines or maxTailWindow bytes.
func (r *Reader) lastLines(count int) ([]api.OutputPart, error) {
	begin := r.next
	for window := int64(64 << 10); ; window *= 4 {
		r.next = begin
		entries := r.entries
		first := 0
		for first < len(entries) && sumBytes(entries[first].Ends, r.known.Ends) > window {
			first++
		}
		if first > 0 {
			r.next, r.entries = entries[first-1].Ends, entries[first:]
			if err := r.alignToLines(); err != nil {
				return nil, err
			}
		}
		var parts []api.OutputPart
		for {
			more, err := r.readParts()
			if err != nil {
				return nil, err
			}
			if len(more) == 0 {
				break
			}
			parts = cutLastLines(append(parts, more...), count)
			for size := countBytes(parts); size > maxTailWindow; parts = parts[1:] {
				size -= len(parts[0].Output())
			}
		}
		if first == 0 || window >= maxTailWindow || countLines(parts) >= count {
			return parts, nil
		}
		r.entries = entries
	}
}

// sumBytes returns the bytes of both streams between two positions.
func sumBytes(from, to outputindex.Positions) int64 {
	return to[outputindex.Stdout] - from[outputindex.Stdout] + to[outputindex.Stderr] - from[outputindex.Stderr]
}

// countBytes and countLines count what is in parts. Text without a line end counts as no line.
func countBytes(parts []api.OutputPart) (n int) {
	for i := range parts {
		n += len(parts[i].Output())
	}
	return n
}

func countLines(parts []api.OutputPart) (n int) {
	for i := range parts {
		n += bytes.Count(parts[i].Output(), []byte{'\n'})
	}
	return n
}

// cutLastLines returns the last lines of both streams together. Text after the last line end
// of a stream is a line, too.
func cutLastLines(parts []api.OutputPart, count int) []api.OutputPart {
	ended := map[string]bool{} // whether the end of the stream's last line has been seen, from the end
	for i := range slices.Backward(parts) {
		p := &parts[i]
		text := p.Output()
		for at := len(text); at > 0; {
			newline := text[at-1] == '\n'
			if newline || !ended[p.Stream] {
				if count == 0 {
					return append(partRemainder(p, text[at:]), parts[i+1:]...)
				}
				count--
				ended[p.Stream] = true
			}
			at = bytes.LastIndexByte(text[:max(0, at-1)], '\n') + 1
		}
	}
	return parts
}

// partRemainder returns a part with only the end of its text, nothing if that is empty.
func partRemainder(p *api.OutputPart, text []byte) []api.OutputPart {
	if len(text) == 0 {
		return nil
	}
	rest := *p
	rest.Text, rest.Data = string(text), nil
	if p.Data != nil {
		rest.Text, rest.Data = "", text
	}
	return []api.OutputPart{rest}
}

// readParts returns the next output in order, at most maxPartBytes and one entry more. It
// returns nothing while the index has no more.
func (r *Reader) readParts() ([]api.OutputPart, error) {
	for tries := 0; tries < maxRotationTries; {
		if err := r.refreshIndex(); err != nil {
			return nil, err
		}
		r.dropReadEntries()
		if len(r.entries) == 0 {
			return nil, nil
		}
		steps, target := r.selectEntries()
		starts := r.known.Starts
		var text [2][]byte
		var begin outputindex.Positions
		for _, s := range outputindex.Streams() {
			if !r.selection.Streams[s] {
				continue
			}
			var err error
			if text[s], begin[s], err = r.readRange(s, r.next[s], target[s]); err != nil {
				return nil, err
			}
		}
		if err := r.refreshIndex(); err != nil {
			return nil, err
		}
		if r.known.Starts != starts {
			tries++ // a file was rotated meanwhile, so the positions may have been others
			continue
		}
		if parts := r.assembleParts(steps, text, begin); len(parts) > 0 {
			return parts, nil
		}
	}
	return nil, errRotatedTooFast
}

// selectEntries returns the next entries up to the limit of bytes, and their end. A larger
// first entry is divided.
func (r *Reader) selectEntries() (steps []outputindex.Entry, target outputindex.Positions) {
	for _, e := range r.entries {
		if len(steps) > 0 && sumBytes(r.next, e.Ends) > maxPartBytes {
			break
		}
		steps = append(steps, e)
	}
	first := &steps[0]
	for _, s := range outputindex.Streams() {
		first.Ends[s] = max(r.next[s], min(first.Ends[s], r.next[s]+maxPartBytes))
	}
	return steps, steps[len(steps)-1].Ends
}

// readRange reads a stream between two positions. begin is after from if output was rotated
// away. The result is shorter if the current file is.
func (r *Reader) readRange(s outputindex.Stream, from, to int64) (text []byte, begin int64, err error) {
	if from >= to {
		return nil, from, nil
	}
	for range maxRotationTries {
		starts, begin, err := r.findFiles(s, from)
		if err != nil {
			return nil, 0, err
		}
		text, complete, err := r.readFiles(s, starts, begin, to)
		if err != nil || complete {
			return text, begin, err
		}
		if err := r.refreshIndex(); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, errRotatedTooFast
}

// findFiles returns the positions at which the files of a stream start, the current one first, back to the file that has
// the position from. begin is from, or the start of the oldest file if output was rotated away.
func (r *Reader) findFiles(s outputindex.Stream, from int64) (starts []int64, begin int64, err error) {
	begin = r.known.Starts[s]
	starts = append(starts, begin)
	for n := 1; begin > from && n <= maxLogFiles; n++ {
		size, err := r.readSize(s, n)
		if errors.Is(err, request.ErrNoLog) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		begin -= size
		starts = append(starts, begin)
	}
	return starts, max(begin, from), nil
}

// readFiles reads a stream between two positions from the files that start at starts. It is not complete if an older file
// is shorter than expected: it was removed or renamed meanwhile.
func (r *Reader) readFiles(s outputindex.Stream, starts []int64, at, to int64) (text []byte, complete bool, err error) {
	for n := len(starts) - 1; n >= 0 && at < to; n-- {
		end := to
		if n > 0 {
			end = min(to, starts[n-1])
		}
		for at < end {
			data, _, err := r.readFile(outputFileName(s, n), uint64(at-starts[n]), uint64(min(end-at, readSize)))
			if err != nil && !errors.Is(err, request.ErrNoLog) {
				return nil, false, err
			}
			if len(data) == 0 {
				return text, n == 0, nil
			}
			text, at = append(text, data...), at+int64(len(data))
		}
	}
	return text, true, nil
}

// outputFileName returns the name of a stream's file. The current one is 0, and the one before it 1.
func outputFileName(s outputindex.Stream, n int) string {
	if n == 0 {
		return s.String()
	}
	return fmt.Sprintf("%s.%d", s, n)
}

// assembleParts divides the text of both streams by entries.
func (r *Reader) assembleParts(steps []outputindex.Entry, text [2][]byte, begin outputindex.Positions) []api.OutputPart {
	var parts []api.OutputPart
	for _, e := range steps {
		for _, s := range outputindex.Streams() {
			if e.Ends[s] <= r.next[s] {
				continue
			}
			size, end := int64(len(text[s])), e.Ends[s]-begin[s]
			from, to := min(max(r.next[s]-begin[s], 0), size), min(max(end, 0), size)
			before, after := begin[s] > r.next[s], to < end // whether output is missing
			r.next[s] = e.Ends[s]
			if !r.selection.Streams[s] {
				continue
			}
			r.lost = r.lost || before
			if from < to {
				parts = append(parts, r.newPart(s, text[s][from:to], e.Time))
			}
			r.lost = r.lost || after
		}
	}
	return parts
}

// newPart returns a part that ends at the position. It reports output that was lost before.
func (r *Reader) newPart(s outputindex.Stream, text []byte, written time.Time) api.OutputPart {
	p := api.OutputPart{Stream: s.String(), Lost: r.lost, After: formatPositions(r.next)}
	if utf8.Valid(text) {
		p.Text = string(text)
	} else {
		p.Data = text
	}
	if !written.IsZero() {
		p.Time = written.UTC()
	}
	r.lost = false
	return p
}

// ReadRest returns what an executor that was killed has not indexed.
func (r *Reader) ReadRest() ([]api.OutputPart, error) {
	var parts []api.OutputPart
	for _, s := range outputindex.Streams() {
		size, err := r.readSize(s, 0)
		if errors.Is(err, request.ErrNoLog) {
			continue
		}
		if err != nil {
			return nil, err
		}
		text, _, err := r.readRange(s, r.next[s], r.known.Starts[s]+size)
		if err != nil {
			return nil, err
		}
		r.next[s] += int64(len(text))
		if len(text) > 0 && r.selection.Streams[s] {
			parts = append(parts, r.newPart(s, text, time.Time{}))
		}
	}
	return parts, nil
}

func formatPositions(p outputindex.Positions) string {
	return fmt.Sprintf("%d,%d", p[outputindex.Stdout], p[outputindex.Stderr])
}
