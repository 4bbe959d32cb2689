package jobs

import (
	"bytes"
	"strings"
	"testing"
)

// Lines of several tasks are never mixed, however writes are split.
func TestLabelledLinesAreWhole(t *testing.T) {
	var out bytes.Buffer
	names := lineLabels{tasks: 11}
	a, b := names.labelWriter(3, &out), names.labelWriter(10, &out)
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
	if want := "10 | x\n 3 | begin\n 3 | second\n10 | yz\n10 | " + strings.Repeat("-", maxBufferedLine) + "\n 3 | third\n"; out.String() != want {
		t.Errorf("got %q", out.String()[:min(200, out.Len())])
	}
	var plain bytes.Buffer
	if _, err := (lineLabels{tasks: 1}).labelWriter(0, &plain).Write([]byte("as it \r is")); err != nil || plain.String() != "as it \r is" {
		t.Errorf("a single task's output became %q, %v", &plain, err)
	}
}
