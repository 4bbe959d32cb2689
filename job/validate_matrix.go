package job

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Bounds of a matrix, in addition to MaxTasks combinations.
const (
	maxAxes    = 20
	maxEntries = 100 // in Include, and in Exclude
	maxNames   = 100 // in one entry
	// maxValues bounds names times combinations: each task stores its values.
	maxValues = 200_000
)

// variablePattern matches names that every shell accepts for a variable.
var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// axesProduct returns the number of combinations of the axes. Above MaxTasks it may
// return any larger number.
func (m *Matrix) axesProduct() int {
	n := 1
	for _, a := range m.Axes {
		if n *= len(a.Values); n > MaxTasks {
			return n
		}
	}
	return n
}

// taskCount returns the number of combinations, or 0 if the matrix is not valid.
func (m *Matrix) taskCount() int {
	n, _, ok := m.checkMatrix(func(fieldSet, string, ...any) {})
	if !ok {
		return 0
	}
	return n
}

// checkMatrix returns the Combinations. It reports all mistakes in the matrix; ok means
// that there are none.
func (m *Matrix) checkMatrix(report reportFunc) (n int, of func(index int) map[string]string, ok bool) {
	ok = true
	bad := func(f fieldSet, format string, args ...any) {
		ok = false
		report(f, "matrix: "+format, args...)
	}
	if len(m.Axes) > maxAxes {
		bad(field("matrix"), "%d axes are more than %d", len(m.Axes), maxAxes)
	}
	axes := map[string]bool{}
	for _, a := range m.Axes {
		switch {
		case !variablePattern.MatchString(a.Name) || a.Name == "include" || a.Name == "exclude":
			bad(field("matrix", a.Name), "%q is not an axis: use 1 to 63 letters, digits and underscores, as for a variable, but not include and exclude", a.Name)
		case axes[a.Name]:
			bad(field("matrix", a.Name), "%s is given twice", a.Name)
		case len(a.Values) == 0:
			bad(field("matrix", a.Name), "%s has no values: leave it out", a.Name)
		}
		axes[a.Name] = true
		if v, twice := firstRepeated(a.Values); twice {
			bad(field("matrix", a.Name), "%s has the value %q twice", a.Name, v)
		}
	}
	if n := m.axesProduct(); n > MaxTasks {
		bad(field("matrix"), "%d combinations or more are above %d: split the job", n, MaxTasks)
	}
	for _, list := range []struct {
		key     string
		entries []map[string]string
	}{{"exclude", m.Exclude}, {"include", m.Include}} {
		if len(list.entries) > maxEntries {
			bad(field("matrix", list.key), "%s: %d entries are more than %d", list.key, len(list.entries), maxEntries)
		}
		for i, e := range list.entries {
			if err := validateEntry(list.key, e, axes); err != nil {
				at := field("matrix", list.key, i)
				if wrong, ok := errors.AsType[*FieldError](err); ok {
					at = at.at(wrong.Path...)
				}
				bad(at, "%s: item %d: %w", list.key, i+1, err)
			}
		}
	}
	if !ok {
		return 0, nil, false
	}
	n, of = m.Combinations()
	if n < 1 || n > MaxTasks {
		bad(field("matrix"), "%d combinations are not between 1 and %d", n, MaxTasks)
	}
	if names := len(m.longestValues()); names*n > maxValues {
		bad(field("matrix"), "%d names in %d combinations are %d values, more than %d: split the job", names, n, names*n, maxValues)
	}
	return n, of, ok
}

// validateEntry returns a FieldError if a name is wrong.
func validateEntry(key string, entry map[string]string, axes map[string]bool) error {
	if len(entry) == 0 {
		return errors.New("is empty")
	}
	if len(entry) > maxNames {
		return fmt.Errorf("has %d names, more than %d", len(entry), maxNames)
	}
	for _, name := range slices.Sorted(maps.Keys(entry)) {
		switch {
		case key == "exclude" && !axes[name]:
			return &FieldError{Path: FieldPath{name}, err: fmt.Errorf("%q is not an axis of the matrix", name)}
		case !variablePattern.MatchString(name):
			return &FieldError{Path: FieldPath{name}, err: fmt.Errorf("%q is not a variable's name of letters, digits and underscores", name)}
		}
	}
	return nil
}

// firstRepeated returns the first value that occurs twice.
func firstRepeated(values []string) (string, bool) {
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		if seen[v] {
			return v, true
		}
		seen[v] = true
	}
	return "", false
}

// validateMatrix checks the matrix, and that the rest of the job allows one.
func (s *Spec) validateMatrix(bad reportFunc) {
	if s.MaxParallel < 0 || s.MaxParallel > MaxTasks {
		bad(field("max_parallel"), "max_parallel: %d is not between 0 and %d", s.MaxParallel, MaxTasks)
	}
	if s.MaxParallel > 0 && (s.Gang || s.Service != nil) {
		bad(field("max_parallel").and("gang", "service"), "max_parallel: the tasks of a gang or a service run together")
	}
	m := s.Matrix
	if m == nil {
		return
	}
	if s.Gang || s.Service != nil {
		bad(field("matrix").and("gang", "service"), "matrix: the tasks of a gang or a service are equal: submit a job for each combination")
	}
	n, of, ok := m.checkMatrix(bad)
	if !ok {
		return
	}
	if s.Tasks != n {
		bad(field("tasks").and("matrix"), "tasks: %d, and the matrix has %d combinations, a task each: leave tasks out", s.Tasks, n)
	}
	for _, name := range slices.Sorted(maps.Keys(m.longestValues())) {
		if _, ok := s.Env[name]; ok {
			bad(field("env", name).and("matrix"), "env: %s is set by the matrix", name)
		}
		if _, ok := s.Secrets[name]; ok {
			bad(field("secrets", name).and("matrix"), "secrets: %s is set by the matrix", name)
		}
	}
	wanted := s.matrixPlaceholders()
	if len(wanted) == 0 {
		return
	}
	common := of(0) // the values that every combination has
	for i := range n {
		values := of(i)
		maps.DeleteFunc(common, func(name, _ string) bool { _, ok := values[name]; return !ok })
	}
	for _, name := range wanted {
		if _, ok := common[name]; !ok {
			bad(field("matrix"), "{{matrix.%s}}: not every combination of the matrix has it", name)
		}
	}
}

// longestValues returns the longest value of each name, to check bounds.
func (m *Matrix) longestValues() map[string]string {
	most := map[string]string{}
	if m == nil {
		return most
	}
	note := func(name, v string) {
		if old, ok := most[name]; !ok || len(v) > len(old) {
			most[name] = v
		}
	}
	for _, a := range m.Axes {
		for _, v := range a.Values {
			note(a.Name, v)
		}
	}
	for _, e := range m.Include {
		for name, v := range e {
			note(name, v)
		}
	}
	return most
}
