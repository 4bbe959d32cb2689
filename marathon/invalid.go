package marathon

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Invalid says all that is wrong with a definition, in the form that
// Marathon answers with status 422.
type Invalid struct {
	Message string   `json:"message"`
	Details []Detail `json:"details"`
}

// Detail holds the errors of one place: "/container/portMappings(0)/name",
// "/" for the whole.
type Detail struct {
	Path   string   `json:"path"`
	Errors []string `json:"errors"`
}

func (e *Invalid) Error() string {
	var parts []string
	for _, d := range e.Details {
		parts = append(parts, d.Path+": "+strings.Join(d.Errors, ", "))
	}
	return strings.Join(parts, "; ")
}

// Malformed is a text that is not JSON, which Marathon answers with status 400.
type Malformed struct{ Cause error }

func (e *Malformed) Error() string { return "read JSON: " + e.Cause.Error() }
func (e *Malformed) Unwrap() error { return e.Cause }

var errTrailing = errors.New("more text after the end of the value")

// What Marathon says first: that a value has the wrong type or range, or that
// the whole breaks a rule.
const (
	badJSON   = "Invalid JSON"
	badObject = "Object is not valid"
)

type kind int

const (
	bySchema kind = iota
	byTable       // unknown or refused
	byRule
)

type violation struct {
	path, text string
	kind       kind
}

type violations struct {
	list []violation
}

func (v *violations) add(k kind, path, format string, args ...any) {
	if path == "" {
		path = "/"
	}
	v.list = append(v.list, violation{path, fmt.Sprintf(format, args...), k})
}

func (v *violations) schema(path, format string, args ...any) { v.add(bySchema, path, format, args...) }
func (v *violations) rule(path, format string, args ...any)   { v.add(byRule, path, format, args...) }
func (v *violations) refuse(path, why string)                 { v.add(byTable, path, "not served: %s", why) }

func (v *violations) unknown(path string, n *node, name string) {
	v.add(byTable, path, "there is no such field%s", suggestion(n, name))
}

// invalid is nil if there is nothing to say. A rule that was held against
// what remains of a bad value says nothing new and is left out.
func (v *violations) invalid() error {
	if len(v.list) == 0 {
		return nil
	}
	e := &Invalid{Message: badObject}
	for _, one := range v.list {
		if one.kind == bySchema {
			e.Message = badJSON
		}
		if one.kind == byRule && v.follows(one.path) {
			continue
		}
		e.add(one)
	}
	slices.SortStableFunc(e.Details, func(a, b Detail) int { return cmp.Compare(a.Path, b.Path) })
	return e
}

func (e *Invalid) add(v violation) {
	i := slices.IndexFunc(e.Details, func(d Detail) bool { return d.Path == v.path })
	if i < 0 {
		e.Details = append(e.Details, Detail{Path: v.path})
		i = len(e.Details) - 1
	}
	if !slices.Contains(e.Details[i].Errors, v.text) {
		e.Details[i].Errors = append(e.Details[i].Errors, v.text)
	}
}

// follows reports whether a value at the path, above it or below it had the
// wrong type or range and was taken out before the rules were held against
// the rest.
func (v *violations) follows(path string) bool {
	return slices.ContainsFunc(v.list, func(w violation) bool {
		return w.kind == bySchema && (within(path, w.path) || within(w.path, path))
	})
}

// within reports whether path is at or below place.
func within(path, place string) bool {
	rest, ok := strings.CutPrefix(path, place)
	return ok && (rest == "" || place == "/" || rest[0] == '/' || rest[0] == '(')
}
