package job

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// placeholder matches where the value of a combination is inserted.
var placeholder = regexp.MustCompile(`\{\{ *matrix\.([A-Za-z_][A-Za-z0-9_]*) *\}\}`)

// matrixPlaceholders returns the names of the matrix that Command and Env refer to.
func (s *Spec) matrixPlaceholders() []string {
	texts := slices.AppendSeq(slices.Clone(s.Command), maps.Values(s.Env))
	var names []string
	for _, text := range texts {
		for _, found := range placeholder.FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TaskCommand returns the command of the task with these values of the matrix, which
// replace {{matrix.NAME}}. Without a matrix it returns Command. TaskEnvironment replaces
// them in Env.
func (s *Spec) TaskCommand(values map[string]string) []string {
	if s.Matrix == nil {
		return s.Command
	}
	command := slices.Clone(s.Command)
	for i := range command {
		command[i] = fillPlaceholders(command[i], values)
	}
	return command
}

// fillPlaceholders inserts values into the text. Unknown names are left unchanged.
func fillPlaceholders(text string, values map[string]string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		if v, ok := values[placeholder.FindStringSubmatch(found)[1]]; ok {
			return v
		}
		return found
	})
}
