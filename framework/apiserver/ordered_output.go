package apiserver

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

// orderedOutput reads both output streams of a task in the order in which they were
// written, by the index that the task's executor keeps. Positions count the bytes of a stream from
// its beginning, across rotated files. One request uses it.
//
// Without an index, because the task did not start or the executor could not write it, the order
// is unknown. The sizes of the files then give the positions. Existing output has no time, and later
// output the time at which it is noticed.
type orderedOutput struct {
	// readFile reads from a file of the sandbox and returns its size. It returns request.ErrNoLog,
	// wrapped, if the file does not exist.
	readFile func(file string, offset, length uint64) (data []byte, size uint64, err error)
	// selected has the streams to return.
	selected [2]bool

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
func (o *orderedOutput) refreshIndex() error {
	for {
		n := uint64(len(o.lastLine))
		data, _, err := o.readFile(outputindex.FileName, o.indexOffset-n, n+logChunk)
		if errors.Is(err, request.ErrNoLog) && o.indexOffset == 0 {
			return o.refreshSizes()
		}
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(data, o.lastLine) {
			o.indexOffset, o.lastLine = 0, nil // a shorter file has replaced it
			continue
		}
		full := uint64(len(data)) >= n+logChunk
		data = data[n:]
		data = data[:bytes.LastIndexByte(data, '\n')+1]
		if len(data) == 0 {
			return nil
		}
		for _, e := range outputindex.ParseEntries(data) {
			if e.Follows(o.known) {
				o.entries = append(o.entries, e)
				o.known = e
			}
		}
		o.indexOffset += uint64(len(data))
		last := bytes.TrimSuffix(data, []byte{'\n'})
		o.lastLine = bytes.Clone(data[bytes.LastIndexByte(last, '\n')+1:])
		if !full {
			return nil
		}
		if o.indexOffset > maxIndexBytes {
			return fmt.Errorf("read output: %s has more than %d bytes: the task has written to it", outputindex.FileName, maxIndexBytes)
		}
	}
}

// refreshSizes replaces the index: it adds an entry for what the files have more than before. It returns request.ErrNoLog if the task has neither file.
func (o *orderedOutput) refreshSizes() error {
	var previous [2]int64
	next := outputindex.Entry{Ends: o.known.Ends, Starts: o.known.Starts}
	missing := 0
	for _, s := range outputindex.Streams() {
		size, err := int64(0), error(nil)
		if size, previous[s], err = o.readSizes(s); errors.Is(err, request.ErrNoLog) {
			missing++
			continue
		} else if err != nil {
			return err
		}
		switch {
		case o.previousSizes == nil:
			if next.Starts[s], err = o.sumOlderFiles(s); err != nil {
				return err
			}
		case size >= o.known.Ends[s]-o.known.Starts[s] && previous[s] == o.previousSizes[s]: // no rotation
		case previous[s] == 0:
			next.Starts[s] = o.known.Ends[s] // the file was emptied
		default:
			next.Starts[s] += previous[s]
		}
		next.Ends[s] = max(next.Ends[s], next.Starts[s]+size)
	}
	if missing == len(previous) {
		return request.ErrNoLog
	}
	if o.previousSizes != nil {
		next.Time = time.Now()
	}
	o.previousSizes = &previous
	if next.Ends != o.known.Ends {
		o.entries = append(o.entries, next)
	}
	o.known = next
	return nil
}

// readSizes returns the sizes of a stream's current file and of the rotated file before it, 0 for a file that does not
// exist. It reads again if the files were rotated meanwhile.
func (o *orderedOutput) readSizes(s outputindex.Stream) (size, previous int64, err error) {
	for range maxRotationTries {
		before, err := o.readSize(s, 1)
		if err != nil && !errors.Is(err, request.ErrNoLog) {
			return 0, 0, err
		}
		if size, err = o.readSize(s, 0); err != nil {
			return 0, 0, err
		}
		previous, err = o.readSize(s, 1)
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
func (o *orderedOutput) sumOlderFiles(s outputindex.Stream) (total int64, err error) {
	for n := 1; n <= maxLogFiles; n++ {
		size, err := o.readSize(s, n)
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
func (o *orderedOutput) readSize(s outputindex.Stream, n int) (int64, error) {
	_, size, err := o.readFile(outputFileName(s, n), 0, 1)
	return int64(size), err
}

// skipTo continues after a position that a reader already has.
func (o *orderedOutput) skipTo(at outputindex.Positions) {
	o.next = at
	o.dropReadEntries()
}

// dropReadEntries removes the entries that end before the position.
func (o *orderedOutput) dropReadEntries() {
	for len(o.entries) > 0 {
		ends := o.entries[0].Ends
		if ends[outputindex.Stdout] > o.next[outputindex.Stdout] || ends[outputindex.Stderr] > o.next[outputindex.Stderr] {
			return
		}
		o.entries = o.entries[1:]
	}
}

// skipToTail continues so many bytes before the end of a stream's current file, at most at its start.
func (o *orderedOutput) skipToTail(s outputindex.Stream, count int64) error {
	size, err := o.readSize(s, 0)
	if err == nil {
		o.next[s] = o.known.Starts[s] + max(0, size-count)
	}
	return err
}

// skipBefore skips the lines that were written before a time. It skips none whose time is unknown.
func (o *orderedOutput) skipBefore(since time.Time) error {
	for len(o.entries) > 0 && o.entries[0].Time.Before(since) && !o.entries[0].Time.IsZero() {
		o.next, o.entries = o.entries[0].Ends, o.entries[1:]
	}
	return o.alignToLines()
}

// alignToLines moves the position of each stream back to the start of its line.
func (o *orderedOutput) alignToLines() error {
	for _, s := range outputindex.Streams() {
		from := max(0, o.next[s]-maxLineSearch)
		text, begin, err := o.readRange(s, from, o.next[s])
		if err != nil {
			return err
		}
		if at := bytes.LastIndexByte(text, '\n'); at >= 0 {
			o.next[s] = begin + int64(at) + 1
		} else if begin == 0 {
			o.next[s] = 0
		}
	}
	return nil
}

// lastLines returns the last lines of the present output and continues after it. It reads from the
// end, first a small window and then larger ones, until they have enough lines or maxTailWindow bytes.
func (o *orderedOutput) lastLines(count int) ([]api.OutputPart, error) {
	begin := o.next
	for window := int64(64 << 10); ; window *= 4 {
		o.next = begin
		entries := o.entries
		first := 0
		for first < len(entries) && sumBytes(entries[first].Ends, o.known.Ends) > window {
			first++
		}
		if first > 0 {
			o.next, o.entries = entries[first-1].Ends, entries[first:]
			if err := o.alignToLines(); err != nil {
				return nil, err
			}
		}
		var parts []api.OutputPart
		for {
			more, err := o.readParts()
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
		o.entries = entries
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
func (o *orderedOutput) readParts() ([]api.OutputPart, error) {
	for tries := 0; tries < maxRotationTries; {
		if err := o.refreshIndex(); err != nil {
			return nil, err
		}
		o.dropReadEntries()
		if len(o.entries) == 0 {
			return nil, nil
		}
		steps, target := o.selectEntries()
		starts := o.known.Starts
		var text [2][]byte
		var begin outputindex.Positions
		for _, s := range outputindex.Streams() {
			if !o.selected[s] {
				continue
			}
			var err error
			if text[s], begin[s], err = o.readRange(s, o.next[s], target[s]); err != nil {
				return nil, err
			}
		}
		if err := o.refreshIndex(); err != nil {
			return nil, err
		}
		if o.known.Starts != starts {
			tries++ // a file was rotated meanwhile, so the positions may have been others
			continue
		}
		if parts := o.assembleParts(steps, text, begin); len(parts) > 0 {
			return parts, nil
		}
	}
	return nil, errRotatedTooFast
}

// selectEntries returns the next entries up to the limit of bytes, and their end. A larger
// first entry is divided.
func (o *orderedOutput) selectEntries() (steps []outputindex.Entry, target outputindex.Positions) {
	for _, e := range o.entries {
		if len(steps) > 0 && sumBytes(o.next, e.Ends) > maxPartBytes {
			break
		}
		steps = append(steps, e)
	}
	first := &steps[0]
	for _, s := range outputindex.Streams() {
		first.Ends[s] = max(o.next[s], min(first.Ends[s], o.next[s]+maxPartBytes))
	}
	return steps, steps[len(steps)-1].Ends
}

// readRange reads a stream between two positions. begin is after from if output was rotated
// away. The result is shorter if the current file is.
func (o *orderedOutput) readRange(s outputindex.Stream, from, to int64) (text []byte, begin int64, err error) {
	if from >= to {
		return nil, from, nil
	}
	for range maxRotationTries {
		starts, begin, err := o.findFiles(s, from)
		if err != nil {
			return nil, 0, err
		}
		text, complete, err := o.readFiles(s, starts, begin, to)
		if err != nil || complete {
			return text, begin, err
		}
		if err := o.refreshIndex(); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, errRotatedTooFast
}

// findFiles returns the positions at which the files of a stream start, the current one first, back to the file that has
// the position from. begin is from, or the start of the oldest file if output was rotated away.
func (o *orderedOutput) findFiles(s outputindex.Stream, from int64) (starts []int64, begin int64, err error) {
	begin = o.known.Starts[s]
	starts = append(starts, begin)
	for n := 1; begin > from && n <= maxLogFiles; n++ {
		size, err := o.readSize(s, n)
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
func (o *orderedOutput) readFiles(s outputindex.Stream, starts []int64, at, to int64) (text []byte, complete bool, err error) {
	for n := len(starts) - 1; n >= 0 && at < to; n-- {
		end := to
		if n > 0 {
			end = min(to, starts[n-1])
		}
		for at < end {
			data, _, err := o.readFile(outputFileName(s, n), uint64(at-starts[n]), uint64(min(end-at, logChunk)))
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
func (o *orderedOutput) assembleParts(steps []outputindex.Entry, text [2][]byte, begin outputindex.Positions) []api.OutputPart {
	var parts []api.OutputPart
	for _, e := range steps {
		for _, s := range outputindex.Streams() {
			if e.Ends[s] <= o.next[s] {
				continue
			}
			size, end := int64(len(text[s])), e.Ends[s]-begin[s]
			from, to := min(max(o.next[s]-begin[s], 0), size), min(max(end, 0), size)
			before, after := begin[s] > o.next[s], to < end // whether output is missing
			o.next[s] = e.Ends[s]
			if !o.selected[s] {
				continue
			}
			o.lost = o.lost || before
			if from < to {
				parts = append(parts, o.newPart(s, text[s][from:to], e.Time))
			}
			o.lost = o.lost || after
		}
	}
	return parts
}

// newPart returns a part that ends at the position. It reports output that was lost before.
func (o *orderedOutput) newPart(s outputindex.Stream, text []byte, written time.Time) api.OutputPart {
	p := api.OutputPart{Stream: s.String(), Lost: o.lost, After: formatPositions(o.next)}
	if utf8.Valid(text) {
		p.Text = string(text)
	} else {
		p.Data = text
	}
	if !written.IsZero() {
		p.Time = written.UTC()
	}
	o.lost = false
	return p
}

// readRest returns what an executor that was killed has not indexed.
func (o *orderedOutput) readRest() ([]api.OutputPart, error) {
	var parts []api.OutputPart
	for _, s := range outputindex.Streams() {
		size, err := o.readSize(s, 0)
		if errors.Is(err, request.ErrNoLog) {
			continue
		}
		if err != nil {
			return nil, err
		}
		text, _, err := o.readRange(s, o.next[s], o.known.Starts[s]+size)
		if err != nil {
			return nil, err
		}
		o.next[s] += int64(len(text))
		if len(text) > 0 && o.selected[s] {
			parts = append(parts, o.newPart(s, text, time.Time{}))
		}
	}
	return parts, nil
}

func formatPositions(p outputindex.Positions) string {
	return fmt.Sprintf("%d,%d", p[outputindex.Stdout], p[outputindex.Stderr])
}
