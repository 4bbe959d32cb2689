package jobfile

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// Write writes a job that has its defaults as a job file: Read makes the same
// job of it.
func Write(w io.Writer, spec *job.Spec) error {
	m := ofJob(spec)
	if err := writable(m.node); err != nil {
		return fmt.Errorf("write job file of %s: %w", spec.Name, err)
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(m.node); err != nil {
		return fmt.Errorf("write job file of %s: %w", spec.Name, err)
	}
	return nil
}

// writable refuses what YAML has no letters for.
func writable(n *yaml.Node) error {
	if !utf8.ValidString(n.Value) {
		return fmt.Errorf("%q is no UTF-8", n.Value)
	}
	for _, inner := range n.Content {
		if err := writable(inner); err != nil {
			return err
		}
	}
	return nil
}

// mapping collects keys and values in order.
type mapping struct{ node *yaml.Node }

func newMapping() *mapping { return &mapping{&yaml.Node{Kind: yaml.MappingNode}} }

// put leaves out what a job file leaves out too: nil, zero and empty.
func (m *mapping) put(key string, v any) {
	r := reflect.ValueOf(v)
	if !r.IsValid() || r.IsZero() || (r.Kind() == reflect.Slice || r.Kind() == reflect.Map) && r.Len() == 0 {
		return
	}
	m.set(key, v)
}

func (m *mapping) set(key string, v any) {
	m.node.Content = append(m.node.Content, encode(key), encode(v))
}

// encode writes a value so that the reader reads the same words: numbers
// without exponents, lists of words in one line.
func encode(v any) *yaml.Node {
	switch v := v.(type) {
	case *mapping:
		return v.node
	case []*mapping:
		return list(0, v)
	case [][]string:
		return list(0, v)
	case []string:
		return list(yaml.FlowStyle, v)
	case map[string]string:
		m := newMapping()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m.set(key, v[key])
		}
		return m.node
	case string:
		return word(v)
	case float64:
		return plain(decimal(v))
	case time.Duration:
		return plain(v.String())
	default: // numbers, true and false
		return plain(fmt.Sprint(v))
	}
}

func list[T any](style yaml.Style, items []T) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: style}
	for _, v := range items {
		n.Content = append(n.Content, encode(v))
	}
	return n
}

func plain(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// word is text that is never read as a number. What YAML would fold or lose
// stands in double quotes.
func word(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	lost := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
	if strings.ContainsFunc(text, lost) || strings.TrimLeft(text, " \t\n") != text {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
