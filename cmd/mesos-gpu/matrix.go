package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// matrixColumn shows which values each task has; empty without a matrix.
type matrixColumn struct {
	title string
	all   []map[string]string
}

func valuesOf(s *job.Spec) matrixColumn {
	if s.Matrix == nil {
		return matrixColumn{}
	}
	return matrixColumn{title: "\tMATRIX", all: s.Matrix.Combinations()}
}

// of is the cell of a task, with the tab before it.
func (m matrixColumn) of(index int) string {
	if index >= len(m.all) {
		return ""
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(m.all[index])) {
		pairs = append(pairs, fmt.Sprintf("%s=%s", name, m.all[index][name]))
	}
	return "\t" + strings.Join(pairs, " ")
}

// afterOf are the jobs that a job waits for, or has waited for.
func afterOf(list []job.Dependency) string {
	words := make([]string, len(list))
	for i, d := range list {
		if words[i] = d.String(); d.Met {
			words[i] += " (it has)"
		}
	}
	return strings.Join(words, ", ")
}
