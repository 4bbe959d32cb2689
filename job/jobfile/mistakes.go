package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
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
	said := map[string]bool{}
	lines := make([]error, len(mistakes))
	for i, m := range mistakes {
		lines[i] = fmt.Errorf("%s: %w", name, m)
		if e, ok := m.(*lineError); ok {
			lines[i] = e.inFile(name, said)
		}
	}
	return errors.Join(lines...)
}

// inFile returns, for example, "train.yaml:3:7: mem: …".
func (e *lineError) inFile(name string, said map[string]bool) error {
	place := fmt.Sprintf("%s:%d", name, e.line)
	if e.column > 0 {
		place += fmt.Sprintf(":%d", e.column)
	}
	if e.known == "" || said[e.known] {
		return fmt.Errorf("%s: %w", place, e.err)
	}
	said[e.known] = true
	return fmt.Errorf("%s: %w; the keys are %s", place, e.err, e.known)
}

var keyWord = regexp.MustCompile(`[A-Za-z0-9_]+`)

// independentMistakes removes mistakes that may be consequences of others: those that name a key whose value could
// not be read.
func independentMistakes(others []error, found []error) []error {
	doubted := map[string]bool{}
	for _, err := range others {
		e, ok := err.(*lineError)
		if !ok || e.key == unreadKeys {
			return nil
		}
		doubted[e.key] = true
	}
	return slices.DeleteFunc(found, func(err error) bool {
		return slices.ContainsFunc(keyWord.FindAllString(err.Error(), -1), func(w string) bool { return doubted[w] })
	})
}

// limitMistakes returns at most maxMistakes, and how many more there are.
func limitMistakes(found []error) []error {
	if more := len(found) - maxMistakes; more > 0 {
		return append(found[:maxMistakes:maxMistakes], fmt.Errorf("%d more mistakes: fix the others first", more))
	}
	return found
}

// locateMistakes adds places to errors of job.Spec.Validate. An error begins with the
// key that it is about. If it names several keys, the first that is in the file counts.
func locateMistakes(root *yaml.Node, found []error) []error {
	for i, err := range found {
		head, rest, _ := strings.Cut(err.Error(), ": ")
		for _, w := range keyWord.FindAllString(head, -1) {
			if n := findValue(root, w); n != nil {
				n = locateInside(n, rest)
				found[i] = &lineError{line: n.Line, column: n.Column, err: err}
				break
			}
		}
	}
	return found
}

var itemNumber = regexp.MustCompile(`^item ([0-9]+)$`)

// locateInside returns the innermost value inside n that the text names, by keys, by
// numbers of items, or by quoted text.
func locateInside(n *yaml.Node, text string) *yaml.Node {
	for {
		head, rest, _ := strings.Cut(text, ": ")
		var next *yaml.Node
		switch n.Kind {
		case yaml.SequenceNode:
			next = findItem(n, head, text)
		case yaml.MappingNode:
			name := keyWord.FindString(head)
			if strings.HasPrefix(text, `"`) {
				name = firstQuoted(text)
			}
			next = findValue(n, name)
		}
		if next == nil {
			return n
		}
		n, text = next, rest
	}
}

// findItem returns the item with the number in head, or the first that contains what
// text quotes first. It returns nil if there is no such item.
func findItem(list *yaml.Node, head, text string) *yaml.Node {
	if m := itemNumber.FindStringSubmatch(head); m != nil {
		if i, err := strconv.Atoi(m[1]); err == nil && 1 <= i && i <= len(list.Content) {
			return list.Content[i-1]
		}
		return nil
	}
	quoted := firstQuoted(text)
	if i := slices.IndexFunc(list.Content, func(n *yaml.Node) bool { return quoted != "" && containsText(n, quoted) }); i >= 0 {
		return list.Content[i]
	}
	return nil
}

// firstQuoted returns the first quoted part of the text, or "".
func firstQuoted(text string) string {
	begin := max(0, strings.Index(text, `"`))
	quoted, err := strconv.QuotedPrefix(text[begin:])
	if err != nil {
		return ""
	}
	plain, _ := strconv.Unquote(quoted)
	return plain
}

// containsText reports whether the value, or a value inside it, is the text or starts with it.
func containsText(n *yaml.Node, text string) bool {
	if n.Kind == yaml.ScalarNode {
		return n.Value == text || strings.HasPrefix(n.Value, text+":") || strings.HasPrefix(n.Value, text+"=")
	}
	return slices.ContainsFunc(n.Content, func(part *yaml.Node) bool { return containsText(part, text) })
}
