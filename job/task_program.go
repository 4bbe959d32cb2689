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

// TaskProgram returns the command and the environment of the task with these values of
// the matrix. The values are added to the environment, and replace {{matrix.NAME}} in
// Command and Env. Without a matrix it returns Command and Env.
func (s *Spec) TaskProgram(values map[string]string) (command []string, env map[string]string) {
	if s.Matrix == nil {
		return s.Command, s.Env
	}
	command, env = slices.Clone(s.Command), maps.Clone(s.Env)
	for i := range command {
		command[i] = fillPlaceholders(command[i], values)
	}
	if env == nil {
		env = map[string]string{}
	}
	for name, text := range env {
		env[name] = fillPlaceholders(text, values)
	}
	maps.Copy(env, values)
	return command, env
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
