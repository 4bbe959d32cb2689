package journal

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"mesos-gpu/job"
)

// contentsImage is the result of all changes so far, in encoded form, as a snapshot
// stores it. Values are shared with the records that they come from and are never modified, so that a copy of the maps
// is a copy of the image.
type contentsImage struct {
	// frameworkID is the last one recorded, "" before the first.
	frameworkID string
	// jobs are the recorded runs of jobs by formatRunKey, documents the documents by key. A change replaces single
	// entries.
	jobs      map[string]jobImage
	documents map[string][]byte
}

// jobImage is a run of a job and its tasks, each in encoded form.
type jobImage struct {
	// job is the encoded storedJob.
	job []byte
	// tasks are the encoded tasks by index, up to the last one recorded; nil for a task without a record. Elements are
	// replaced in place.
	tasks [][]byte
}

func newImage() *contentsImage {
	return &contentsImage{jobs: map[string]jobImage{}, documents: map[string][]byte{}}
}

// applyRecords applies the records. It fails if they contradict the image, because
// earlier records are then missing. The image is then incomplete and must not be used.
func (m *contentsImage) applyRecords(all []journalRecord) error {
	for _, r := range all {
		switch r.kind {
		case frameworkRecord:
			m.frameworkID = string(r.value)
		case removedRecord:
			delete(m.jobs, r.key)
		case jobRecord:
			m.jobs[r.key] = jobImage{job: r.value, tasks: m.jobs[r.key].tasks}
		case taskRecord:
			name, index, ok := parseTaskKey(r.key)
			j, known := m.jobs[name]
			if !ok || !known || index >= maxTasks {
				return fmt.Errorf("task %q of no job", r.key)
			}
			if index >= len(j.tasks) {
				j.tasks = append(j.tasks, make([][]byte, index+1-len(j.tasks))...)
				m.jobs[name] = j
			}
			j.tasks[index] = r.value
		case documentRecord:
			if len(r.value) == 0 {
				delete(m.documents, r.key)
			} else {
				m.documents[r.key] = r.value
			}
		default:
			return fmt.Errorf("record of unknown kind %q", r.kind)
		}
	}
	return nil
}

// allRecords returns the records that recreate the image, sorted by key. They share its values.
func (m *contentsImage) allRecords() []journalRecord {
	var all []journalRecord
	if m.frameworkID != "" {
		all = append(all, journalRecord{kind: frameworkRecord, value: []byte(m.frameworkID)})
	}
	for _, name := range slices.Sorted(maps.Keys(m.jobs)) {
		j := m.jobs[name]
		all = append(all, journalRecord{jobRecord, name, j.job})
		for i, t := range j.tasks {
			if t != nil {
				all = append(all, journalRecord{taskRecord, formatTaskKey(name, i), t})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m.documents)) {
		all = append(all, journalRecord{documentRecord, key, m.documents[key]})
	}
	return all
}

// decodeContents decodes the image on all processors: decoding takes most of the
// time of a start. It fails when ctx ends.
func (m *contentsImage) decodeContents(ctx context.Context) (JournalContents, error) {
	names := slices.Sorted(maps.Keys(m.jobs))
	jobs := make([]*job.Job, len(names))
	workers := min(runtime.GOMAXPROCS(0), max(1, len(names)/64))
	errs := make([]error, workers)
	var done sync.WaitGroup
	for w := range workers {
		done.Go(func() {
			var parts job.Interner
			for i := w; i < len(names) && errs[w] == nil; i += workers {
				if errs[w] = ctx.Err(); errs[w] != nil {
					return
				}
				jobs[i], errs[w] = m.jobs[names[i]].decodeJob(names[i], &parts)
			}
		})
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return JournalContents{}, err
		}
	}
	if len(jobs) == 0 {
		jobs = nil
	}
	all := JournalContents{FrameworkID: m.frameworkID, Jobs: jobs}
	if len(m.documents) > 0 {
		all.Documents = make(map[string][]byte, len(m.documents))
		for key, value := range m.documents {
			all.Documents[key] = bytes.Clone(value) // the image may refer to a file that is closed later
		}
	}
	return all, nil
}

// decodeJob decodes a job. It fails if a task is missing or has an unknown state: a task that the scheduler forgot would
// keep its GPUs until an operator finds it. The job shares parts with others by the Interner.
func (j jobImage) decodeJob(name string, parts *job.Interner) (*job.Job, error) {
	s, err := decodeStoredJob(name, j.job)
	if err != nil {
		return nil, err
	}
	if len(j.tasks) > s.Spec.Tasks {
		return nil, fmt.Errorf("job %q has %d tasks, and a task %d", name, s.Spec.Tasks, len(j.tasks)-1)
	}
	parts.InternSpec(s.Spec)
	decoded := s.newJob()
	for i := range decoded.Changes {
		parts.InternChange(&decoded.Changes[i])
	}
	for i := range decoded.Tasks {
		if i >= len(j.tasks) || j.tasks[i] == nil {
			return nil, fmt.Errorf("task %d of job %q is missing", i, name)
		}
		t := &decoded.Tasks[i]
		if err := decodeTask(j.tasks[i], t); err != nil {
			return nil, fmt.Errorf("task %d of job %q: %w", i, name, err)
		}
		t.Run = t.RunID().Run
		if t.ID == "" || t.RunID() != decoded.RunID() || t.Index != i || !slices.Contains(job.States(), t.State) {
			return nil, fmt.Errorf("task %d of job %q is unreadable (id %q, state %q)", i, name, t.ID, t.State)
		}
		t.Job = s.Spec.Name // shares the text
		parts.InternTask(t)
	}
	return decoded, nil
}
