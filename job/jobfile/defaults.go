package jobfile

import (
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// Defaults are values of keys that a user's jobs have if they do not set them.
type Defaults struct{ root *yaml.Node }

// NewDefaults returns the defaults of a mapping of keys, which may be empty, and of a role, "" for none. The role replaces
// that of the mapping. It returns the mistakes in the values.
func NewDefaults(keys *yaml.Node, role string) (*Defaults, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	if keys.Kind == yaml.MappingNode {
		root.Content = slices.Clone(keys.Content)
	} else if !keys.IsZero() && keys.ShortTag() != "!!null" {
		return nil, errorAt(keys, "needs keys of job files")
	}
	if role != "" {
		setKey(root, "role", &yaml.Node{Kind: yaml.ScalarNode, Value: role})
	}
	d := &Defaults{root}
	if findValue(root, "name") != nil || findValue(root, "command") != nil {
		return nil, errors.New("a job has its own name and command: they have no default")
	}
	return d, jobFormat().read(root, &job.Spec{})
}

// addTo adds the defaults to a mapping without these keys. The values have no place in the file.
func (d *Defaults) addTo(root *yaml.Node) {
	if d == nil {
		return
	}
	for i := 0; i+1 < len(d.root.Content); i += 2 {
		if key := d.root.Content[i].Value; findValue(root, key) == nil {
			setKey(root, key, withoutPlace(d.root.Content[i+1]))
		}
	}
}

// ApplyTo sets the keys of a job for whose flags no texts are given.
func (d *Defaults) ApplyTo(spec *job.Spec, given map[string][]string) error {
	if d == nil {
		return nil
	}
	readers := map[string]valueReader{}
	for _, k := range jobKeys() {
		isGiven := slices.ContainsFunc(k.flags, func(f flagOf[job.Spec]) bool { return len(given[f.Name]) > 0 })
		readers[k.name] = func(n *yaml.Node) error {
			if isGiven {
				return nil
			}
			return k.read(spec, n)
		}
	}
	return readFields(d.root, readers)
}

// withoutPlace returns a copy of a value without lines and columns.
func withoutPlace(n *yaml.Node) *yaml.Node {
	c := *n
	c.Line, c.Column = 0, 0
	c.Content = make([]*yaml.Node, len(n.Content))
	for i := range n.Content {
		c.Content[i] = withoutPlace(n.Content[i])
	}
	return &c
}
