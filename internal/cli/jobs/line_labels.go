package jobs

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"mesos-gpu/internal/term"
)

// maxBufferedLine limits how much of an unfinished line is buffered, in bytes.
const maxBufferedLine = 64 << 10

// lineLabels prefixes each output line with its job and its task's number. A job with a
// single task gets no prefixes.
type lineLabels struct {
	job   string
	tasks int
}

// labelWriter returns a writer for the output of the task with this index. The caller
// must call flushLine at the end.
func (l lineLabels) labelWriter(index int, to io.Writer, screen term.TerminalScreen) *labelledWriter {
	if l.tasks < 2 {
		return &labelledWriter{to: to}
	}
	text := fmt.Sprintf("%s.%-*d | ", l.job, len(strconv.Itoa(l.tasks-1)), index)
	return &labelledWriter{label: screen.Colorize(term.TerminalColor(32+index%5), text), to: to}
}

// taskIndex returns the index of a job's task from its id, JOB.INDEX.ATTEMPT.SUFFIX.
func taskIndex(id string) int {
	parts := strings.Split(id, ".")
	n, _ := strconv.Atoi(parts[max(0, len(parts)-3)]) // 0 for a task id of another framework
	return n
}

// labelledWriter writes whole lines only, because other tasks write to the same output.
type labelledWriter struct {
	label   string
	to      io.Writer
	partial []byte // the start of an unfinished line
}

func (l *labelledWriter) Write(p []byte) (int, error) {
	if l.label == "" {
		return l.to.Write(p)
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
		out.WriteString(l.label)
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
	last := append(append([]byte(l.label), l.partial...), '\n')
	l.partial = nil
	_, err := l.to.Write(last)
	return err
}
