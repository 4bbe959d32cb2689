package api

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"mesos-gpu/marathon"
)

// selector tells the apps that a query wants.
type selector func(*marathon.App) bool

// searched selects by the parameters of GET /v2/apps: cmd and id are parts of
// the app's, in either case of letters, label is a label selector.
func searched(cmd, id, label string) (selector, error) {
	labels, err := labelSelector(label)
	if err != nil {
		return nil, err
	}
	contains := func(whole, part string) bool { return strings.Contains(strings.ToLower(whole), strings.ToLower(part)) }
	return func(a *marathon.App) bool {
		return contains(a.Cmd, cmd) && contains(a.ID, id) && labels(a)
	}, nil
}

// A term has letters, digits, dots, dashes and underscores; a backslash
// stands before any other character.
const term = `((?:\\.|[-A-Za-z0-9_.])+)`

var (
	escaped = regexp.MustCompile(`\\(.)`)
	// One selector at the start of a text: a set, a comparison or a name.
	inSet    = regexp.MustCompile(`^\s*` + term + `\s+(in|notin)\s*\(\s*((?:` + term + `(?:\s*,\s*` + term + `)*)?)\s*\)\s*`)
	equality = regexp.MustCompile(`^\s*` + term + `\s*(==|!=)\s*` + term + `\s*`)
	present  = regexp.MustCompile(`^\s*` + term + `\s*`)
	member   = regexp.MustCompile(term)
)

// labelSelector reads Marathon's label selectors, of which all must hold:
// name, name==value, name!=value, name in (a, b), name notin (a, b). An app
// without the label passes none of them. Empty text selects all apps.
func labelSelector(text string) (selector, error) {
	var all []selector
	for rest := text; strings.TrimSpace(rest) != ""; {
		one, n := oneSelector(rest)
		if n == 0 || n < len(rest) && rest[n] != ',' {
			return nil, problemf(http.StatusUnprocessableEntity, "read the label selector %q: at %q: write name, name==value, name!=value, name in (a, b) or name notin (a, b), with commas between", text, rest)
		}
		all = append(all, one)
		if rest = rest[n:]; rest == "," {
			return nil, problemf(http.StatusUnprocessableEntity, "read the label selector %q: nothing follows the last comma", text)
		}
		rest = strings.TrimPrefix(rest, ",")
	}
	return func(a *marathon.App) bool {
		return !slices.ContainsFunc(all, func(s selector) bool { return !s(a) })
	}, nil
}

// oneSelector reads the first selector of text and says how long it is; 0 is
// none.
func oneSelector(text string) (selector, int) {
	if m := inSet.FindStringSubmatch(text); m != nil {
		var set []string
		for _, value := range member.FindAllString(m[3], -1) {
			set = append(set, plain(value))
		}
		return labelled(m[1], func(v string) bool { return slices.Contains(set, v) == (m[2] == "in") }), len(m[0])
	}
	if m := equality.FindStringSubmatch(text); m != nil {
		return labelled(m[1], func(v string) bool { return (v == plain(m[3])) == (m[2] == "==") }), len(m[0])
	}
	if m := present.FindStringSubmatch(text); m != nil {
		return labelled(m[1], func(string) bool { return true }), len(m[0])
	}
	return nil, 0
}

func labelled(name string, holds func(value string) bool) selector {
	return func(a *marathon.App) bool {
		v, ok := a.Labels[plain(name)]
		return ok && holds(v)
	}
}

func plain(term string) string { return escaped.ReplaceAllString(term, "$1") }
