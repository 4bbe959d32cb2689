package journal

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// recordKind is the type of a record.
type recordKind byte

const (
	frameworkRecord recordKind = 'F' // value: the framework id
	removedRecord   recordKind = 'R' // key: formatRunKey
	jobRecord       recordKind = 'J' // key: formatRunKey; value: storedJob, as JSON
	taskRecord      recordKind = 'T' // key: formatTaskKey; value: job.Task, as JSON
	documentRecord  recordKind = 'D' // key: the document's; value: the document; empty deletes it
)

// journalRecord is one item of a change, as every journal stores it. A job and its
// tasks are separate records, so that an update of one task does not rewrite a job
// with thousands of tasks. The value is never modified.
type journalRecord struct {
	// kind says what the key names: a job, a task, a document or the framework's id.
	kind recordKind
	// key identifies the object; value is its encoding. A removed job has a record of its own kind.
	key   string
	value []byte
}

// storedJob is a job without its tasks, in the encoding of a jobRecord. Releases of one schema may add fields: an older
// one ignores them, and drops them when it writes the job.
type storedJob struct {
	Spec      *job.Spec `json:"spec"`
	Run       int       `json:"run,omitempty"` // 0 in journals of releases that had no runs
	Submitted time.Time `json:"submitted"`
	// Number copies job.Job.Number. A release that does not know it drops it: the job gets another number later.
	Number int `json:"number,omitempty"`
	// Version and OldSpecs are set for services only.
	Version  int               `json:"version,omitempty"`
	OldSpecs map[int]*job.Spec `json:"old_specs,omitempty"`
	// Changes copies job.Job.Changes. A release that does not know them drops them.
	Changes []job.Change `json:"changes,omitempty"`
	// Scalings are the changes that releases recorded which knew only scalings. They are read, and not written.
	Scalings []storedScaling `json:"scalings,omitempty"`
	// Hold and Revision copy the fields of job.Job. A release that does not know them drops them: held jobs start.
	Hold     *job.Hold `json:"hold,omitempty"`
	Revision int       `json:"revision,omitempty"`
	// Notified copies job.Job.Notified. A release that does not know them drops them: targets are notified again.
	Notified []job.NotificationEvent `json:"notified,omitempty"`
}

// storedScaling is a job.Change of the kind job.ScaleChange as earlier releases recorded it.
type storedScaling struct {
	Time   time.Time `json:"time"`
	From   int       `json:"from"`
	To     int       `json:"to"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// encodeStoredJob and newJob convert a job. The job gets tasks that the caller fills in.
func encodeStoredJob(j *job.Job) *storedJob {
	return &storedJob{
		Spec:      j.Spec,
		Run:       j.RunID().Run,
		Submitted: j.Submitted,
		Number:    j.Number,
		Version:   j.Version,
		OldSpecs:  j.OldSpecs,
		Changes:   j.Changes,
		Hold:      j.Hold,
		Revision:  j.Revision,
		Notified:  j.Notified,
	}
}

func (s *storedJob) newJob() *job.Job {
	changes := s.Changes
	for _, c := range s.Scalings {
		changes = append(changes, job.Change{Time: c.Time, Kind: job.ScaleChange, By: c.By, From: c.From, To: c.To, Reason: c.Reason})
	}
	return &job.Job{
		Spec:      s.Spec,
		Run:       s.Run,
		Submitted: s.Submitted,
		Number:    s.Number,
		Version:   s.Version,
		OldSpecs:  s.OldSpecs,
		Changes:   changes,
		Hold:      s.Hold,
		Revision:  s.Revision,
		Notified:  s.Notified,
		Tasks:     make([]job.Task, s.Spec.Tasks),
	}
}

// formatRunKey returns the key of a run: NAME for the first one of a job, as releases that had no runs wrote it, and
// NAME@RUN for the others.
func formatRunKey(id job.RunID) string {
	if id.Run <= 1 {
		return id.Name
	}
	return id.String()
}

// parseRunKey returns the run of a key. It does not check the name.
func parseRunKey(key string) (id job.RunID, ok bool) {
	id, ok = job.ParseRunID(key)
	id.Run = max(id.Run, 1)
	return id, ok
}

// formatTaskKey returns KEY \0 INDEX (4 bytes, big endian), with the key of the task's run.
func formatTaskKey(run string, index int) string {
	return string(binary.BigEndian.AppendUint32(append([]byte(run), 0), uint32(index)))
}

// parseTaskKey returns the key of the run and the index in a key that formatTaskKey has returned.
func parseTaskKey(k string) (run string, index int, ok bool) {
	cut := len(k) - 5
	if cut < 1 || k[cut] != 0 {
		return "", 0, false
	}
	return k[:cut], int(binary.BigEndian.Uint32([]byte(k[cut+1:]))), true
}

// encodeChange returns the records of a change, in the order in which they apply.
func encodeChange(c Change) ([]journalRecord, error) {
	all := make([]journalRecord, 0, 1+len(c.Removed)+len(c.Jobs)+len(c.Tasks)+len(c.Documents))
	if c.FrameworkID != "" {
		all = append(all, journalRecord{kind: frameworkRecord, value: []byte(c.FrameworkID)})
	}
	for _, id := range c.Removed {
		all = append(all, journalRecord{kind: removedRecord, key: formatRunKey(id)})
	}
	add := func(kind recordKind, key string, value any) error {
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encode %q: %w", key, err)
		}
		all = append(all, journalRecord{kind, key, text})
		return nil
	}
	for _, j := range c.Jobs {
		if err := add(jobRecord, formatRunKey(j.RunID()), encodeStoredJob(j)); err != nil {
			return nil, err
		}
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		if err := add(taskRecord, formatTaskKey(formatRunKey(t.RunID()), t.Index), t); err != nil {
			return nil, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Documents)) {
		all = append(all, journalRecord{documentRecord, key, c.Documents[key]})
	}
	return all, nil
}

// decodeChange returns the change that the records describe.
func decodeChange(all []journalRecord) (Change, error) {
	var c Change
	for _, r := range all {
		switch r.kind {
		case frameworkRecord:
			c.FrameworkID = string(r.value)
		case removedRecord:
			id, ok := parseRunKey(r.key)
			if !ok {
				return c, fmt.Errorf("removed job %q: its run has no number", r.key)
			}
			c.Removed = append(c.Removed, id)
		case jobRecord:
			s, err := decodeStoredJob(r.key, r.value)
			if err != nil {
				return c, err
			}
			c.Jobs = append(c.Jobs, s.newJob())
		case taskRecord:
			var t job.Task
			if err := decodeTask(r.value, &t); err != nil {
				return c, fmt.Errorf("task %q: %w", r.key, err)
			}
			t.Run = t.RunID().Run
			c.Tasks = append(c.Tasks, t)
		case documentRecord:
			if c.Documents == nil {
				c.Documents = map[string][]byte{}
			}
			c.Documents[r.key] = r.value
		default:
			return c, fmt.Errorf("record of unknown kind %q", r.kind)
		}
	}
	return c, nil
}

// decodeTask decodes the record of a task. Up to schema 5 its shares were called parts. A journal has many tasks, so that the
// old name costs only those that have it.
func decodeTask(value []byte, t *job.Task) error {
	if err := json.Unmarshal(value, t); err != nil || t.Shares != nil || !bytes.Contains(value, []byte(`"parts"`)) {
		return err
	}
	var old struct {
		Parts []gpu.DeviceShare `json:"parts"`
	}
	err := json.Unmarshal(value, &old)
	t.Shares = old.Parts
	return err
}

// maxTasks limits the tasks of a job, so that a damaged record cannot cause a huge allocation.
const maxTasks = 1 << 20

// decodeStoredJob decodes the record of a run. Its Run is at least 1.
func decodeStoredJob(key string, value []byte) (s storedJob, err error) {
	if err := json.Unmarshal(value, &s); err != nil {
		return s, fmt.Errorf("job %q: %w", key, err)
	}
	if s.Spec == nil {
		return s, fmt.Errorf("job %q: it has no specification", key)
	}
	s.Run = max(s.Run, 1)
	if formatRunKey(job.RunID{Name: s.Spec.Name, Run: s.Run}) != key || s.Spec.Tasks < 0 || s.Spec.Tasks > maxTasks {
		return s, fmt.Errorf("job %q: it is run %d of %q and has %d tasks", key, s.Run, s.Spec.Name, s.Spec.Tasks)
	}
	return s, nil
}
