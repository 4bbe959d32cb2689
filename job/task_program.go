package job

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// placeholder is where the value of a task's combination is written.
var placeholder = regexp.MustCompile(`\{\{ *matrix\.([A-Za-z_][A-Za-z0-9_]*) *\}\}`)

// matrixPlaceholders are the names that command and env want of the matrix.
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

// TaskProgram is what a task runs with the values of its combination: they are in
// its environment by their names, and stand where command and env say
// {{matrix.NAME}}. Without a matrix it is Command and Env.
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

// fillPlaceholders writes values where the text names them. What has no value stays.
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
