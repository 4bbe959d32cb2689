package jobs

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/internal/term"
)

// maxBufferedLine limits how much of an unfinished line is buffered, in bytes.
const maxBufferedLine = 64 << 10

// lineLabels prefixes each output line with its job and its task's number. A job with a
// single task gets no prefixes.
type lineLabels struct {
	job   string
	tasks int
	// attempts makes labels have the number of the attempt too, also those of a single task.
	attempts bool
	// times is true if lines have the time at which they were written, "-" if that is unknown.
	times bool
}

// labelWriter returns a writer for the output of an attempt of a task. The caller must call
// flushLine at the end.
func (l lineLabels) labelWriter(task string, to io.Writer, screen term.TerminalScreen) *labelledWriter {
	w := &labelledWriter{to: to, times: l.times}
	index, attempt := taskIndex(task)
	text := fmt.Sprintf("%s.%-*d | ", l.job, len(strconv.Itoa(l.tasks-1)), index)
	if l.attempts {
		text = fmt.Sprintf("%s.%d.%d | ", l.job, index, attempt)
	}
	if l.attempts || l.tasks > 1 {
		w.label = screen.Colorize(term.TerminalColor(32+index%5), text)
	}
	return w
}

// taskIndex returns the index and the attempt of a job's task from its id,
// JOB.INDEX.ATTEMPT.SUFFIX, or 0 for a task id of another framework.
func taskIndex(id string) (index, attempt int) {
	parts := strings.Split(id, ".")
	if len(parts) < 4 {
		return 0, 0
	}
	index, _ = strconv.Atoi(parts[len(parts)-3])
	attempt, _ = strconv.Atoi(parts[len(parts)-2])
	return index, attempt
}

// labelledWriter writes whole lines only, because other tasks write to the same output.
type labelledWriter struct {
	label   string
	to      io.Writer
	partial []byte // the start of an unfinished line
	times   bool   // whether lines have a time
	// written is when the next output was written, if that is known, and begun that of partial.
	written, begun time.Time
}

// lineTimeFormat is the format of the time of a line.
const lineTimeFormat = "2006-01-02T15:04:05.000Z07:00"

// linePrefix returns what a line begins with.
func (l *labelledWriter) linePrefix() string {
	if !l.times {
		return l.label
	}
	if begun := l.begun; !begun.IsZero() {
		l.begun = l.written
		return l.label + begun.Local().Format(lineTimeFormat) + " "
	}
	return fmt.Sprintf("%s%-*s ", l.label, len(time.Now().Format(lineTimeFormat)), "-")
}

func (l *labelledWriter) Write(p []byte) (int, error) {
	if l.label == "" && !l.times {
		return l.to.Write(p)
	}
	if len(l.partial) == 0 {
		l.begun = l.written
	}
	l.partial = append(l.partial, p...)
	whole := bytes.LastIndexByte(l.partial, '\n') + 1
	if whole == 0 && len(l.partial) < maxBufferedLine {
		return len(p), nil
	}
	if whole == 0 {
		return len(p), l.flushLine()
	}
	var out bytes.Buffer
	for line := range bytes.Lines(l.partial[:whole]) {
		out.WriteString(l.linePrefix())
		out.Write(line)
	}
	l.partial = append([]byte(nil), l.partial[whole:]...)
	_, err := l.to.Write(out.Bytes())
	return len(p), err
}

// flushLine writes the buffered text as a line.
func (l *labelledWriter) flushLine() error {
	if len(l.partial) == 0 {
		return nil
	}
	last := append(append([]byte(l.linePrefix()), l.partial...), '\n')
	l.partial = nil
	_, err := l.to.Write(last)
	return err
}
