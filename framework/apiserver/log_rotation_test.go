package apiserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"mesos-gpu/framework/request"
)

// rotatingSandbox is a log whose files are rotated while they are read.
type rotatingSandbox struct {
	files map[string]string
	keep  int
	wrote strings.Builder
	lines int
}

func newSandbox() *rotatingSandbox {
	return &rotatingSandbox{files: map[string]string{"stdout": ""}, keep: 5}
}

func (b *rotatingSandbox) read(file string, offset, length uint64) ([]byte, uint64, error) {
	text, ok := b.files[file]
	if !ok {
		return nil, 0, fmt.Errorf("%s: %w", file, request.ErrNoLog)
	}
	size := uint64(len(text))
	from := min(offset, size)
	return []byte(text[from:min(from+length, size)]), size, nil
}

func (b *rotatingSandbox) write(n int) {
	for range n {
		b.lines++
		line := fmt.Sprintf("line %d\n", b.lines)
		b.files["stdout"] += line
		b.wrote.WriteString(line)
	}
}

// shiftFiles renames the rotated files so that stdout.1 is free.
func (b *rotatingSandbox) shiftFiles() {
	for i := b.keep - 1; i > 0; i-- {
		if text, ok := b.files[fmt.Sprintf("stdout.%d", i)]; ok && i < b.keep-1 {
			b.files[fmt.Sprintf("stdout.%d", i+1)] = text
		}
		delete(b.files, fmt.Sprintf("stdout.%d", i))
	}
}

// rotate starts a new file. less is the number of final bytes that stay in it, as if only
// the start of an open file were moved out.
func (b *rotatingSandbox) rotate(less int) {
	text := b.files["stdout"]
	if cut := len(text) - less; cut > 0 {
		b.shiftFiles()
		b.files["stdout.1"], b.files["stdout"] = text[:cut], text[cut:]
	}
}

// readAll reads to the end while files are rotated. busy reports whether the writer is
// still active.
func readAll(t *testing.T, l *rotatedLog, busy func() bool, news func()) string {
	t.Helper()
	var all strings.Builder
	for idle := 0; idle < 3; {
		if busy() {
			idle = 0
		}
		data, err := l.readNext()
		if err != nil && !errors.Is(err, errRotating) {
			t.Fatalf("after %d bytes: %v", all.Len(), err)
		}
		if len(data) > 0 {
			news()
		}
		if idle++; len(data) > 0 || err != nil {
			idle = 0
		}
		all.Write(data)
	}
	return all.String()
}

// TestRotatedLogIsComplete rotates at random between any two reads of the agent's files, by
// starting a new file and by moving the start of the file out.
func TestRotatedLogIsComplete(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 7))
		b := newSandbox()
		rotations, budget := 0, 100
		sinceNews := 0 // rotations since the reader last got data
		act := func() {
			if budget--; budget <= 0 {
				return
			}
			b.write(r.IntN(60))
			if r.IntN(4) == 0 && sinceNews < 2 {
				less := 0
				if sinceNews == 0 { // after two such rotations data could be lost before it is read
					less = r.IntN(2) * r.IntN(1500)
				}
				rotations, sinceNews = rotations+1, sinceNews+1
				if less > 0 {
					sinceNews = 2
				}
				b.rotate(less)
			}
		}
		calm := 0 // reads since the last change: files are read faster than they are rotated
		l := &rotatedLog{stream: "stdout", unread: true, readFile: func(file string, offset, length uint64) ([]byte, uint64, error) {
			if calm++; calm > 12 && r.IntN(3) == 0 {
				calm = 0
				act()
			}
			return b.read(file, offset, min(length, 64<<10))
		}}
		got := readAll(t, l, func() bool {
			if r.IntN(3) == 0 {
				act()
			}
			return budget > 0
		}, func() { sinceNews = 0 })
		if want := b.wrote.String(); got != want {
			t.Fatalf("seed %d, %d rotations: got %d bytes, want %d; %s", seed, rotations, len(got), len(want), firstDifference(got, want))
		}
	}
}

func firstDifference(got, want string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("from %d on %.40q, want %.40q", i, got[i:], want[i:])
		}
	}
	return "one is the other's beginning"
}

// TestLogTail checks that the last bytes of the current file are read first, however many
// files precede it, and then the output that follows.
func TestLogTail(t *testing.T) {
	for last, want := range map[uint64]string{6: "ine 5\n", 14: "line 4\nline 5\n", 1000: "line 4\nline 5\n"} {
		b := newSandbox()
		b.write(3)
		b.rotate(0)
		b.write(2)
		l := &rotatedLog{stream: "stdout", unread: true, tailBytes: last, readFile: b.read}
		data, err := l.readNext()
		if string(data) != want || err != nil {
			t.Errorf("the last %d bytes: got %q, %v, want %q", last, data, err, want)
		}
		b.write(1)
		if data, err = l.readNext(); string(data) != "line 6\n" || err != nil {
			t.Errorf("after the last %d bytes: got %q, %v", last, data, err)
		}
	}
	l := &rotatedLog{stream: "stderr", unread: true, tailBytes: 5, readFile: newSandbox().read}
	if _, err := l.readNext(); !errors.Is(err, request.ErrNoLog) {
		t.Errorf("of no log: %v", err)
	}
}
