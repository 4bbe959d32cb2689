package jobfile

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// shownKeys are the keys whose values DescribeChange may contain. Every user who may see a job may read them, also if its
// output is private.
var shownKeys = []string{
	"max_parallel", "gpus", "gpu_type", "cpus", "mem", "disk", "image", "role", "priority", "preemptible", "guaranteed", "retries", "timeout",
	"idle_timeout", "on_timeout", "min_run_time", "preempt_after", "run_time", "max_wait", "kill_grace",
}

// maxShownValue limits the values in a description, in bytes.
const maxShownValue = 64

// DescribeChange returns the keys in which two specifications of a job differ, in the order of the documentation: "gpus 8 to
// 4, env". Only short values of some keys are included, and no secrets. The number of tasks is left out.
func DescribeChange(from, to *job.Spec) string {
	var changed []string
	for _, k := range jobKeys() {
		before, after := k.writtenValue(from), k.writtenValue(to)
		if k.name == "tasks" || isSameNode(before, after) {
			continue
		}
		text := k.name
		if slices.Contains(shownKeys, k.name) {
			if was, is := k.describeValue(before), k.describeValue(after); was != "" && is != "" && was != is {
				text += " " + was + " to "
				if k.name == "role" { // job.NameMask finds a role after this word only
					text += "role "
				}
				text += is
			}
		}
		changed = append(changed, text)
	}
	return strings.Join(changed, ", ")
}

// writtenValue returns the value of a key in the job file of a specification, nil if the file lacks the key.
func (k keyField[S]) writtenValue(s *S) *yaml.Node {
	return findValue(encodeFields([]keyField[S]{k}, s).node, k.name)
}

func isSameNode(a, b *yaml.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(appendJSON(nil, a), appendJSON(nil, b))
}

// describeValue returns a short text for a value, or for its absence; "" if there is none.
func (k keyField[S]) describeValue(n *yaml.Node) string {
	text := ""
	switch {
	case n == nil:
		text = "none"
		if end := strings.IndexAny(k.def+":", "[,:"); end > 0 && !strings.HasPrefix(k.def[end:], "[") { // a text without a link
			text = strings.ReplaceAll(k.def[:end], "`", "")
		}
	case n.Kind == yaml.ScalarNode:
		text = n.Value
		if d, err := time.ParseDuration(text); err == nil && d%time.Minute == 0 && d > 0 {
			text = strings.TrimSuffix(strings.TrimSuffix(text, "0s"), "h0m")
			if d%time.Hour == 0 {
				text += "h"
			}
		}
	case n.Kind == yaml.SequenceNode && !slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return item.Kind != yaml.ScalarNode }):
		var words []string
		for _, item := range n.Content {
			words = append(words, item.Value)
		}
		text = strings.Join(words, ",")
	}
	if len(text) > maxShownValue {
		return ""
	}
	return text
}
