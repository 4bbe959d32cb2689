package taskoutput

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/outputindex"
)

// taskFiles are a task's output files and their index, as an executor writes them.
type taskFiles struct {
	files map[string]string
	at    outputindex.Entry
}

func newTaskFiles() *taskFiles {
	return &taskFiles{files: map[string]string{outputindex.FileName: "", "stdout": "", "stderr": ""}, at: outputindex.Entry{Time: time.Unix(1000, 0)}}
}

func (f *taskFiles) readFile(file string, offset, length uint64) ([]byte, uint64, error) {
	text, ok := f.files[file]
	if !ok {
		return nil, 0, request.ErrNoLog
	}
	size := uint64(len(text))
	from := min(offset, size)
	return []byte(text[from:min(size, from+length)]), size, nil
}

func (f *taskFiles) index() {
	f.files[outputindex.FileName] += string(f.at.AppendLine(nil))
}

// write writes to a stream, a second after the last write.
func (f *taskFiles) write(s outputindex.Stream, text string) {
	f.files[s.String()] += text
	f.at.Ends[s] += int64(len(text))
	f.at.Time = f.at.Time.Add(time.Second)
	f.index()
}

// rotate starts a new file of a stream and keeps one older file.
func (f *taskFiles) rotate(s outputindex.Stream) {
	f.files[s.String()+".1"], f.files[s.String()] = f.files[s.String()], ""
	f.at.Starts[s] = f.at.Ends[s]
	f.index()
}

func (f *taskFiles) open() *Reader {
	return &Reader{readFile: f.readFile, selection: Selection{Streams: [2]bool{true, true}}}
}

func readAllParts(t interface {
	Helper()
	Fatal(...any)
}, o *Reader) (parts []api.OutputPart) {
	t.Helper()
	for {
		more, err := o.readParts()
		if err != nil {
			t.Fatal(err)
		}
		if len(more) == 0 {
			return parts
		}
		parts = append(parts, more...)
	}
}

func joinParts(parts []api.OutputPart) (text string) {
	for i := range parts {
		text += string(parts[i].Output())
	}
	return text
}

// What is read while the task writes, its files rotate and the index is thinned out is what
// was written, in order, and a reader that continues misses and repeats nothing.
func TestOutputIsReadInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files, want, got := newTaskFiles(), "", ""
		o := files.open()
		read := func() {
			for _, p := range readAllParts(t, o) {
				if p.Lost {
					t.Fatal("output is reported as lost")
				}
				got += string(p.Output())
			}
		}
		for i := range rapid.IntRange(1, 30).Draw(t, "writes") {
			s := outputindex.Stream(rapid.IntRange(0, 1).Draw(t, "stream"))
			text := fmt.Sprintf("%s %d\n", s, i)
			files.write(s, text)
			want += text
			switch rapid.IntRange(0, 6).Draw(t, "then") {
			case 0:
				read() // so that no rotated file is lost
				files.rotate(s)
			case 1:
				read()
			case 2:
				read()
				var thin []byte
				for _, e := range outputindex.ThinOut(outputindex.ParseEntries([]byte(files.files[outputindex.FileName]))) {
					thin = e.AppendLine(thin)
				}
				files.files[outputindex.FileName] = string(thin)
			case 3:
				read()
				at := o.next
				o = files.open()
				if err := o.refreshIndex(); err != nil {
					t.Fatal(err)
				}
				o.skipTo(at)
			}
		}
		read()
		if got != want {
			t.Fatalf("read\n%swant\n%s", got, want)
		}
	})
}

// A late reader gets what is left, with a mark that output before it was lost.
func TestRotatedOutputIsReported(t *testing.T) {
	files := newTaskFiles()
	files.write(outputindex.Stdout, "one\n")
	files.rotate(outputindex.Stdout)
	files.write(outputindex.Stdout, "two\n")
	files.write(outputindex.Stderr, "error\n")
	files.rotate(outputindex.Stdout)
	files.write(outputindex.Stdout, "three\n")
	parts := readAllParts(t, files.open())
	if got := joinParts(parts); got != "two\nerror\nthree\n" || !parts[0].Lost || parts[1].Lost {
		t.Errorf("read %q, %+v", got, parts)
	}
}

// An older file is removed or replaced after its size was requested. The rest of the output is returned, with a mark.
func TestOlderOutputFileChangesWhileItIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*taskFiles)
		want   string
	}{
		"removed": {func(f *taskFiles) { delete(f.files, "stdout.1") }, "two\n"},
		"rotated": {func(f *taskFiles) {
			f.rotate(outputindex.Stdout)
			f.write(outputindex.Stdout, "three\n")
		}, "two\nthree\n"},
	} {
		files := newTaskFiles()
		files.write(outputindex.Stdout, "one one one\n")
		files.rotate(outputindex.Stdout)
		files.write(outputindex.Stdout, "two\n")
		o, changed := files.open(), false
		o.readFile = func(file string, offset, length uint64) ([]byte, uint64, error) {
			if file == "stdout.1" && length > 1 && !changed {
				changed = true
				test.change(files)
			}
			if offset > 1000 {
				t.Errorf("%s: %s is read at %d", name, file, offset)
			}
			return files.readFile(file, offset, length)
		}
		if parts := readAllParts(t, o); joinParts(parts) != test.want || !parts[0].Lost || !changed {
			t.Errorf("%s: read %+v", name, parts)
		}
	}
}

// A file is shorter than the index says: what follows the missing end is marked.
func TestMissingEndOfOutputIsReported(t *testing.T) {
	files := newTaskFiles()
	files.write(outputindex.Stdout, "one\n")
	files.write(outputindex.Stderr, "error\n")
	files.files["stdout"] = "o"
	o := files.open()
	if parts := readAllParts(t, o); joinParts(parts) != "oerror\n" || parts[0].Lost || !parts[1].Lost || o.lost {
		t.Errorf("read %+v", parts)
	}
	files.write(outputindex.Stdout, "two\n")
	files.files["stdout"] = files.files["stdout"][:4]
	if parts := readAllParts(t, o); len(parts) > 0 || !o.lost {
		t.Errorf("read %+v, lost is %v", parts, o.lost)
	}
}

func TestOutputSinceATime(t *testing.T) {
	files := newTaskFiles()
	files.write(outputindex.Stdout, "one\n")
	files.write(outputindex.Stderr, "half a ")
	files.write(outputindex.Stderr, "line\n")
	files.write(outputindex.Stdout, "two\n")
	for _, tt := range []struct {
		since time.Duration
		want  string
	}{{1, "one\nhalf a line\ntwo\n"}, {2, "half a line\ntwo\n"}, {3, "half a line\ntwo\n"}, {4, "two\n"}, {5, ""}} {
		o := files.open()
		if err := o.refreshIndex(); err != nil {
			t.Fatal(err)
		}
		if err := o.skipBefore(time.Unix(1000, 0).Add(tt.since * time.Second)); err != nil {
			t.Fatal(err)
		}
		if got := joinParts(readAllParts(t, o)); got != tt.want {
			t.Errorf("since %d: %q, want %q", tt.since, got, tt.want)
		}
	}
}

// The last lines are those of both streams together, and the reader continues after them.
func TestLastLinesOfOutput(t *testing.T) {
	files := newTaskFiles()
	var lines []string
	for i := range 20_000 {
		line := fmt.Sprintf("line %d\n", i)
		lines = append(lines, line)
		files.at.Time = files.at.Time.Add(time.Second)
		s := outputindex.Stream(i / 3 % 2)
		files.files[s.String()] += line
		files.at.Ends[s] += int64(len(line))
		if i%3 == 2 {
			files.index()
		}
	}
	files.index()
	for _, count := range []int{1, 2, 3, 10, 9000, 20_000, 30_000} {
		o := files.open()
		if err := o.refreshIndex(); err != nil {
			t.Fatal(err)
		}
		parts, err := o.lastLines(count)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Join(lines[max(0, len(lines)-count):], "")
		if got := joinParts(parts); got != want {
			t.Errorf("the last %d lines have %d bytes, want %d: %.80q", count, len(got), len(want), got)
		}
		if more := readAllParts(t, o); len(more) > 0 {
			t.Errorf("after the last %d lines comes %v", count, more)
		}
	}
	files.write(outputindex.Stdout, "no end")
	o := files.open()
	_ = o.refreshIndex()
	if parts, _ := o.lastLines(2); joinParts(parts) != lines[len(lines)-1]+"no end" {
		t.Errorf("%q", joinParts(parts))
	}
}

func TestOneStreamOfOutput(t *testing.T) {
	files := newTaskFiles()
	for range 100 {
		files.write(outputindex.Stdout, strings.Repeat("x", 20_000)+"\n")
	}
	files.write(outputindex.Stderr, "error\n")
	o := files.open()
	o.selection.Streams[outputindex.Stdout] = false
	if got := joinParts(readAllParts(t, o)); got != "error\n" {
		t.Errorf("%.80q", got)
	}
}

// What a killed executor did not index follows without a time, and a forged index does no harm.
func TestIncompleteIndexOfOutput(t *testing.T) {
	files := newTaskFiles()
	files.write(outputindex.Stdout, "one\n")
	files.files["stdout"] += "two\n"
	o := files.open()
	parts := readAllParts(t, o)
	rest, err := o.ReadRest()
	if err != nil {
		t.Fatal(err)
	}
	if got := joinParts(append(parts, rest...)); got != "one\ntwo\n" || !rest[0].Time.IsZero() {
		t.Errorf("%q %v", got, rest)
	}
	files.files[outputindex.FileName] = "1 999999 0 0 0\n2 4 0 0 0\n9 9999999 99999999 8888888 8888888\n"
	if got := joinParts(readAllParts(t, files.open())); len(got) > 8 {
		t.Errorf("%q", got)
	}
	files.files[outputindex.FileName] = strings.Repeat("x\n", maxIndexBytes)
	if err := files.open().refreshIndex(); err == nil {
		t.Error("an index of any length is read")
	}
}

// TestOutputWithoutIndex checks that the output of a task without an index is read completely while its files are
// rotated between the reads. Only output that existed before has no time.
func TestOutputWithoutIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := newTaskFiles()
		delete(files.files, outputindex.FileName)
		var wrote, read [2]string
		o := files.open()
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			s := outputindex.Streams()[rapid.IntRange(0, 1).Draw(t, "stream")]
			if rapid.IntRange(0, 3).Draw(t, "rotate") == 0 {
				files.files[s.String()+".1"], files.files[s.String()] = files.files[s.String()], ""
			}
			text := strings.Repeat("x", 1<<step-1) + "\n" // no two files have the same size
			files.files[s.String()] += text
			wrote[s] += text
			for _, p := range readAllParts(t, o) {
				if p.Time.IsZero() != (step == 0) || p.Lost {
					t.Fatalf("%+v", p)
				}
				read[map[string]outputindex.Stream{"stdout": outputindex.Stdout, "stderr": outputindex.Stderr}[p.Stream]] += p.Text
			}
			if read != wrote {
				t.Fatalf("got %q, want %q", read, wrote)
			}
		}
	})
	files := newTaskFiles()
	files.files = map[string]string{"stdout.2": "one\n", "stdout.1": "two\n", "stdout": "three\n"}
	if parts := readAllParts(t, files.open()); joinParts(parts) != "one\ntwo\nthree\n" || parts[0].Lost {
		t.Errorf("%+v", parts)
	}
	o := files.open()
	if err := o.refreshIndex(); err != nil {
		t.Fatal(err)
	}
	if parts, err := o.lastLines(2); err != nil || joinParts(parts) != "two\nthree\n" {
		t.Errorf("%+v, %v", parts, err)
	}
	files.files = nil
	if _, err := files.open().readParts(); !errors.Is(err, request.ErrNoLog) {
		t.Error(err)
	}
}
