package jobfile

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// Write writes a completed job as a job file in YAML. Read reads the same job from it.
func Write(w io.Writer, spec *job.Spec) error {
	m := encodeFields(jobKeys(), spec)
	if err := checkWritable(m.node); err != nil {
		return fmt.Errorf("write job file of %s: %w", spec.Name, err)
	}
	text, err := EncodeYAML(m.node)
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		return fmt.Errorf("write job file of %s: %w", spec.Name, err)
	}
	return nil
}

// EncodeJSON returns what Write writes as JSON, in the same order.
func EncodeJSON(spec *job.Spec) (json.RawMessage, error) {
	m := encodeFields(jobKeys(), spec)
	if err := checkWritable(m.node); err != nil {
		return nil, fmt.Errorf("write job file of %s: %w", spec.Name, err)
	}
	return appendJSON(nil, m.node), nil
}

// appendJSON appends a node that encodeValue has made. Such nodes have no aliases, and their texts are UTF-8.
func appendJSON(to []byte, n *yaml.Node) []byte {
	switch n.Kind {
	case yaml.MappingNode:
		to = append(to, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendJSON(append(appendQuoted(to, n.Content[i].Value), ':'), n.Content[i+1])
		}
		return append(to, '}')
	case yaml.SequenceNode:
		to = append(to, '[')
		for i, item := range n.Content {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendJSON(to, item)
		}
		return append(to, ']')
	}
	if tag := n.ShortTag(); tag == "!!int" || tag == "!!float" || tag == "!!bool" {
		return append(to, n.Value...)
	}
	return appendQuoted(to, n.Value)
}

// appendQuoted appends a JSON string. It escapes the characters that YAML treats as line ends or rejects.
func appendQuoted(to []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // a string cannot fail to encode
	for _, r := range string(quoted) {
		if r < utf8.RuneSelf || unicode.IsPrint(r) {
			to = utf8.AppendRune(to, r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			to = fmt.Appendf(to, `\u%04x`, unit)
		}
	}
	return to
}

// checkWritable rejects text that YAML cannot represent.
func checkWritable(n *yaml.Node) error {
	if !utf8.ValidString(n.Value) {
		return fmt.Errorf("%q is not UTF-8", n.Value)
	}
	for _, inner := range n.Content {
		if err := checkWritable(inner); err != nil {
			return err
		}
	}
	return nil
}

// yamlMapping collects keys and values in their order.
type yamlMapping struct{ node *yaml.Node }

// newMapping returns a mapping without keys.
func newMapping() *yamlMapping { return &yamlMapping{&yaml.Node{Kind: yaml.MappingNode}} }

// addNonZero adds a key unless its value is nil, zero or empty.
func (m *yamlMapping) addNonZero(key string, v any) {
	if m, ok := v.(*yamlMapping); ok && len(m.node.Content) == 0 {
		return
	}
	r := reflect.ValueOf(v)
	if !r.IsValid() || r.IsZero() || (r.Kind() == reflect.Slice || r.Kind() == reflect.Map) && r.Len() == 0 {
		return
	}
	m.addKey(key, v)
}

// has reports whether a key was added.
func (m *yamlMapping) has(key string) bool { return findValue(m.node, key) != nil }

// addKey adds a key, which the mapping must not have, even if its value is zero.
func (m *yamlMapping) addKey(key string, v any) {
	m.node.Content = append(m.node.Content, wordNode(key), encodeValue(v))
}

// encodeValue encodes a value so that Read reads the same text: numbers have no
// exponents, and lists of words are in one line.
func encodeValue(v any) *yaml.Node {
	switch v := v.(type) {
	case *yamlMapping:
		return v.node
	case []any:
		return encodeList(0, v)
	case []string:
		return encodeList(yaml.FlowStyle, v)
	case map[string]string:
		m := newMapping()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m.addKey(key, v[key])
		}
		return m.node
	case string:
		return wordNode(escapeVariables(v))
	case float64:
		return plainNode(formatDecimal(v))
	case time.Duration:
		return plainNode(v.String())
	default: // numbers, true and false
		return plainNode(fmt.Sprint(v))
	}
}

// encodeList encodes a list in a style of YAML: in one line, or an item in each.
func encodeList[T any](style yaml.Style, items []T) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: style}
	for _, v := range items {
		n.Content = append(n.Content, encodeValue(v))
	}
	return n
}

// plainNode is a value without quotes: a number, true, false or a duration.
func plainNode(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// wordNode is text that is not read as a number. Text that YAML would fold or change
// is in double quotes.
func wordNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	lost := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }
	if strings.ContainsFunc(text, lost) || strings.TrimLeft(text, " \t\n") != text {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// formatDecimal has the digits that are needed to read the same number again, and no exponent, which Marathon and users
// would not expect.
func formatDecimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// formatSize returns a size that ParseSize reads as the same number. No size is empty text, which is not written.
func formatSize(mib float64) string {
	if mib == 0 {
		return ""
	}
	return formatDecimal(mib) + "MiB"
}
