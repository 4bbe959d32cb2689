package jobfile

import (
	"bytes"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// The private use area of Unicode's first plane.
const (
	firstPrivate = '\uE000'
	lastPrivate  = '\uF8FF'
)

// EncodeYAML formats a node without aliases as YAML. The encoder writes characters above U+FFFF, such as emoji, as escapes,
// although YAML permits them; EncodeYAML writes the printable ones as they are.
func EncodeYAML(node *yaml.Node) ([]byte, error) {
	// The encoder gets a character for private use in place of each of them, which the node does not contain otherwise.
	present, replaced := map[rune]bool{}, map[rune]rune{}
	visitValues(node, func(value *string) {
		for _, r := range *value {
			present[r] = true
		}
	})
	var restore []string
	unused := firstPrivate
	for r := range present {
		for unused <= lastPrivate && present[unused] {
			unused++
		}
		if r <= '\uFFFF' || !unicode.IsPrint(r) || unused > lastPrivate {
			continue
		}
		replaced[r] = unused
		restore = append(restore, string(unused), string(r))
		unused++
	}
	if len(replaced) > 0 {
		node = cloneNode(node)
		visitValues(node, func(value *string) {
			*value = strings.Map(func(r rune) rune {
				if private, ok := replaced[r]; ok {
					return private
				}
				return r
			}, *value)
		})
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(node); err != nil {
		return nil, err
	}
	if len(replaced) == 0 {
		return out.Bytes(), nil
	}
	return []byte(strings.NewReplacer(restore...).Replace(out.String())), nil
}

// visitValues calls visit with the value of the node and of each node below it.
func visitValues(n *yaml.Node, visit func(value *string)) {
	visit(&n.Value)
	for _, child := range n.Content {
		visitValues(child, visit)
	}
}

func cloneNode(n *yaml.Node) *yaml.Node {
	clone := *n
	clone.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		clone.Content[i] = cloneNode(child)
	}
	return &clone
}
