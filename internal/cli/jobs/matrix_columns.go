package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

// matrixColumns returns a column for each axis of a job's matrix, and nil without a
// matrix.
func matrixColumns(s *job.Spec) []term.TableColumn[job.Task] {
	if s.Matrix == nil {
		return nil
	}
	_, of := s.Matrix.Combinations()
	return []term.TableColumn[job.Task]{{Name: "MATRIX", Value: func(t job.Task) string {
		values := of(t.Index)
		if values == nil {
			return "-"
		}
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(values)) {
			pairs = append(pairs, fmt.Sprintf("%s=%s", name, values[name]))
		}
		return strings.Join(pairs, " ")
	}}}
}

// formatDependencies lists the jobs that a job depends on.
func formatDependencies(list []job.Dependency) string {
	words := make([]string, len(list))
	for i, d := range list {
		if words[i] = d.String(); d.Met {
			words[i] += " (it has)"
		}
	}
	return strings.Join(words, ", ")
}
