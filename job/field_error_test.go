package job

import (
	"errors"
	"testing"
)

func TestFieldPathString(t *testing.T) {
	for want, path := range map[string]FieldPath{
		"gpus":                      {"gpus"},
		"health_check[1].http.port": {"health_check", 1, "http", "port"},
		`env["A=B"]`:                {"env", "A=B"},
	} {
		if got := path.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestValidateReturnsFieldErrors checks the paths of several mistakes, and of the fields
// that one depends on.
func TestValidateReturnsFieldErrors(t *testing.T) {
	s := valid()
	s.Tasks, s.Image = -1, "debian"
	s.Containerizer = Docker
	s.Ulimits = []Ulimit{{Name: "speed"}}
	s.ShmMiB = s.MemMiB + 1
	s.Schedule = &Schedule{Cron: "@daily", TimeZone: "Mars", Overlap: SkipOverlap, History: 1}
	var got []string
	for _, err := range s.Validate().(interface{ Unwrap() []error }).Unwrap() {
		wrong, ok := errors.AsType[*FieldError](err)
		if !ok {
			t.Fatalf("%v is a %T", err, err)
		}
		text := ""
		for _, path := range wrong.Paths() {
			text += path.String() + " "
		}
		got = append(got, text)
	}
	want := []string{"tasks ", "shm_size mem ", "ulimits.speed ", "schedule.time_zone "}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}
