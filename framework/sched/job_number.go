package sched

import (
	"strconv"

	"mesos-gpu/job"
)

// lastNumberKey is the key of the document with the highest number of a job, which is written when that job is forgotten.
const lastNumberKey = reservedPrefix + "last-number"

// keepLastNumber records the number of a forgotten job if it is the highest one, so that no later job gets it.
func (s *State) keepLastNumber(forgotten *job.Job) {
	if forgotten.Number == s.lastNumber {
		s.writeDocument(lastNumberKey, strconv.AppendInt(nil, int64(s.lastNumber), 10))
	}
}

// numberJobs restores the highest number, and numbers recovered jobs of releases without numbers in their order. They are
// recorded with the next changes.
func (s *State) numberJobs(jobs []*job.Job) {
	if n, err := strconv.Atoi(string(s.Document(lastNumberKey))); err == nil {
		s.lastNumber = max(s.lastNumber, n)
	}
	for _, j := range jobs {
		if j.Number == 0 {
			s.lastNumber++
			j.Number = s.lastNumber
			s.jobs.IndexNumber(j)
			s.changes.markJob(j)
		}
	}
}
