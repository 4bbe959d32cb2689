package job

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// FieldPath is the place of a value in a job file: keys (string) and indexes of list items
// (int), outermost first. Indexes start at 0.
type FieldPath []any

// String returns the path in the form health_check[1].http.port.
func (p FieldPath) String() string {
	var b strings.Builder
	for _, element := range p {
		switch e := element.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", e)
		case string:
			switch {
			case !variablePattern.MatchString(e):
				b.WriteString("[" + strconv.Quote(e) + "]")
			case b.Len() > 0:
				b.WriteString("." + e)
			default:
				b.WriteString(e)
			}
		}
	}
	return b.String()
}

// FieldError is a mistake in a Spec, as Validate reports it. Its text names the key.
type FieldError struct {
	// Path is the field that is wrong. Related are other fields that the mistake depends
	// on, such as mem for a shm_size that is larger.
	Path    FieldPath
	Related []FieldPath
	err     error
}

func (e *FieldError) Error() string { return e.err.Error() }

// Unwrap returns the error without the path.
func (e *FieldError) Unwrap() error { return e.err }

// Paths returns Path and Related.
func (e *FieldError) Paths() []FieldPath { return append([]FieldPath{e.Path}, e.Related...) }

// fieldSet is the fields of one mistake: its Path, and then Related.
type fieldSet []FieldPath

// field returns the set with one path.
func field(path ...any) fieldSet { return fieldSet{path} }

// and returns the set with further outer keys.
func (f fieldSet) and(keys ...string) fieldSet {
	for _, key := range keys {
		f = append(f, FieldPath{key})
	}
	return f
}

// at returns the set with path elements appended to the first path.
func (f fieldSet) at(path ...any) fieldSet {
	return append(fieldSet{append(f[0][:len(f[0]):len(f[0])], path...)}, f[1:]...)
}

// reportFunc reports a mistake in fields.
type reportFunc func(f fieldSet, format string, args ...any)

// collectErrors calls check and returns the reported mistakes as joined FieldErrors.
func collectErrors(check func(bad reportFunc)) error {
	var errs []error
	check(func(f fieldSet, format string, args ...any) {
		errs = append(errs, &FieldError{Path: f[0], Related: f[1:], err: fmt.Errorf(format, args...)})
	})
	return errors.Join(errs...)
}
