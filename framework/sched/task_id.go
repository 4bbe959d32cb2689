package sched

import (
	"strconv"

	"mesos-gpu/job"
)

// formatTaskID names one attempt: JOB.INDEX.ATTEMPT.WHEN, the last being the time
// of submission, so that a name can be used again.
func formatTaskID(j *job.Job, index, attempt int) string {
	return j.Spec.Name + "." + strconv.Itoa(index) + "." + strconv.Itoa(attempt) + "." +
		strconv.FormatInt(j.Submitted.UnixNano(), 36)
}
