package api

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"mesos-gpu/marathon"
)

// appSelector reports whether a query selects an app.
type appSelector func(*marathon.App) bool

// searchSelector selects by the parameters of GET /v2/apps: cmd and id are parts of the app's,
// in any case, and label is a label selector.
func searchSelector(cmd, id, label string) (appSelector, error) {
	labels, err := parseLabelSelector(label)
	if err != nil {
		return nil, err
	}
	contains := func(whole, part string) bool { return strings.Contains(strings.ToLower(whole), strings.ToLower(part)) }
	return func(a *marathon.App) bool {
		return contains(a.Cmd, cmd) && contains(a.ID, id) && labels(a)
	}, nil
}

// A term consists of letters, digits, dots, dashes and underscores. Any other character needs
// a backslash before it.
const termPattern = `((?:\\.|[-A-Za-z0-9_.])+)`

var (
	escapedChar = regexp.MustCompile(`\\(.)`)
	// One selector at the start of a text: a set, a comparison, or a name.
	setSelector      = regexp.MustCompile(`^\s*` + termPattern + `\s+(in|notin)\s*\(\s*((?:` + termPattern + `(?:\s*,\s*` + termPattern + `)*)?)\s*\)\s*`)
	equalitySelector = regexp.MustCompile(`^\s*` + termPattern + `\s*(==|!=)\s*` + termPattern + `\s*`)
	presenceSelector = regexp.MustCompile(`^\s*` + termPattern + `\s*`)
	setMember        = regexp.MustCompile(termPattern)
)

// parseLabelSelector parses Marathon's label selectors, all of which must match: name,
// name==value, name!=value, name in (a, b), name notin (a, b). An app without the label does
// not match. Empty text selects all apps.
func parseLabelSelector(text string) (appSelector, error) {
	var all []appSelector
	for rest := text; strings.TrimSpace(rest) != ""; {
		one, n := parseOneSelector(rest)
		if n == 0 || n < len(rest) && rest[n] != ',' {
			return nil, newProblem(http.StatusUnprocessableEntity,
				"read the label selector %q: at %q: write name, name==value, name!=value, name in (a, b) or name notin (a, b), with commas between",
				text, rest)
		}
		all = append(all, one)
		if rest = rest[n:]; rest == "," {
			return nil, newProblem(http.StatusUnprocessableEntity, "read the label selector %q: nothing follows the last comma", text)
		}
		rest = strings.TrimPrefix(rest, ",")
	}
	return func(a *marathon.App) bool {
		return !slices.ContainsFunc(all, func(s appSelector) bool { return !s(a) })
	}, nil
}

// parseOneSelector parses the first selector of a text and returns its length, or 0.
func parseOneSelector(text string) (appSelector, int) {
	if m := setSelector.FindStringSubmatch(text); m != nil {
		var set []string
		for _, value := range setMember.FindAllString(m[3], -1) {
			set = append(set, unescapeTerm(value))
		}
		return matchLabel(m[1], func(v string) bool { return slices.Contains(set, v) == (m[2] == "in") }), len(m[0])
	}
	if m := equalitySelector.FindStringSubmatch(text); m != nil {
		return matchLabel(m[1], func(v string) bool { return (v == unescapeTerm(m[3])) == (m[2] == "==") }), len(m[0])
	}
	if m := presenceSelector.FindStringSubmatch(text); m != nil {
		return matchLabel(m[1], func(string) bool { return true }), len(m[0])
	}
	return nil, 0
}

func matchLabel(name string, holds func(value string) bool) appSelector {
	return func(a *marathon.App) bool {
		v, ok := a.Labels[unescapeTerm(name)]
		return ok && holds(v)
	}
}

func unescapeTerm(term string) string { return escapedChar.ReplaceAllString(term, "$1") }
