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

// lineError is a complaint about one place of the file.
type lineError struct {
	line, column int // column 0 is not known
	err          error
	// key is the outermost key whose value is in doubt for it: "" is none,
	// unread all those that follow.
	key string
	// known are the keys that there are, for who has to look them up.
	known string
}

// unreadKeys stands for the keys that were not looked at.
const unreadKeys = "*"

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

func errorAt(n *yaml.Node, format string, args ...any) *lineError {
	return &lineError{line: n.Line, column: n.Column, err: fmt.Errorf(format, args...)}
}

// flattenErrors are several joined errors, one by one.
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

// formatMistakes says each mistake, beginning with the file and the place, in the
// order of the places; those without one come last. A list of keys is said
// once.
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

// inFile reads "train.yaml:3:7: mem: …".
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

// independentMistakes are those of the mistakes that a whole job has which do not follow
// from others: none of the words in it is a key in doubt.
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

// limitMistakes are no more than are told of one mapping.
func limitMistakes(found []error) []error {
	if more := len(found) - maxMistakes; more > 0 {
		return append(found[:maxMistakes:maxMistakes], fmt.Errorf("%d more mistakes: mend the others first", more))
	}
	return found
}

// locateMistakes are mistakes of job.Spec.Validate with their places: each begins with
// the key that it is about, or with several of which the first that stands in
// the file counts.
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

// locateInside follows a mistake's text into a value as far as it names what is
// there: keys, items by their number, or what it quotes.
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

// findItem is the one whose number the head of a text is, or that holds what the
// text quotes first; nil where there is none.
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

// firstQuoted is what the text has between quotes, "" where it has nothing.
func firstQuoted(text string) string {
	begin := max(0, strings.Index(text, `"`))
	quoted, err := strconv.QuotedPrefix(text[begin:])
	if err != nil {
		return ""
	}
	plain, _ := strconv.Unquote(quoted)
	return plain
}

// containsText reports whether a value is the text, or has it among its own.
func containsText(n *yaml.Node, text string) bool {
	if n.Kind == yaml.ScalarNode {
		return n.Value == text || strings.HasPrefix(n.Value, text+":") || strings.HasPrefix(n.Value, text+"=")
	}
	return slices.ContainsFunc(n.Content, func(part *yaml.Node) bool { return containsText(part, text) })
}
