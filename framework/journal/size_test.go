package journal

import (
	"strings"
	"testing"

	"mesos-gpu/job"
)

// TestSizeGrowsWithCommits: the size grows with each commit and is the same after the
// journal is reopened.
func TestSizeGrowsWithCommits(t *testing.T) {
	forEachJournal(t, func(t *testing.T, at journalStore) {
		j := at.open(t)
		size := func() int64 { return j.(interface{ Size() int64 }).Size() }
		before := size()
		large := job.Job{Spec: &job.Spec{Name: "train", Tasks: 1, Command: []string{strings.Repeat("x", 200_000)}}}
		for i := range large.Spec.Command[0][:1000] { // does not compress well
			large.Spec.Command = append(large.Spec.Command, strings.Repeat(string(rune('a'+i%26)), i))
		}
		if err := j.Commit(testTimeout(t), Change{Jobs: []*job.Job{&large}, Tasks: []job.Task{{ID: "train.0", Job: "train", State: job.Waiting}}}); err != nil {
			t.Fatal(err)
		}
		after := size()
		if after <= before {
			t.Errorf("%d bytes, and %d after a large change", before, after)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = at.open(t)
		if again := size(); again < after/2 {
			t.Errorf("%d bytes when opened again, %d before", again, after)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
