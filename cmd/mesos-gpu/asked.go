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

// fact is one line of what describe tells of a thing.
type fact struct{ name, text string }

// facts prints each in a line of its own, on a terminal in as many as it needs.
func (p *printer) facts(all []fact) {
	width := 11
	for _, f := range all {
		width = max(width, len(f.name))
	}
	for _, f := range all {
		text := cleaner.Replace(printable(f.text))
		if f.name == "state" {
			text = p.paint(stateColour(f.text), text)
		} else if p.columns > 2*width && !p.wide {
			text = strings.Join(wrapAt(text, p.columns-width-1), fmt.Sprintf("\n%*s", width+1, ""))
		}
		fmt.Fprintf(p, "%-*s %s\n", width, f.name, text)
	}
}

// told are the keys of a job file that describe has words of its own for.
func told() []string {
	return []string{"name", "tasks", "matrix", "max_parallel", "gpus", "share", "gpu_type", "cpus", "mem", "command", "image", "container", "service", "after"}
}

// wishesOf are the other keys of a job's file: those that are not as they are
// anyway, or all, with what holds where nobody asked for anything.
func wishesOf(s *job.Spec, all bool) ([]fact, error) {
	given, err := keysOf(s)
	if err != nil {
		return nil, err
	}
	var list []fact
	for _, key := range jobfile.Keys() {
		value, ok := given[key.Name]
		switch {
		case slices.Contains(told(), key.Name):
		case ok && (all || value != key.Default):
			list = append(list, fact{key.Name, value})
		case all && key.Default == "":
			list = append(list, fact{key.Name, "-"})
		case all:
			list = append(list, fact{key.Name, fmt.Sprintf("- (%s)", key.Default)})
		}
	}
	return list, nil
}

// keysOf are the values of a job's file, each in a line. Of the environment
// they are the names alone: values are long, and may be nobody's business.
func keysOf(s *job.Spec) (map[string]string, error) {
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
			values[key] = strings.Join(namesIn(value), ", ")
			continue
		}
		line, err := inLine(value)
		if err != nil {
			return nil, fmt.Errorf("write %s of job %s: %w", key, s.Name, err)
		}
		values[key] = line
	}
	return values, nil
}

func namesIn(mapping *yaml.Node) (names []string) {
	for i := 0; i < len(mapping.Content); i += 2 {
		names = append(names, mapping.Content[i].Value)
	}
	return names
}

// inLine is a value as it may stand in one line of a job file.
func inLine(value *yaml.Node) (string, error) {
	if value.Kind == yaml.ScalarNode {
		return value.Value, nil
	}
	value.Style = yaml.FlowStyle
	text, err := yaml.Marshal(value)
	return strings.TrimSpace(string(text)), err
}
