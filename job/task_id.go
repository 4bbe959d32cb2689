package job

import (
	"strconv"
	"strings"
)

// FormatTaskID returns the id of one attempt: JOB.INDEX.ATTEMPT.TIME. TIME is the time of the submission, so that a
// job name can be used again.
func FormatTaskID(j *Job, index, attempt int) string {
	return j.Spec.Name + "." + strconv.Itoa(index) + "." + strconv.Itoa(attempt) + "." +
		strconv.FormatInt(j.Submitted.UnixNano(), 36)
}

// ParseTaskID returns the parts of an id that has the form of FormatTaskID. There may be no such task.
func ParseTaskID(id string) (name string, index, attempt int, ok bool) {
	parts := strings.Split(id, ".")
	n := len(parts) - 3
	if n < 1 || parts[0] == "" {
		return "", 0, 0, false
	}
	var numbers [3]int64
	for i, base := range []int{10, 10, 36} {
		var err error
		if numbers[i], err = strconv.ParseInt(parts[n+i], base, 64); err != nil {
			return "", 0, 0, false
		}
	}
	return strings.Join(parts[:n], "."), int(numbers[0]), int(numbers[1]), true
}
