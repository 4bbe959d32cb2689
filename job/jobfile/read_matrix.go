package jobfile

import (
	"errors"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// readMatrix reads axes, in the file's order, and the entries of include and
// exclude.
func readMatrix(n *yaml.Node, to **job.Matrix) error {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		return errors.New("needs axes and their values, for example {lr: [0.1, 0.01], seed: [1, 2]}")
	}
	m := &job.Matrix{}
	*to = m
	known := map[string]valueReader{
		"include": func(n *yaml.Node) error { return readEntries(n, &m.Include) },
		"exclude": func(n *yaml.Node) error { return readEntries(n, &m.Exclude) },
	}
	for i := 0; i < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if known[name] == nil {
			known[name] = func(n *yaml.Node) error {
				values, err := readScalars(n)
				m.Axes = append(m.Axes, job.MatrixAxis{Name: name, Values: values})
				return err
			}
		}
	}
	return readFields(n, known)
}

// readEntries reads entries of include or exclude. job.Spec.Validate checks their names.
func readEntries(n *yaml.Node, to *[]map[string]string) error {
	return readEach(n, "[{lr: 0.1, seed: 1}]", func(item *yaml.Node) error {
		var one map[string]string
		err := readPairs(item, &one)
		*to = append(*to, one)
		return err
	})
}

// readScalars reads a list of scalars, which may be empty.
func readScalars(n *yaml.Node) ([]string, error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, errors.New("needs a list of values, for example [1, 2]")
	}
	values := make([]string, len(n.Content))
	for i, item := range n.Content {
		if err := readAnyText(item, &values[i]); err != nil {
			return nil, errorAt(item, "item %d: %w", i+1, err)
		}
	}
	return values, nil
}
