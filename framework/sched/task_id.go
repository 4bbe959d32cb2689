package sched

import (
	"strconv"

	"mesos-gpu/job"
)

// formatTaskID returns the id of one attempt: JOB.INDEX.ATTEMPT.TIME. TIME is that of the submission, so that a job name
// can be used again.
func formatTaskID(j *job.Job, index, attempt int) string {
	return j.Spec.Name + "." + strconv.Itoa(index) + "." + strconv.Itoa(attempt) + "." +
		strconv.FormatInt(j.Submitted.UnixNano(), 36)
}
