package jobs

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/internal/term"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// describedKeys returns the job file keys that describe formats itself.
func describedKeys() []string {
	return []string{"name", "tasks", "matrix", "max_parallel", "gpus", "share", "gpu_type", "cpus", "mem", "command", "image", "container", "service", "after"}
}

// otherJobKeys returns the remaining keys of a job. It omits keys with their default
// value unless all is set; then it shows the default of keys that are not set.
func otherJobKeys(s *job.Spec, all bool) ([]term.LabeledFact, error) {
	given, err := jobKeyValues(s)
	if err != nil {
		return nil, err
	}
	var list []term.LabeledFact
	for _, key := range jobfile.Keys() {
		value, ok := given[key.Name]
		switch {
		case slices.Contains(describedKeys(), key.Name):
		case ok && (all || value != key.Default):
			list = append(list, term.LabeledFact{Name: key.Name, Text: value})
		case all && key.Default == "":
			list = append(list, term.LabeledFact{Name: key.Name, Text: "-"})
		case all:
			list = append(list, term.LabeledFact{Name: key.Name, Text: fmt.Sprintf("- (%s)", key.Default)})
		}
	}
	return list, nil
}

// jobKeyValues returns the job file keys of a job, each value on one line. For env it
// lists only the names, because values are long and may be secret.
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

// flowYAML formats a value as YAML on one line.
func flowYAML(value *yaml.Node) (string, error) {
	if value.Kind == yaml.ScalarNode {
		return value.Value, nil
	}
	value.Style = yaml.FlowStyle
	text, err := jobfile.EncodeYAML(value)
	return strings.TrimSpace(string(text)), err
}
