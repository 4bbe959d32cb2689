package sched

import (
	"iter"
	"slices"
	"sort"

	"mesos-gpu/job"
)

// submissionList is a list of jobs in the order of submission. It is divided into chunks, so that adding or removing a
// job among hundreds of thousands moves only the some hundred of its chunk. A zero submissionList is empty.
type submissionList struct {
	// chunks have 1 to maxSubmissionChunk jobs each; together, one after another, they are the list.
	chunks [][]*job.Job
	// count is the number of jobs.
	count int
}

const maxSubmissionChunk = 512

// add adds a job that is not in the list.
func (l *submissionList) add(j *job.Job) {
	l.count++
	at := l.chunkOf(j)
	if at < 0 {
		l.chunks = append(l.chunks, []*job.Job{j})
		return
	}
	chunk := l.chunks[at]
	i, _ := slices.BinarySearchFunc(chunk, j, compareSubmission)
	if len(chunk) == maxSubmissionChunk {
		divide := len(chunk) / 2
		if i == len(chunk) {
			divide = i // a new job begins a new chunk
		}
		rest := slices.Clone(chunk[divide:])
		clear(chunk[divide:])
		l.chunks[at] = chunk[:divide]
		l.chunks = slices.Insert(l.chunks, at+1, rest)
		if i >= divide {
			at, i = at+1, i-divide
		}
	}
	l.chunks[at] = slices.Insert(l.chunks[at], i, j)
}

// remove removes a job, and reports whether it was in the list.
func (l *submissionList) remove(j *job.Job) bool {
	at := l.chunkOf(j)
	if at < 0 {
		return false
	}
	i, found := slices.BinarySearchFunc(l.chunks[at], j, compareSubmission)
	if !found {
		return false
	}
	l.count--
	l.chunks[at] = slices.Delete(l.chunks[at], i, i+1)
	if next := at + 1; next < len(l.chunks) && len(l.chunks[at])+len(l.chunks[next]) <= maxSubmissionChunk/2 {
		l.chunks[at] = append(l.chunks[at], l.chunks[next]...)
		l.chunks = slices.Delete(l.chunks, next, next+1)
	}
	if len(l.chunks[at]) == 0 {
		l.chunks = slices.Delete(l.chunks, at, at+1)
	}
	return true
}

// chunkOf returns the index of the chunk to which a job belongs, -1 if the list is empty.
func (l *submissionList) chunkOf(j *job.Job) int {
	later := sort.Search(len(l.chunks), func(i int) bool { return compareSubmission(l.chunks[i][0], j) > 0 })
	return min(max(later-1, 0), len(l.chunks)-1)
}

// all yields the jobs, the oldest first. The list must not change meanwhile.
func (l *submissionList) all() iter.Seq[*job.Job] {
	return func(yield func(*job.Job) bool) {
		for _, chunk := range l.chunks {
			for _, j := range chunk {
				if !yield(j) {
					return
				}
			}
		}
	}
}

// newest yields the jobs, the newest first. The list must not change meanwhile.
func (l *submissionList) newest() iter.Seq[*job.Job] {
	return func(yield func(*job.Job) bool) {
		for _, chunk := range slices.Backward(l.chunks) {
			for _, j := range slices.Backward(chunk) {
				if !yield(j) {
					return
				}
			}
		}
	}
}
