package job

import (
	"cmp"
	"iter"
	"slices"
)

// RunTable holds runs of jobs by name and number. Several owners may have jobs of one name, whose runs share one sequence of
// numbers: name and number identify a run.
type RunTable[T interface {
	comparable
	RunID() RunID
	Self() *Job
}] struct {
	// runs are the runs of each name, of all owners, in the order of their numbers. No list is empty.
	runs map[string][]T
	// numbers are the runs by Job.Number.
	numbers map[int]T
	// count is the number of runs.
	count int
}

// Add adds a run that is newer than the other runs of its name.
func (t *RunTable[T]) Add(run T) {
	name := run.RunID().Name
	if t.runs == nil {
		t.runs, t.numbers = map[string][]T{}, map[int]T{}
	}
	if old := t.runs[name]; old != nil {
		t.runs[name] = append(old, run)
	} else {
		t.runs[name] = []T{run} // of capacity 1: most names have one run
	}
	t.count++
	t.IndexNumber(run)
}

// IndexNumber makes Resolve find a run of the table whose number has been set since it was added.
func (t *RunTable[T]) IndexNumber(run T) {
	if n := run.Self().Number; n > 0 {
		t.numbers[n] = run
	}
}

// Remove removes a run.
func (t *RunTable[T]) Remove(run T) {
	name := run.RunID().Name
	at := slices.Index(t.runs[name], run)
	if at < 0 {
		return
	}
	t.count--
	delete(t.numbers, run.Self().Number)
	if len(t.runs[name]) == 1 {
		delete(t.runs, name)
		return
	}
	t.runs[name] = slices.Delete(t.runs[name], at, at+1)
}

// Find returns the run NAME@RUN, or the newest one of any owner for NAME alone.
func (t *RunTable[T]) Find(text string) (run T, ok bool) {
	id, valid := ParseRunID(text)
	if !valid {
		return run, false
	}
	return t.FindRun(id)
}

// FindRun returns a run, or the newest one of the name for the number 0; false if it does not exist.
func (t *RunTable[T]) FindRun(id RunID) (run T, ok bool) {
	runs := t.runs[id.Name]
	switch last := len(runs) - 1; {
	case last < 0:
		return run, false
	case id.Run == 0 || id == runs[last].RunID():
		return runs[last], true
	}
	at, ok := slices.BinarySearchFunc(runs, id.Run, func(one T, run int) int { return cmp.Compare(one.RunID().Run, run) })
	if !ok {
		return run, false
	}
	return runs[at], true
}

// All yields all runs, those of a name in the order of their numbers.
func (t *RunTable[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, runs := range t.runs {
			for _, run := range runs {
				if !yield(run) {
					return
				}
			}
		}
	}
}

// RunsOf returns all runs of a name, of all owners, the newest one last. The caller must not change the list.
func (t *RunTable[T]) RunsOf(name string) []T { return t.runs[name] }

// RunsOfOwner returns the runs of the job of an owner, the newest one last.
func (t *RunTable[T]) RunsOfOwner(owner, name string) []T {
	return slices.DeleteFunc(slices.Clone(t.runs[name]), func(run T) bool { return run.Self().Spec.Owner != owner })
}

// NewestOfOwner returns the newest run of the job of an owner; false if there is none.
func (t *RunTable[T]) NewestOfOwner(owner, name string) (run T, ok bool) {
	for _, run := range slices.Backward(t.runs[name]) {
		if run.Self().Spec.Owner == owner {
			return run, true
		}
	}
	return run, false
}

// Len returns the number of runs.
func (t *RunTable[T]) Len() int { return t.count }
