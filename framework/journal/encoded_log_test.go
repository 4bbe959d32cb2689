package journal

import (
	"testing"

	"pgregory.net/rapid"

	"mesos-gpu/job"
)

// TestLogReaderFollowsGrowingLog: the contents are those of DecodeLog after each change.
func TestLogReaderFollowsGrowingLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var reader LogReader
		var texts [][]byte
		model := &mapModel{jobs: map[job.RunID]*job.Job{}, documents: map[string][]byte{}}
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			c := model.change(t)
			model.apply(c)
			text, err := EncodeChange(c)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
			got, err := reader.Decode(texts)
			if err != nil {
				t.Fatal(err)
			}
			want, err := DecodeLog(texts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := diffContents(want, got); diff != "" {
				t.Fatalf("after %d changes: %s", len(texts), diff)
			}
		}
	})
}
