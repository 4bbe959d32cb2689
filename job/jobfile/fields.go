package jobfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader reads the value of one key.
type reader func(*yaml.Node) error

// maxMistakes bounds how many are told of one mapping: files come from anybody.
const maxMistakes = 20

// fields reads a mapping of known keys, and says everything that is wrong
// with it.
func fields(n *yaml.Node, known map[string]reader) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("needs keys: %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	var errs []error
	seen := map[string]int{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if len(errs) >= maxMistakes {
			rest := at(key, "what follows was not read: mend the %d mistakes before it", maxMistakes)
			rest.key = unread
			errs = append(errs, rest)
			break
		}
		if first, ok := seen[key.Value]; ok {
			errs = append(errs, at(key, "%s stands already in line %d", key.Value, first))
			continue
		}
		seen[key.Value] = key.Line
		read, ok := known[key.Value]
		switch {
		case !ok:
			errs = append(errs, unknownKey(key, slices.Sorted(maps.Keys(known))))
		case value.Kind == yaml.AliasNode:
			errs = append(errs, at(value, "%s: job files take no YAML aliases", key.Value))
		default:
			if err := within(key.Value, value, read(value)); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// within begins what is wrong inside a key's value with the key. The place is
// the innermost that is known.
func within(key string, n *yaml.Node, err error) error {
	var all []error
	for _, e := range flat(err) {
		inner, ok := e.(*lineError)
		if !ok {
			inner = at(n, "%w", e)
		}
		within := *inner
		within.key, within.err = key, fmt.Errorf("%s: %w", key, inner.err)
		all = append(all, &within)
	}
	return errors.Join(all...)
}

// each reads a list, item by item.
func each(n *yaml.Node, example string, read reader) error {
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("needs a list, for example %s", example)
	}
	var errs []error
	for i, item := range n.Content {
		err := errors.New("job files take no YAML aliases")
		if item.Kind != yaml.AliasNode {
			err = read(item)
		}
		errs = append(errs, within(fmt.Sprintf("item %d", i+1), item, err))
	}
	return errors.Join(errs...)
}
