package journal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"

	bolt "go.etcd.io/bbolt"

	"mesos-gpu/job"
)

// guard turns what bbolt does to a damaged file, which is to panic or to read
// beyond its end, into ErrCorrupt. Use: defer guard(path, &err)().
func guard(path string, err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			*err = corrupt(path, fmt.Errorf("%v", p))
		}
	}
}

// Load reads all of it. Returns ErrCorrupt, wrapped, if any of it cannot be
// read: a scheduler must not forget part of its tasks.
func (b *Bolt) Load() (all Contents, err error) {
	defer guard(b.path, &err)()
	err = b.db.View(func(tx *bolt.Tx) error {
		if problem := check(tx); problem != nil {
			return corrupt(b.path, problem)
		}
		all.FrameworkID = string(tx.Bucket(metaBucket()).Get(frameworkKey()))
		byName := map[string]*job.Job{}
		err := tx.Bucket(jobsBucket()).ForEach(func(k, v []byte) error {
			var s stored
			if err := json.Unmarshal(v, &s); err != nil || s.Spec.Name != string(k) {
				return corrupt(b.path, fmt.Errorf("job %q: %v", k, err))
			}
			j := &job.Job{Spec: s.Spec, Submitted: s.Submitted, Tasks: make([]job.Task, s.Spec.Tasks)}
			byName[s.Spec.Name] = j
			all.Jobs = append(all.Jobs, j)
			return nil
		})
		if err != nil {
			return err
		}
		if err := b.loadTasks(tx, byName); err != nil {
			return err
		}
		return b.complete(all.Jobs)
	})
	return all, err
}

// check returns the first problem, after the checker's goroutine has ended.
func check(tx *bolt.Tx) (first error) {
	for problem := range tx.Check() {
		if first == nil {
			first = problem
		}
	}
	return first
}

func (b *Bolt) loadTasks(tx *bolt.Tx, byName map[string]*job.Job) error {
	return tx.Bucket(tasksBucket()).ForEach(func(k, v []byte) error {
		name, index, ok := parseTaskKey(k)
		j := byName[name]
		if !ok || j == nil || index >= len(j.Tasks) {
			return corrupt(b.path, fmt.Errorf("task %q of no job", k))
		}
		if err := json.Unmarshal(v, &j.Tasks[index]); err != nil {
			return corrupt(b.path, fmt.Errorf("task %d of job %q: %v", index, name, err))
		}
		return nil
	})
}

// complete checks that no task is missing and each is in a state there is.
func (b *Bolt) complete(jobs []*job.Job) error {
	for _, j := range jobs {
		for i := range j.Tasks {
			t := &j.Tasks[i]
			if t.ID == "" || t.Job != j.Spec.Name || t.Index != i || !slices.Contains(job.States(), t.State) {
				return corrupt(b.path, fmt.Errorf("task %d of job %q is missing or unreadable (id %q, state %q)", i, j.Spec.Name, t.ID, t.State))
			}
		}
	}
	return nil
}

func parseTaskKey(k []byte) (name string, index int, ok bool) {
	cut := len(k) - 5
	if cut < 1 || k[cut] != 0 {
		return "", 0, false
	}
	return string(k[:cut]), int(binary.BigEndian.Uint32(k[cut+1:])), true
}
