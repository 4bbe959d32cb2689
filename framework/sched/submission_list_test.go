package sched

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/job"
)

// A list with any additions and removals has the same jobs as a sorted slice, and its chunks keep their bounds.
func TestSubmissionListIsSortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list submissionList
		var want []*job.Job
		for range rapid.IntRange(1, 30).Draw(t, "bursts") {
			burst := rapid.IntRange(1, maxSubmissionChunk).Draw(t, "burst")
			from, removes := rapid.IntRange(0, 5000).Draw(t, "from"), rapid.Bool().Draw(t, "removes")
			for n := range burst {
				j := &job.Job{Spec: &job.Spec{Name: "j"}, Submitted: time.Unix(int64(from+n), 0)}
				at, found := slices.BinarySearchFunc(want, j, compareSubmission)
				switch {
				case removes:
					if got := list.remove(j); got != found {
						t.Fatalf("removed %t a job of second %d, want %t", got, from+n, found)
					}
					if found {
						want = slices.Delete(want, at, at+1)
					}
				case !found:
					list.add(j)
					want = slices.Insert(want, at, j)
				}
			}
		}
		if got := slices.Collect(list.all()); !slices.Equal(got, want) || list.count != len(want) {
			t.Fatalf("%d jobs and a count of %d, want %d", len(got), list.count, len(want))
		}
		slices.Reverse(want)
		if got := slices.Collect(list.newest()); !slices.Equal(got, want) {
			t.Fatalf("%d jobs from the newest on, want %d", len(got), len(want))
		}
		for i, chunk := range list.chunks {
			if len(chunk) == 0 || len(chunk) > maxSubmissionChunk {
				t.Fatalf("chunk %d of %d has %d jobs", i, len(list.chunks), len(chunk))
			}
		}
	})
}
