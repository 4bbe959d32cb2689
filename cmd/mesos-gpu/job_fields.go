package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// labeledFact is one line of what describe tells of a thing.
type labeledFact struct{ name, text string }

// printFacts prints each in a line of its own, on a terminal in as many as it needs.
func (p *tablePrinter) printFacts(all []labeledFact) {
	width := 11
	for _, f := range all {
		width = max(width, len(f.name))
	}
	for _, f := range all {
		text := cellCleaner.Replace(escapeControls(f.text))
		if f.name == "state" {
			text = p.colorize(stateColor(f.text), text)
		} else if p.columns > 2*width && !p.wide {
			text = strings.Join(wrapAt(text, p.columns-width-1), fmt.Sprintf("\n%*s", width+1, ""))
		}
		fmt.Fprintf(p, "%-*s %s\n", width, f.name, text)
	}
}

// describedKeys are the keys of a job file that describe has words of its own for.
func describedKeys() []string {
	return []string{"name", "tasks", "matrix", "max_parallel", "gpus", "share", "gpu_type", "cpus", "mem", "command", "image", "container", "service", "after"}
}

// otherJobKeys are the other keys of a job's file: those that are not as they are
// anyway, or all, with what holds where nobody asked for anything.
func otherJobKeys(s *job.Spec, all bool) ([]labeledFact, error) {
	given, err := jobKeyValues(s)
	if err != nil {
		return nil, err
	}
	var list []labeledFact
	for _, key := range jobfile.Keys() {
		value, ok := given[key.Name]
		switch {
		case slices.Contains(describedKeys(), key.Name):
		case ok && (all || value != key.Default):
			list = append(list, labeledFact{key.Name, value})
		case all && key.Default == "":
			list = append(list, labeledFact{key.Name, "-"})
		case all:
			list = append(list, labeledFact{key.Name, fmt.Sprintf("- (%s)", key.Default)})
		}
	}
	return list, nil
}

// jobKeyValues are the values of a job's file, each in a line. Of the environment
// they are the names alone: values are long, and may be nobody's business.
func jobKeyValues(s *job.Spec) (map[string]string, error) {
	var text bytes.Buffer
	if err := jobfile.Write(&text, s); err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text.Bytes(), &doc); err != nil {
		return nil, fmt.Errorf("read job file of %s: %w", s.Name, err)
	}
	values := map[string]string{}
	for pairs := doc.Content[0].Content; len(pairs) > 0; pairs = pairs[2:] {
		key, value := pairs[0].Value, pairs[1]
		if key == "env" {
			values[key] = strings.Join(mappingKeys(value), ", ")
			continue
		}
		line, err := flowYAML(value)
		if err != nil {
			return nil, fmt.Errorf("write %s of job %s: %w", key, s.Name, err)
		}
		values[key] = line
	}
	return values, nil
}

func mappingKeys(mapping *yaml.Node) (names []string) {
	for i := 0; i < len(mapping.Content); i += 2 {
		names = append(names, mapping.Content[i].Value)
	}
	return names
}

// flowYAML is a value as it may stand in one line of a job file.
func flowYAML(value *yaml.Node) (string, error) {
	if value.Kind == yaml.ScalarNode {
		return value.Value, nil
	}
	value.Style = yaml.FlowStyle
	text, err := yaml.Marshal(value)
	return strings.TrimSpace(string(text)), err
}
