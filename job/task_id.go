package job

import (
	"strconv"
	"strings"
	"time"
)

// FormatTaskID returns the id of one attempt: JOB.INDEX.ATTEMPT.TIME. TIME is the time of the submission, so that a
// job name can be used again.
func FormatTaskID(j *Job, index, attempt int) string {
	return j.Spec.Name + "." + strconv.Itoa(index) + "." + strconv.Itoa(attempt) + "." +
		strconv.FormatInt(j.Submitted.UnixNano(), 36)
}

// ParseTaskID returns the parts of an id that has the form of FormatTaskID. There may be no such task.
func ParseTaskID(id string) (name string, index, attempt int, ok bool) {
	name, numbers, ok := parseTaskID(id)
	return name, int(numbers[0]), int(numbers[1]), ok
}

// ParseSubmission returns when the job of a task was submitted, by an id that has the form of FormatTaskID.
func ParseSubmission(id string) (submitted time.Time, ok bool) {
	_, numbers, ok := parseTaskID(id)
	return time.Unix(0, numbers[2]), ok
}

// parseTaskID returns a job's name, and INDEX, ATTEMPT and TIME.
func parseTaskID(id string) (name string, numbers [3]int64, ok bool) {
	parts := strings.Split(id, ".")
	n := len(parts) - len(numbers)
	if n < 1 || parts[0] == "" {
		return "", [3]int64{}, false
	}
	for i, base := range []int{10, 10, 36} {
		var err error
		if numbers[i], err = strconv.ParseInt(parts[n+i], base, 64); err != nil {
			return "", [3]int64{}, false
		}
	}
	return strings.Join(parts[:n], "."), numbers, true
}
