package jobs

import (
	"bytes"
	"strings"
	"testing"

	"mesos-gpu/internal/term"
)

// Lines of several tasks are never mixed, however writes are split.
func TestLabelledLinesAreWhole(t *testing.T) {
	var out bytes.Buffer
	names := lineLabels{job: "sweep", tasks: 11}
	a, b := names.labelWriter("sweep.3.1.x", &out, term.TerminalScreen{}), names.labelWriter("sweep.10.1.x", &out, term.TerminalScreen{UseColor: true})
	for _, one := range []struct {
		to   *labelledWriter
		text string
	}{{a, "be"}, {b, "x\ny"}, {a, "gin\nsecond\nth"}, {b, "z\n"}, {a, "ird"}, {b, strings.Repeat("-", maxBufferedLine)}} {
		if n, err := one.to.Write([]byte(one.text)); err != nil || n != len(one.text) {
			t.Errorf("wrote %d of %d, %v", n, len(one.text), err)
		}
	}
	for _, w := range []*labelledWriter{a, b} {
		if err := w.flushLine(); err != nil {
			t.Error(err)
		}
	}
	if want := strings.NewReplacer("A", "sweep.3  | ", "B", "\x1b[32msweep.10 | \x1b[0m").Replace("Bx\nAbegin\nAsecond\nByz\nB" +
		strings.Repeat("-", maxBufferedLine) + "\nAthird\n"); out.String() != want {
		t.Errorf("got %q", out.String()[:min(200, out.Len())])
	}
	var plain bytes.Buffer
	if _, err := (lineLabels{tasks: 1}).labelWriter("a.0.1.x", &plain, term.TerminalScreen{UseColor: true}).Write([]byte("as it \r is")); err != nil ||
		plain.String() != "as it \r is" {
		t.Errorf("a single task's output became %q, %v", &plain, err)
	}
}

func TestTaskIndex(t *testing.T) {
	for id, want := range map[string][2]int{"train.3.1.x": {3, 1}, "v1.2.0.4.y": {0, 4}, "v1.2.12.4.y": {12, 4}, "foreign": {}, "a.b": {}} {
		if index, attempt := taskIndex(id); [2]int{index, attempt} != want {
			t.Errorf("%s: got %d and %d, want %d", id, index, attempt, want)
		}
	}
}
