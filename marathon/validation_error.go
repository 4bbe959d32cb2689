package marathon

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ValidationError contains all mistakes in a definition, in the form of Marathon's answer
// with status 422.
type ValidationError struct {
	Message string        `json:"message"`
	Details []ErrorDetail `json:"details"`
}

// ErrorDetail contains the mistakes at one path: "/container/portMappings(0)/name", or "/"
// for the whole definition.
type ErrorDetail struct {
	Path   string   `json:"path"`
	Errors []string `json:"errors"`
}

func (e *ValidationError) Error() string {
	var parts []string
	for _, d := range e.Details {
		parts = append(parts, d.Path+": "+strings.Join(d.Errors, ", "))
	}
	return strings.Join(parts, "; ")
}

// SyntaxError is returned for text that is not JSON. Marathon answers with status 400.
type SyntaxError struct{ Cause error }

func (e *SyntaxError) Error() string { return "read JSON: " + e.Cause.Error() }
func (e *SyntaxError) Unwrap() error { return e.Cause }

var errTrailing = errors.New("more text after the end of the value")

// Messages of Marathon: a value has the wrong type or range, or the definition breaks a
// rule.
const (
	badJSON   = "Invalid JSON"
	badObject = "Object is not valid"
)

type violationKind int

const (
	fromSchema violationKind = iota
	fromTable                // refused field, or in strict mode an unknown one
	fromRule
)

type violation struct {
	path, text string
	kind       violationKind
}

type violationList struct {
	list []violation
	// warnings are about what is dropped. They do not make a definition invalid.
	warnings []Warning
}

func (v *violationList) addViolation(k violationKind, path, format string, args ...any) {
	if path == "" {
		path = "/"
	}
	v.list = append(v.list, violation{path, fmt.Sprintf(format, args...), k})
}

func (v *violationList) addSchemaError(path, format string, args ...any) {
	v.addViolation(fromSchema, path, format, args...)
}
func (v *violationList) addRuleError(path, format string, args ...any) {
	v.addViolation(fromRule, path, format, args...)
}
func (v *violationList) addUnsupported(path, why string) {
	v.addViolation(fromTable, path, "not served: %s", why)
}

func (v *violationList) addWarning(path, reason string) {
	v.warnings = append(v.warnings, Warning{path, reason})
}

// finish returns the violations as an error, or passes the warnings on.
func (v *violationList) finish(s ParseSettings) error {
	if err := v.asError(); err != nil {
		return err
	}
	if s.Warn != nil {
		for _, one := range v.warnings {
			s.Warn(one)
		}
	}
	return nil
}

// asError returns nil without violations. It leaves out broken rules about values that the
// schema check has removed.
func (v *violationList) asError() error {
	if len(v.list) == 0 {
		return nil
	}
	e := &ValidationError{Message: badObject}
	for _, one := range v.list {
		if one.kind == fromSchema {
			e.Message = badJSON
		}
		if one.kind == fromRule && v.followsFromSchemaError(one.path) {
			continue
		}
		e.addDetail(one)
	}
	slices.SortStableFunc(e.Details, func(a, b ErrorDetail) int { return cmp.Compare(a.Path, b.Path) })
	return e
}

func (e *ValidationError) addDetail(v violation) {
	i := slices.IndexFunc(e.Details, func(d ErrorDetail) bool { return d.Path == v.path })
	if i < 0 {
		e.Details = append(e.Details, ErrorDetail{Path: v.path})
		i = len(e.Details) - 1
	}
	if !slices.Contains(e.Details[i].Errors, v.text) {
		e.Details[i].Errors = append(e.Details[i].Errors, v.text)
	}
}

// followsFromSchemaError reports whether the schema check removed a value at the path,
// above it or below it.
func (v *violationList) followsFromSchemaError(path string) bool {
	return slices.ContainsFunc(v.list, func(w violation) bool {
		return w.kind == fromSchema && (isWithin(path, w.path) || isWithin(w.path, path))
	})
}

// isWithin reports whether a path is at or below another.
func isWithin(path, place string) bool {
	rest, ok := strings.CutPrefix(path, place)
	return ok && (rest == "" || place == "/" || rest[0] == '/' || rest[0] == '(')
}
