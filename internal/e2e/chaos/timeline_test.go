package chaos

import (
	"bytes"
	"strings"
	"testing"
)

// TestTimelineShowsFaultsHoldersAndViolations draws a small history. Text of the history is not
// markup, and the page loads nothing.
func TestTimelineShowsFaultsHoldersAndViolations(t *testing.T) {
	events := parseHistory(t, `
		1 begin a task=0.1 on=h1/G1
		2 fault 1
		3 begin <b> task=0.1 on=h1/G1
		4 heal 1
		5 end a task=0.1`)
	var page bytes.Buffer
	if err := WriteTimeline(&page, "seed 7", events, Check(events, limits)); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{
		"<title>seed 7</title>", "<li>device at 3.00", "fault 1: , 2.00 to 4.00",
		"a.0.1.x on h1, G1: 1.00 to 5.00, ended", "&lt;b&gt;.0.1.x on h1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	for _, not := range []string{"<script", "http:", "<b>"} {
		if strings.Contains(text, not) {
			t.Errorf("contains %q", not)
		}
	}
}
