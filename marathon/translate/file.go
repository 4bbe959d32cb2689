package translate

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// File writes a job as the job file that says the same, and names its keys.
func File(spec *job.Spec) (text []byte, keys []string, err error) {
	m := ofJob(spec)
	for i := 0; i < len(m.node.Content); i += 2 {
		keys = append(keys, m.node.Content[i].Value)
	}
	if m.err != nil {
		return nil, nil, fmt.Errorf("write job %s: %w", spec.Name, m.err)
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(m.node); err != nil {
		return nil, nil, fmt.Errorf("write job %s: %w", spec.Name, err)
	}
	return b.Bytes(), keys, nil
}

// mapping collects keys that have values, in order.
type mapping struct {
	node *yaml.Node
	err  error
}

func newMapping() *mapping { return &mapping{node: &yaml.Node{Kind: yaml.MappingNode}} }

// put leaves out what a job file leaves out too: nil, zero and empty.
func (m *mapping) put(key string, v any) {
	switch v := v.(type) {
	case string:
		if v == "" {
			return
		}
	case bool:
		if !v {
			return
		}
	case int:
		if v == 0 {
			return
		}
	case float64:
		if v == 0 {
			return
		}
	case []string:
		if len(v) == 0 {
			return
		}
	case map[string]string:
		if len(v) == 0 {
			return
		}
	}
	m.set(key, v)
}

func (m *mapping) set(key string, v any) {
	name, err := encode(key)
	value, err2 := encode(v)
	if err == nil {
		err = err2
	}
	if err != nil && m.err == nil {
		m.err = fmt.Errorf("%s: %w", key, err)
		return
	}
	m.node.Content = append(m.node.Content, name, value)
}

// encode writes a value so that the job file's reader reads the same words:
// numbers without exponents, lists of words in one line.
func encode(v any) (*yaml.Node, error) {
	switch v := v.(type) {
	case *mapping:
		return v.node, v.err
	case []*mapping:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, m := range v {
			if m.err != nil {
				return nil, m.err
			}
			list.Content = append(list.Content, m.node)
		}
		return list, nil
	case [][]string:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for _, words := range v {
			n, err := encode(words)
			if err != nil {
				return nil, err
			}
			list.Content = append(list.Content, n)
		}
		return list, nil
	case []string:
		list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, word := range v {
			n, err := encode(word)
			if err != nil {
				return nil, err
			}
			list.Content = append(list.Content, n)
		}
		return list, nil
	case map[string]string:
		m := newMapping()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			m.set(key, v[key])
		}
		return m.node, m.err
	case float64:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: decimal(v)}, nil
	case time.Duration:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}, nil
	default:
		n := &yaml.Node{}
		err := n.Encode(v)
		return n, err
	}
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
