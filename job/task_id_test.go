package job

import (
	"testing"
	"time"
)

func TestParseTaskIDReturnsWhatFormatTaskIDWasGiven(t *testing.T) {
	for _, name := range []string{"train", "prod.api", "a.1.2"} {
		j := &Job{Spec: &Spec{Name: name}, Submitted: time.Unix(1_800_000_000, 7)}
		id := FormatTaskID(j, 3, 12)
		if parsed, index, attempt, ok := ParseTaskID(id); parsed != name || index != 3 || attempt != 12 || !ok {
			t.Errorf("%s: %q %d %d %v", id, parsed, index, attempt, ok)
		}
		if submitted, ok := ParseSubmission(id); !submitted.Equal(j.Submitted) || !ok {
			t.Errorf("%s: submitted at %s, %v", id, submitted, ok)
		}
	}
	for _, id := range []string{"", "train", "train.0.1", ".0.1.zz", "train.x.1.zz", "train.0.1.!"} {
		if _, _, _, ok := ParseTaskID(id); ok {
			t.Errorf("%q is taken for an id", id)
		}
		if _, ok := ParseSubmission(id); ok {
			t.Errorf("%q has a time of submission", id)
		}
	}
}
