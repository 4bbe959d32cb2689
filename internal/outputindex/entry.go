// Package outputindex is the format of the file in which the executor notes when a task
// wrote its output. It gives the lines of both streams an order and times.
//
// The file has one line for each observed write: the time in microseconds, the end of
// standard output and of standard error, and the starts of their current files. All
// positions count bytes since the start of the task, also of files that were rotated away.
// The time 0 means that it is not known.
package outputindex

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// FileName is the file's name in the sandbox of a task.
const FileName = "output-times"

// Stream is one of the two output streams.
type Stream int

const (
	Stdout Stream = iota
	Stderr
	streamCount
)

// String returns the name of the stream and of its file.
func (s Stream) String() string { return [...]string{"stdout", "stderr"}[s] }

// Streams returns both streams. A reader that has no other order prints them in this one.
func Streams() [2]Stream { return [...]Stream{Stdout, Stderr} }

// Positions has a position for each stream.
type Positions [streamCount]int64

// Entry states how far the output had come at a time.
type Entry struct {
	Time time.Time
	// Ends are the bytes that each stream had at that time.
	Ends Positions
	// Starts are the positions at which the streams' current files start.
	Starts Positions
}

// AppendLine appends the entry's line.
func (e Entry) AppendLine(b []byte) []byte {
	at := int64(0)
	if !e.Time.IsZero() {
		at = e.Time.UnixMicro()
	}
	return fmt.Appendf(b, "%d %d %d %d %d\n", at, e.Ends[Stdout], e.Ends[Stderr], e.Starts[Stdout], e.Starts[Stderr])
}

// ParseLine parses a line without its end.
func ParseLine(line []byte) (Entry, bool) {
	fields := bytes.Fields(line)
	if len(fields) != 5 {
		return Entry{}, false
	}
	var n [5]int64
	for i, field := range fields {
		var err error
		if n[i], err = strconv.ParseInt(string(field), 10, 64); err != nil || n[i] < 0 {
			return Entry{}, false
		}
	}
	e := Entry{Ends: Positions{n[1], n[2]}, Starts: Positions{n[3], n[4]}}
	if n[0] > 0 {
		e.Time = time.UnixMicro(n[0])
	}
	return e, e.Starts[Stdout] <= e.Ends[Stdout] && e.Starts[Stderr] <= e.Ends[Stderr]
}

// ParseEntries parses the whole lines of text. It skips lines that are no entries, and
// entries that are earlier than one before them: the task can write to the file.
func ParseEntries(text []byte) []Entry {
	var entries []Entry
	for line := range bytes.Lines(text) {
		e, ok := ParseLine(bytes.TrimSuffix(line, []byte{'\n'}))
		if !ok || line[len(line)-1] != '\n' || len(entries) > 0 && !e.Follows(entries[len(entries)-1]) {
			continue
		}
		entries = append(entries, e)
	}
	return entries
}

// Follows reports whether e can be a later entry than previous.
func (e Entry) Follows(previous Entry) bool {
	for s := range streamCount {
		if e.Ends[s] < previous.Ends[s] || e.Starts[s] < previous.Starts[s] {
			return false
		}
	}
	return !e.Time.Before(previous.Time)
}

// grownStreams returns a bit for each stream that has grown since the entry before.
func (e Entry) grownStreams(previous Entry) (grown int) {
	for s := range streamCount {
		if e.Ends[s] > previous.Ends[s] {
			grown |= 1 << s
		}
	}
	return grown
}

// ThinOut removes about half of the entries or more. It first removes those between which
// only one stream has grown: times become less exact, but the order stays. If these are
// few it removes every other entry. The first and the last entry stay.
func ThinOut(entries []Entry) []Entry {
	thin := dropEveryOther(entries, func(before, e, next Entry) bool { return e.grownStreams(before) == next.grownStreams(e) })
	if len(thin) > len(entries)*3/4 {
		thin = dropEveryOther(entries, func(_, _, _ Entry) bool { return true })
	}
	return thin
}

// dropEveryOther removes entries for which mayDrop returns true, but no two in a row.
func dropEveryOther(entries []Entry, mayDrop func(before, e, next Entry) bool) []Entry {
	var kept []Entry
	dropped := true // the first entry stays
	for i, e := range entries {
		dropped = !dropped && i < len(entries)-1 && mayDrop(kept[len(kept)-1], e, entries[i+1])
		if !dropped {
			kept = append(kept, e)
		}
	}
	return kept
}
