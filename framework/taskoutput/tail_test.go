package taskoutput

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/request"
	"mesos-gpu/internal/outputindex"
)

// encodeTail encodes and decodes a tail.
func encodeTail(t interface {
	Helper()
	Fatal(...any)
}, tail *Tail) *Tail {
	t.Helper()
	text, err := tail.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if tail, err = DecodeTail(text); err != nil {
		t.Fatal(err)
	}
	return tail
}

var bothStreams = [2]bool{true, true}

// TestTailIsTheEndOfTheOutput stores the end of output that was rotated, and of which a killed executor has not indexed all. The
// tail has at most the limit, only whole lines, in order, and each stream's end. Nothing is missing if all of it fits.
func TestTailIsTheEndOfTheOutput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const longest = len("stderr 999\n")
		files, total := newTaskFiles(), 0
		var lines, wrote [2][]string
		var order []string
		for i := range rapid.IntRange(0, 40).Draw(t, "writes") {
			s := outputindex.Stream(rapid.IntRange(0, 1).Draw(t, "stream"))
			line := fmt.Sprintf("%s %d\n", s, i)
			files.write(s, line)
			lines[s], order, total = append(lines[s], line), append(order, line), total+len(line)
			if rapid.IntRange(0, 9).Draw(t, "rotate") == 0 && files.files[s.String()+".1"] == "" {
				files.rotate(s)
			}
		}
		if rapid.Bool().Draw(t, "killed") {
			files.files["stderr"] += "not indexed\n"
			lines[outputindex.Stderr], order = append(lines[outputindex.Stderr], "not indexed\n"), append(order, "not indexed\n")
			total += len("not indexed\n")
		}
		limit := rapid.IntRange(0, total+10).Draw(t, "limit")
		tail, err := ReadTail(files.readFile, int64(limit))
		if err != nil {
			t.Fatal(err)
		}
		tail = encodeTail(t, tail)
		r := tail.NewReader(Selection{Streams: bothStreams})
		var got []string
		for {
			parts, err := r.ReadParts()
			if err == nil && len(parts) == 0 {
				parts, err = r.ReadRest()
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(parts) == 0 {
				break
			}
			for _, p := range parts {
				if p.Lost || p.Time.IsZero() != (p.Text == "not indexed\n") {
					t.Fatalf("the part %+v", p)
				}
				s := outputindex.Stdout
				if p.Stream == "stderr" {
					s = outputindex.Stderr
				}
				for line := range strings.Lines(p.Text) {
					got, wrote[s] = append(got, line), append(wrote[s], line)
				}
			}
		}
		if last := r.LastPart(); last.Lost || last.After != fmt.Sprintf("%d,%d", len(strings.Join(lines[0], "")), len(strings.Join(lines[1], ""))) {
			t.Fatalf("the last part %+v", last)
		}
		for s := range lines {
			if kept := lines[s][len(lines[s])-len(wrote[s]):]; strings.Join(kept, "") != strings.Join(wrote[s], "") {
				t.Fatalf("stream %d has %q of %q", s, wrote[s], lines[s])
			}
		}
		rest := order
		for _, line := range got {
			for len(rest) > 0 && rest[0] != line {
				rest = rest[1:]
			}
			if len(rest) == 0 {
				t.Fatalf("%q is out of order in %q", line, got)
			}
		}
		size := len(strings.Join(got, ""))
		if size > limit || size < min(limit, total)-2*longest-1 {
			t.Fatalf("the tail has %d bytes of %d, with the limit %d", size, total, limit)
		}
		if d := tail.Describe(bothStreams); d.Bytes != int64(size) || d.MissingBytes != int64(total-size) || limit >= total && size != total {
			t.Fatalf("described as %+v: %d of %d bytes, limit %d", d, size, total, limit)
		}
	})
}

// TestTailOfOutputWithoutOrder: without an index, the rest of one stream does not displace the other.
func TestTailOfOutputWithoutOrder(t *testing.T) {
	files := newTaskFiles()
	files.files = map[string]string{"stdout.1": "old\n", "stdout": strings.Repeat("out\n", 1000), "stderr": "Traceback\n"}
	tail, err := ReadTail(files.readFile, 100)
	if err != nil {
		t.Fatal(err)
	}
	tail = encodeTail(t, tail)
	r := tail.NewReader(Selection{Streams: bothStreams})
	parts, err := r.ReadParts()
	if got := joinParts(parts); err != nil || got != strings.Repeat("out\n", 22)+"Traceback\n" || !parts[0].Time.IsZero() || parts[0].Lost {
		t.Errorf("read %q, %v", got, err)
	}
	if d := tail.Describe([2]bool{true, false}); d.Bytes != 88 || d.MissingBytes != 4+4000-88 {
		t.Errorf("standard output is described as %+v", d)
	}
	if d := tail.Describe([2]bool{false, true}); d.Bytes != 10 || d.MissingBytes != 0 {
		t.Errorf("standard error is described as %+v", d)
	}
	if _, err := ReadTail((&taskFiles{}).readFile, 100); !errors.Is(err, request.ErrNoLog) {
		t.Errorf("without files: %v", err)
	}
}

// TestTailIsReadLikeOutput reads stored output by the options of requests.
func TestTailIsReadLikeOutput(t *testing.T) {
	files := newTaskFiles()
	for i := range 10 {
		files.write(outputindex.Stdout, fmt.Sprintf("line %d\n", i))
	}
	tail, err := ReadTail(files.readFile, 36) // five lines of 7 bytes
	if err != nil {
		t.Fatal(err)
	}
	tail = encodeTail(t, tail)
	for name, c := range map[string]struct {
		selection Selection
		want      string
		lost      bool
	}{
		"all":          {Selection{}, "line 5\nline 6\nline 7\nline 8\nline 9\n", false},
		"lines":        {Selection{TailLines: 2}, "line 8\nline 9\n", false},
		"more lines":   {Selection{TailLines: 9}, "line 5\nline 6\nline 7\nline 8\nline 9\n", false},
		"since":        {Selection{Since: time.Unix(1009, 0)}, "line 8\nline 9\n", false},
		"after":        {Selection{After: &outputindex.Positions{49, 0}}, "line 7\nline 8\nline 9\n", false},
		"after a gap":  {Selection{After: &outputindex.Positions{7, 0}}, "line 5\nline 6\nline 7\nline 8\nline 9\n", true},
		"an offset":    {Selection{Offset: 21}, "line 8\nline 9\n", false},
		"bytes at end": {Selection{TailBytes: 7}, "line 9\n", false},
	} {
		c.selection.Streams = [2]bool{true, false}
		r := tail.NewReader(c.selection)
		parts, err := r.ReadParts()
		if got := joinParts(parts); err != nil || got != c.want || parts[0].Lost != c.lost {
			t.Errorf("%s: read %q, %v, %v", name, got, parts[0].Lost, err)
		}
	}
}

// TestTailIsBounded checks the size of an encoded tail whose index the task has forged, and that damaged ones are refused.
func TestTailIsBounded(t *testing.T) {
	files := newTaskFiles()
	var index strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&index, "%d %d 0 0 0\n", i+1, i+1)
	}
	files.files[outputindex.FileName], files.files["stdout"] = index.String(), strings.Repeat("x", 100_000)
	tail, err := ReadTail(files.readFile, 50_000)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(outputindex.ParseEntries(tail.index)); n > maxTailEntries || n < maxTailEntries/4 {
		t.Errorf("the index has %d entries", n)
	}
	if d := tail.Describe(bothStreams); d.Bytes != 50_000 || d.MissingBytes != 50_000 {
		t.Errorf("described as %+v", d)
	}
	text, err := tail.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]byte{nil, []byte("{}"), text[:len(text)-1]} {
		if _, err := DecodeTail(damaged); err == nil {
			t.Errorf("%d damaged bytes are decoded", len(damaged))
		}
	}
}
