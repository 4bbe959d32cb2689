package api

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// rotatingSandbox is a log whose files a writer rotates while they are read.
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
		return nil, 0, fmt.Errorf("%s: %w", file, ErrNoLog)
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

// shiftFiles makes room for stdout.1.
func (b *rotatingSandbox) shiftFiles() {
	for i := b.keep - 1; i > 0; i-- {
		if text, ok := b.files[fmt.Sprintf("stdout.%d", i)]; ok && i < b.keep-1 {
			b.files[fmt.Sprintf("stdout.%d", i+1)] = text
		}
		delete(b.files, fmt.Sprintf("stdout.%d", i))
	}
}

// rotate begins a new file; less is how many of the last bytes stay in it, as
// where the head of a file that is held open is moved out.
func (b *rotatingSandbox) rotate(less int) {
	text := b.files["stdout"]
	if cut := len(text) - less; cut > 0 {
		b.shiftFiles()
		b.files["stdout.1"], b.files["stdout"] = text[:cut], text[cut:]
	}
}

// readAll reads to the end, through files that change places. busy reports
// whether the writer goes on.
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

// TestRotatedLogIsComplete: the writer rotates at random, by a new file and
// by moving the head out, between any two reads of the agent's files.
func TestRotatedLogIsComplete(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 7))
		b := newSandbox()
		rotations, budget := 0, 100
		sinceNews := 0 // rotations since the reader got something
		act := func() {
			if budget--; budget <= 0 {
				return
			}
			b.write(r.IntN(60))
			if r.IntN(4) == 0 && sinceNews < 2 {
				less := 0
				if sinceNews == 0 { // twice as much could be cut before it is seen
					less = r.IntN(2) * r.IntN(1500)
				}
				rotations, sinceNews = rotations+1, sinceNews+1
				if less > 0 {
					sinceNews = 2
				}
				b.rotate(less)
			}
		}
		calm := 0 // reads since the last act: files are not rotated faster than they are read
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
			t.Fatalf("seed %d, %d rotations: got %d bytes, want %d; %s", seed, rotations, len(got), len(want), differ(got, want))
		}
	}
}

func differ(got, want string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("from %d on %.40q, want %.40q", i, got[i:], want[i:])
		}
	}
	return "one is the other's beginning"
}

// TestLogTail: the last bytes of the present file, however many files
// precede it, and then what follows.
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
	if _, err := l.readNext(); !errors.Is(err, ErrNoLog) {
		t.Errorf("of no log: %v", err)
	}
}
