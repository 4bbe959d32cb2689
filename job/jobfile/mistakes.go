package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// lineError is a mistake at one place of the file.
type lineError struct {
	line, column int // column 0 is unknown
	err          error
	// key is the outermost key whose value is wrong: "" for none, unreadKeys for
	// all keys after the place.
	key string
	// known lists the possible keys, to be printed after the mistake.
	known string
}

// unreadKeys means all keys that were not read.
const unreadKeys = "*"

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

// errorAt returns a mistake at the place of a node.
func errorAt(n *yaml.Node, format string, args ...any) *lineError {
	return &lineError{line: n.Line, column: n.Column, err: fmt.Errorf(format, args...)}
}

// flattenErrors returns joined errors one by one.
func flattenErrors(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		if err == nil {
			return nil
		}
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, flattenErrors(e)...)
	}
	return all
}

// formatMistakes joins the mistakes in the order of their places. Each begins with the
// file's name and the place. Mistakes without a place come last. A list of known keys
// is printed once.
func formatMistakes(name string, mistakes []error) error {
	slices.SortStableFunc(mistakes, func(a, b error) int {
		one, placed := a.(*lineError)
		other, too := b.(*lineError)
		switch {
		case placed && too:
			return cmp.Or(cmp.Compare(one.line, other.line), cmp.Compare(one.column, other.column))
		case placed:
			return -1
		case too:
			return 1
		}
		return 0
	})
	listed := map[string]bool{}
	lines := make([]error, len(mistakes))
	for i, m := range mistakes {
		lines[i] = fmt.Errorf("%s: %w", name, m)
		if e, ok := m.(*lineError); ok {
			lines[i] = e.inFile(name, listed)
		}
	}
	return errors.Join(lines...)
}

// inFile returns, for example, "train.yaml:3:7: mem: …". It adds known keys to listed and omits those that are listed.
func (e *lineError) inFile(name string, listed map[string]bool) error {
	place := fmt.Sprintf("%s:%d", name, e.line)
	if e.line == 0 { // an override
		place = name
	}
	if e.column > 0 {
		place += fmt.Sprintf(":%d", e.column)
	}
	if e.known == "" || listed[e.known] {
		return fmt.Errorf("%s: %w", place, e.err)
	}
	listed[e.known] = true
	return fmt.Errorf("%s: %w; the keys are %s", place, e.err, e.known)
}

// independentMistakes removes those mistakes of found, which is modified, that may be consequences of others: those in a
// field whose value could not be read, or that depend on one.
func independentMistakes(others []error, found []error) []error {
	unread := map[any]bool{}
	for _, err := range others {
		e, ok := err.(*lineError)
		if !ok || e.key == unreadKeys {
			return nil
		}
		unread[e.key] = true
	}
	return slices.DeleteFunc(found, func(err error) bool {
		var wrong *job.FieldError
		return errors.As(err, &wrong) && slices.ContainsFunc(wrong.Paths(), func(path job.FieldPath) bool { return unread[path[0]] })
	})
}

// limitMistakes returns at most maxMistakes, and how many more there are.
func limitMistakes(found []error) []error {
	if more := len(found) - maxMistakes; more > 0 {
		return append(found[:maxMistakes:maxMistakes], fmt.Errorf("%d more mistakes: fix the others first", more))
	}
	return found
}

// locateMistakes adds places to the errors of job.Spec.Validate: of the first of their
// fields that is in the file.
func locateMistakes(root *yaml.Node, found []error) []error {
	for i, err := range found {
		var wrong *job.FieldError
		if !errors.As(err, &wrong) {
			continue
		}
		for _, path := range wrong.Paths() {
			if n := findField(root, path); n != nil {
				found[i] = &lineError{line: n.Line, column: n.Column, err: err}
				break
			}
		}
	}
	return found
}

// findField returns the value at the path, or the innermost one around it that is in the
// file. It returns nil if the outermost key is absent. It skips elements that a short form
// omits, such as the index in health_check: {tcp: 80}.
func findField(root *yaml.Node, path job.FieldPath) *yaml.Node {
	n := findValue(root, path[0].(string))
	if n == nil {
		return nil
	}
	for _, element := range path[1:] {
		var next *yaml.Node
		switch e := element.(type) {
		case string:
			if next = findValue(n, e); next == nil && n.Kind == yaml.MappingNode {
				return n
			}
		case int:
			if n.Kind == yaml.SequenceNode {
				if e >= len(n.Content) {
					return n
				}
				next = n.Content[e]
			}
		}
		if next != nil {
			n = next
		}
	}
	return n
}
