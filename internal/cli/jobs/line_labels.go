package jobs

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"mesos-gpu/internal/term"
)

// maxBufferedLine is how much of a line without an end is kept back.
const maxBufferedLine = 64 << 10

// lineLabels tell the output of a job's tasks apart: each line begins with its
// task's number. Of a single task lines stay as they are.
type lineLabels struct {
	tasks int
	term.TerminalScreen
}

// labelWriter is a writer for the output of the task with a number, to be ended.
func (l lineLabels) labelWriter(index int, to io.Writer) *labelledWriter {
	if l.tasks < 2 {
		return &labelledWriter{to: to}
	}
	text := fmt.Sprintf("%*d | ", len(strconv.Itoa(l.tasks-1)), index)
	return &labelledWriter{label: l.Colorize(term.TerminalColor(32+index%5), text), to: to}
}

// taskIndex is the number of a job's task by its id, JOB.NUMBER.….
func taskIndex(job, id string) int {
	number, _, _ := strings.Cut(strings.TrimPrefix(id, job+"."), ".")
	n, _ := strconv.Atoi(number) // 0 for the id of another framework's task
	return n
}

// labelledWriter passes whole lines on, as others write to the same place.
type labelledWriter struct {
	label   string
	to      io.Writer
	partial []byte // a line that has no end yet
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

// flushLine passes on what came last, as a line.
func (l *labelledWriter) flushLine() error {
	if len(l.partial) == 0 {
		return nil
	}
	last := append(append([]byte(l.label), l.partial...), '\n')
	l.partial = nil
	_, err := l.to.Write(last)
	return err
}
