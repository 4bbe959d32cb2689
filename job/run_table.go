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
	// runs are the runs of each name, of all owners.
	runs map[string]namedRuns[T]
	// numbers are the runs by Job.Number.
	numbers map[int]T
	// count is the number of runs.
	count int
}

// namedRuns are the runs of a name: the newest one, and the others in the order of their numbers. Most names have one run.
type namedRuns[T any] struct {
	newest  T
	earlier []T
}

// Add adds a run that is newer than the other runs of its name.
func (t *RunTable[T]) Add(run T) {
	name := run.RunID().Name
	if t.runs == nil {
		t.runs, t.numbers = map[string]namedRuns[T]{}, map[int]T{}
	}
	named, ok := t.runs[name]
	if ok {
		named.earlier = append(named.earlier, named.newest)
	}
	named.newest = run
	t.runs[name] = named
	t.count++
	t.IndexNumber(run)
}

// IndexNumber makes Resolve find a run of the table whose number has been set since it was added.
func (t *RunTable[T]) IndexNumber(run T) {
	if n := run.Self().Number; n > 0 {
		t.numbers[n] = run
	}
}

// Remove removes a run. If it was the newest one of its name, the run before it is the newest from then on.
func (t *RunTable[T]) Remove(run T) {
	name := run.RunID().Name
	named := t.runs[name]
	last := len(named.earlier) - 1
	switch at := slices.Index(named.earlier, run); {
	case at >= 0:
		named.earlier = slices.Delete(named.earlier, at, at+1)
		t.runs[name] = named
	case named.newest != run:
		return // it is not in the table
	case last >= 0:
		named.newest = named.earlier[last]
		named.earlier = slices.Delete(named.earlier, last, last+1)
		t.runs[name] = named
	default:
		delete(t.runs, name)
	}
	t.count--
	delete(t.numbers, run.Self().Number)
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
	named, ok := t.runs[id.Name]
	if !ok {
		return run, false
	}
	if id.Run == 0 || id.Run == named.newest.RunID().Run {
		return named.newest, true
	}
	at, ok := slices.BinarySearchFunc(named.earlier, id.Run, func(one T, run int) int { return cmp.Compare(one.RunID().Run, run) })
	if !ok {
		return run, false
	}
	return named.earlier[at], true
}

// All yields all runs, those of a name in the order of their numbers.
func (t *RunTable[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, named := range t.runs {
			for _, run := range named.earlier {
				if !yield(run) {
					return
				}
			}
			if !yield(named.newest) {
				return
			}
		}
	}
}

// RunsOf returns all runs of a name, of all owners, the newest one last.
func (t *RunTable[T]) RunsOf(name string) []T {
	named, ok := t.runs[name]
	if !ok {
		return nil
	}
	return append(slices.Clip(named.earlier), named.newest)
}

// RunsOfOwner returns the runs of the job of an owner, the newest one last.
func (t *RunTable[T]) RunsOfOwner(owner, name string) []T {
	return slices.DeleteFunc(slices.Clone(t.RunsOf(name)), func(run T) bool { return run.Self().Spec.Owner != owner })
}

// NewestOfOwner returns the newest run of the job of an owner; false if there is none.
func (t *RunTable[T]) NewestOfOwner(owner, name string) (run T, ok bool) {
	named, ok := t.runs[name]
	if !ok || named.newest.Self().Spec.Owner == owner {
		return named.newest, ok
	}
	for _, run := range slices.Backward(named.earlier) {
		if run.Self().Spec.Owner == owner {
			return run, true
		}
	}
	return run, false
}

// Len returns the number of runs.
func (t *RunTable[T]) Len() int { return t.count }
