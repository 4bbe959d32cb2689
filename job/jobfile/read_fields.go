package jobfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// valueReader reads the value of one key.
type valueReader func(*yaml.Node) error

// maxMistakes bounds the mistakes that are reported for one mapping. A file may come
// from any user.
const maxMistakes = 20

// readFields reads a mapping of known keys and returns all mistakes joined.
func readFields(n *yaml.Node, known map[string]valueReader) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("needs keys: %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	var errs []error
	seen := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if len(errs) >= maxMistakes {
			rest := errorAt(key, "the rest was not read: fix the %d mistakes before it", maxMistakes)
			rest.key = unreadKeys
			errs = append(errs, rest)
			break
		}
		if first, ok := seen[key.Value]; ok {
			errs = append(errs, errorAt(key, "%s is already set in line %d", key.Value, first))
			continue
		}
		seen[key.Value] = key.Line
		read, ok := known[key.Value]
		switch {
		case !ok:
			errs = append(errs, unknownKey(key, slices.Sorted(maps.Keys(known))))
		case value.Kind == yaml.AliasNode:
			errs = append(errs, errorAt(value, "%s: job files take no YAML aliases", key.Value))
		default:
			if err := inKey(key.Value, value, read(value)); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// inKey puts the key before errors about its value. Each keeps the innermost known
// place, or gets the value's.
func inKey(key string, n *yaml.Node, err error) error {
	var all []error
	for _, e := range flattenErrors(err) {
		inner, ok := e.(*lineError)
		if !ok {
			inner = errorAt(n, "%w", e)
		}
		within := *inner
		within.key, within.err = key, fmt.Errorf("%s: %w", key, inner.err)
		all = append(all, &within)
	}
	return errors.Join(all...)
}

// readEach reads the items of a list.
func readEach(n *yaml.Node, example string, read valueReader) error {
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("needs a list, for example %s", example)
	}
	var errs []error
	for i, item := range n.Content {
		err := errors.New("job files take no YAML aliases")
		if item.Kind != yaml.AliasNode {
			err = read(item)
		}
		errs = append(errs, inKey(fmt.Sprintf("item %d", i+1), item, err))
	}
	return errors.Join(errs...)
}

// findValue returns the value of a key, or nil if the mapping does not have it.
func findValue(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
