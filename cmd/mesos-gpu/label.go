package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// longestLine is how much of a line without an end is kept back.
const longestLine = 64 << 10

// labels tell the output of a job's tasks apart: each line begins with its
// task's number. Of a single task lines stay as they are.
type labels struct {
	tasks int
	screen
}

// of is a writer for the output of the task with a number, to be ended.
func (l labels) of(index int, to io.Writer) *labelled {
	if l.tasks < 2 {
		return &labelled{to: to}
	}
	text := fmt.Sprintf("%*d | ", len(strconv.Itoa(l.tasks-1)), index)
	return &labelled{label: l.paint(colour(32+index%5), text), to: to}
}

// indexOf is the number of a job's task by its id, JOB.NUMBER.….
func indexOf(job, id string) int {
	number, _, _ := strings.Cut(strings.TrimPrefix(id, job+"."), ".")
	n, _ := strconv.Atoi(number) // 0 for an id that is none of ours
	return n
}

// labelled passes whole lines on, as others write to the same place.
type labelled struct {
	label string
	to    io.Writer
	rest  []byte // a line that has no end yet
}

func (l *labelled) Write(p []byte) (int, error) {
	if l.label == "" {
		return l.to.Write(p)
	}
	l.rest = append(l.rest, p...)
	whole := bytes.LastIndexByte(l.rest, '\n') + 1
	if whole == 0 && len(l.rest) < longestLine {
		return len(p), nil
	}
	if whole == 0 {
		return len(p), l.end()
	}
	var out bytes.Buffer
	for line := range bytes.Lines(l.rest[:whole]) {
		out.WriteString(l.label)
		out.Write(line)
	}
	l.rest = append([]byte(nil), l.rest[whole:]...)
	_, err := l.to.Write(out.Bytes())
	return len(p), err
}

// end passes on what came last, as a line.
func (l *labelled) end() error {
	if len(l.rest) == 0 {
		return nil
	}
	last := append(append([]byte(l.label), l.rest...), '\n')
	l.rest = nil
	_, err := l.to.Write(last)
	return err
}
