package jobfile

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// clockTime matches durations in the forms of Slurm and clocks: HH:MM:SS, DAYS-HH, DAYS-HH:MM and DAYS-HH:MM:SS.
var clockTime = regexp.MustCompile(`^(?:([0-9]+):([0-5][0-9]):([0-5][0-9])|([0-9]+)-([0-9]{1,2})(?::([0-5]?[0-9]))?(?::([0-5]?[0-9]))?)$`)

var (
	// days matches one number of days within a duration.
	days   = regexp.MustCompile(`([0-9]+\.?[0-9]*|\.[0-9]+)d`)
	digits = regexp.MustCompile(`[0-9]+`)
)

// ParseDuration parses a duration of a job file or a flag: "90s", "1h30m", "7d", "1d12h", "01:30:00" and "1-12:00:00".
// A day has 24 hours. The result may be 0 or negative.
func ParseDuration(text string) (time.Duration, error) {
	units := text
	if m := clockTime.FindStringSubmatch(text); m != nil {
		units = fmt.Sprintf("%sd%sh%sm%ss", zeroIfEmpty(m[4]), zeroIfEmpty(m[1]+m[5]), zeroIfEmpty(m[2]+m[6]), zeroIfEmpty(m[3]+m[7]))
	}
	hours := days.ReplaceAllStringFunc(units, func(part string) string {
		n, _ := strconv.ParseFloat(strings.TrimSuffix(part, "d"), 64)
		return strconv.FormatFloat(24*n, 'f', 9, 64) + "h"
	})
	if d, err := time.ParseDuration(hours); err == nil {
		return d, nil
	}
	// The form is right if it is so with small numbers.
	if _, err := time.ParseDuration(digits.ReplaceAllString(hours, "1")); err == nil {
		return 0, fmt.Errorf("%q is more than %d days, the longest duration", text, int(time.Duration(math.MaxInt64).Hours()/24))
	}
	if instead := suggestDuration(text); instead != "" {
		return 0, fmt.Errorf("%q is not a duration: write %s", text, instead)
	}
	return 0, fmt.Errorf("%q is not a duration such as 30s, 2h, 7d or 01:30:00", text)
}

func zeroIfEmpty(number string) string {
	if number == "" {
		return "0"
	}
	return number
}

var (
	minutesAndSeconds = regexp.MustCompile(`^([0-9]{1,3}):([0-9]{2})$`)
	numberAndWord     = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) *([a-z]*)$`)
)

// suggestDuration returns what was probably meant by a text that is not a duration, or "".
func suggestDuration(text string) string {
	if m := minutesAndSeconds.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("%sm%ss or %[1]sh%[2]sm", m[1], m[2])
	}
	m := numberAndWord.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil || strings.Trim(m[1], "0.") == "" {
		return ""
	}
	switch m[2] {
	case "":
		return fmt.Sprintf("%ss for seconds, or %[1]sm for minutes", m[1])
	case "s", "sec", "secs", "second", "seconds":
		return m[1] + "s"
	case "m", "min", "mins", "minute", "minutes":
		return m[1] + "m"
	case "h", "hr", "hrs", "hour", "hours":
		return m[1] + "h"
	case "d", "day", "days":
		return m[1] + "d"
	case "w", "wk", "week", "weeks":
		if weeks, err := strconv.Atoi(m[1]); err == nil && weeks < 1000 {
			return fmt.Sprintf("%dd", 7*weeks)
		}
	}
	return ""
}

// Duration is a duration in a file of settings, in the forms of ParseDuration.
type Duration time.Duration

// UnmarshalYAML reads a duration as job files have it.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	if err := readDuration(n, (*time.Duration)(d)); err != nil {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %v", n.Line, err)}}
	}
	return nil
}
