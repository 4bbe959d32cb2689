package jobfile

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "-5s": -5 * time.Second, "1.5h": 90 * time.Minute,
		"1d": day, "7d": 7 * day, "1d12h": day + 12*time.Hour, "0.7d": day * 7 / 10, "-2d": -2 * day, ".5d": day / 2,
		"01:00:00": time.Hour, "00:00:05": 5 * time.Second, "100:30:00": 100*time.Hour + 30*time.Minute,
		"1-00:00:00": day, "2-12": 2*day + 12*time.Hour, "0-1:30": 90 * time.Minute,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
		if !regexp.MustCompile(durationPattern).MatchString(text) {
			t.Errorf("%s does not match the pattern of the schema", text)
		}
	}
}

// TestDurationSuggestions checks the advice about what is not a duration, and that it can be followed.
func TestDurationSuggestions(t *testing.T) {
	const forms = "is not a duration such as 30s, 2h, 7d or 01:30:00"
	for text, want := range map[string]string{
		"3600": "write 3600s for seconds, or 3600m for minutes", "30:00": "write 30m00s or 30h00m",
		"5min": "write 5m", "2 hours": "write 2h", "1 day": "write 1d", "10 sec": "write 10s", "2w": "write 14d", "1.5 h": "write 1.5h",
		"soon": forms, "": forms, "d": forms, "1d:00": forms, "01:60:00": forms, "1-": forms, "0w": forms, "5 apples": forms,
		"200000d": "is more than 106751 days", "99999999-00:00:00": "is more than 106751 days", "9999999h": "is more than 106751 days",
	} {
		_, err := ParseDuration(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want …%s…", text, err, want)
		}
		if instead, ok := strings.CutPrefix(want, "write "); ok {
			for word := range strings.FieldsSeq(instead) {
				if _, err := ParseDuration(strings.Trim(word, ",")); word[0] >= '0' && word[0] <= '9' && err != nil {
					t.Errorf("%q: the advice is wrong: %v", text, err)
				}
			}
		}
		if text != "" && want == forms && regexp.MustCompile(durationPattern).MatchString(text) {
			t.Errorf("%s matches the pattern of the schema", text)
		}
	}
}

func TestDurationsInSettings(t *testing.T) {
	var file struct{ After Duration }
	if err := yaml.Unmarshal([]byte("after: 1-12:00:00"), &file); err != nil || time.Duration(file.After) != 36*time.Hour {
		t.Errorf("got %v, %v", time.Duration(file.After), err)
	}
	if err := yaml.Unmarshal([]byte("\nafter: 60"), &file); err == nil || !strings.Contains(fmt.Sprint(err), `line 2: "60" is not a duration: write 60s`) {
		t.Errorf("got %v", err)
	}
}
