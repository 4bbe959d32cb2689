package job

import "slices"

// RunTable holds runs of jobs by name and number.
type RunTable[T interface {
	comparable
	RunID() RunID
	Self() *Job
}] struct {
	// Newest is the newest run of each name, of any owner. All runs that have not ended are among them. Earlier are
	// the other runs by name, in the order of their numbers; no list is empty. Callers do not change either map.
	Newest  map[string]T
	Earlier map[string][]T
	// numbers are the runs by Job.Number.
	numbers map[int]T
	// count is the number of runs in both maps.
	count int
}

// Add adds a run that is newer than the other runs of its name.
func (t *RunTable[T]) Add(run T) {
	name := run.RunID().Name
	if t.Newest == nil {
		t.Newest, t.Earlier, t.numbers = map[string]T{}, map[string][]T{}, map[int]T{}
	}
	if old, ok := t.Newest[name]; ok {
		t.Earlier[name] = append(t.Earlier[name], old)
	}
	t.Newest[name] = run
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
	earlier := t.Earlier[name]
	last := len(earlier) - 1
	switch {
	case t.Newest[name] == run && last < 0:
		delete(t.Newest, name)
	case t.Newest[name] == run:
		t.Newest[name] = earlier[last]
		earlier = slices.Delete(earlier, last, last+1)
	default:
		earlier = slices.DeleteFunc(earlier, func(one T) bool { return one == run })
		if len(earlier) > last {
			return // it is not in the table
		}
	}
	t.count--
	delete(t.numbers, run.Self().Number)
	if len(earlier) == 0 {
		delete(t.Earlier, name)
	} else {
		t.Earlier[name] = earlier
	}
}

// Find returns the run NAME@RUN, or the newest one for NAME alone.
func (t *RunTable[T]) Find(text string) (run T, ok bool) {
	id, valid := ParseRunID(text)
	if !valid {
		return run, false
	}
	return t.FindRun(id)
}

// FindRun returns a run, or the newest one of the name for the number 0; false if it does not exist.
func (t *RunTable[T]) FindRun(id RunID) (run T, ok bool) {
	newest, ok := t.Newest[id.Name]
	if !ok {
		return run, false
	}
	if id.Run == 0 || id == newest.RunID() {
		return newest, true
	}
	for _, run := range t.Earlier[id.Name] {
		if run.RunID() == id {
			return run, true
		}
	}
	return run, false
}

// RunsOf returns all runs of a name, of all owners, the newest one last.
func (t *RunTable[T]) RunsOf(name string) []T {
	newest, ok := t.Newest[name]
	if !ok {
		return nil
	}
	return append(slices.Clip(t.Earlier[name]), newest)
}

// RunsOfOwner returns the runs of the job of an owner, the newest one last.
func (t *RunTable[T]) RunsOfOwner(owner, name string) []T {
	return slices.DeleteFunc(slices.Clone(t.RunsOf(name)), func(run T) bool { return run.Self().Spec.Owner != owner })
}

// NewestOfOwner returns the newest run of the job of an owner; false if there is none.
func (t *RunTable[T]) NewestOfOwner(owner, name string) (run T, ok bool) {
	if newest, found := t.Newest[name]; found && newest.Self().Spec.Owner == owner {
		return newest, true
	}
	for _, run := range slices.Backward(t.Earlier[name]) {
		if run.Self().Spec.Owner == owner {
			return run, true
		}
	}
	return run, false
}

// Len returns the number of runs.
func (t *RunTable[T]) Len() int { return t.count }
