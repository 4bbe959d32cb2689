package jobfile

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// Edit changes the keys of a job that users may change after its submission.
type Edit struct {
	// root is the mapping of keys. Apply reads it again for each job, whose labels and variables it merges.
	root *yaml.Node
	// name is the name of the file, for errors.
	name string
}

// ReadEdit parses an edit: a mapping of keys, in YAML or JSON. The value null restores the default of a key, and of a
// label or a variable of env removes it. Labels and variables that are not mentioned stay.
func ReadEdit(r io.Reader, name string) (*Edit, error) {
	docs, err := readDocuments(r, name)
	if err != nil {
		return nil, err
	}
	if len(docs) > 1 {
		return nil, formatMistakes(name, []error{errorAt(docs[1], "a second document starts here: one edit is expected")})
	}
	root, err := findRoot(docs[0])
	if err != nil {
		return nil, formatMistakes(name, []error{err})
	}
	e := &Edit{root, name}
	return e, e.Apply(&job.Spec{}) // mistakes of the edit itself are reported before there is a job
}

// Apply changes a job. It does not validate the result, and does not modify maps of the job. If it fails, the job may be
// changed in part.
func (e *Edit) Apply(spec *job.Spec) error {
	readers := map[string]valueReader{}
	for _, k := range jobKeys() {
		if !slices.Contains(EditableKeys(), k.name) {
			readers[k.name] = func(*yaml.Node) error {
				return fmt.Errorf("cannot be changed after the submission; %s can", strings.Join(EditableKeys(), ", "))
			}
			continue
		}
		readers[k.name] = func(n *yaml.Node) error {
			if n.Kind == yaml.MappingNode {
				switch k.name {
				case "labels":
					return mergePairs(n, &spec.Labels)
				case "env":
					return mergePairs(n, &spec.Env)
				}
			}
			k.reset(spec)
			if n.ShortTag() == "!!null" {
				return nil
			}
			return k.read(spec, n)
		}
	}
	if err := readFields(e.root, readers); err != nil {
		return formatMistakes(e.name, limitMistakes(flattenErrors(err)))
	}
	return nil
}

// EditableKeys returns the keys that users may change after the submission, sorted. They match
// job.Spec.CopyEditable.
func EditableKeys() []string {
	return []string{
		"command", "cpus", "disk", "env", "gpu_type", "gpus", "labels", "max_parallel", "max_wait", "mem", "min_run_time", "notify",
		"on_timeout", "preempt_after", "preemptible", "priority", "retries", "role", "run_time", "timeout",
	}
}

// mergePairs sets the pairs of a mapping and removes those whose value is null. It replaces the map, which other copies of the
// job may share.
func mergePairs(n *yaml.Node, pairs *map[string]string) error {
	merged := maps.Clone(*pairs)
	if merged == nil {
		merged = map[string]string{}
	}
	var errs []error
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if seen[key.Value] {
			errs = append(errs, errorAt(key, "%s is given twice", key.Value))
			continue
		}
		seen[key.Value] = true
		if value.ShortTag() == "!!null" {
			delete(merged, key.Value)
			continue
		}
		var text string
		if err := readAnyText(value, &text); err != nil {
			errs = append(errs, inKey(key.Value, value, err))
		}
		merged[key.Value] = text
	}
	if *pairs = merged; len(merged) == 0 {
		*pairs = nil
	}
	return errors.Join(errs...)
}

// EditFlags returns the flags of the editable keys.
func EditFlags() []Flag {
	var all []Flag
	for _, k := range jobKeys() {
		if slices.Contains(EditableKeys(), k.name) {
			all = append(all, listFlags(k.flags)...)
		}
	}
	return all
}

// EncodeEdit returns the edit that flags, with the texts that each was given, and overrides describe. It is encoded as
// JSON.
func EncodeEdit(given map[string][]string, overrides []Override) (map[string]any, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range jobKeys() {
		spec := &job.Spec{}
		for _, f := range k.flags {
			texts := given[f.Name]
			if len(texts) == 0 {
				continue
			}
			if err := f.apply(spec, texts); err != nil {
				return nil, fmt.Errorf("--%s: %w", f.Name, err)
			}
			m := newMapping()
			m.addNonZero(k.name, k.write(spec))
			value := findValue(m.node, k.name)
			if value == nil {
				value = nullNode()
			}
			setKey(root, k.name, value)
		}
	}
	for _, o := range overrides {
		if o.value == nil {
			o.value = nullNode()
		}
		if err := o.apply(root); err != nil {
			return nil, err
		}
	}
	var edit map[string]any
	if err := root.Decode(&edit); err != nil {
		return nil, fmt.Errorf("encode edit: %w", err)
	}
	return edit, nil
}

// nullNode is the value that restores the default of a key.
func nullNode() *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"} }
