package job

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A health failure is read as it was encoded, with a bounded cause. Other values are ignored.
func TestHealthFailureLabel(t *testing.T) {
	long := strings.Repeat("ü", maxHealthCause)
	for cause, want := range map[string]string{"": "", "GET /: 500\n\"no\"": "GET /: 500\n\"no\"", long: long[:maxHealthCause] + "…"} {
		got := ParseHealthFailure(HealthFailure{Check: 2, Failures: 3, Cause: cause}.Encode())
		if diff := cmp.Diff(&HealthFailure{Check: 2, Failures: 3, Cause: want}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for _, text := range []string{
		"", "3", "{}", `{"check": 0, "failures": 1}`, `{"check": 1, "failures": -1}`, `{"check": "1"}`,
		`{"check": 1, "failures": 1, "cause": "` + long + `"}`,
	} {
		if got := ParseHealthFailure(text); got != nil {
			t.Errorf("%.40s: got %+v", text, got)
		}
	}
}
