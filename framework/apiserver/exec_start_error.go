package apiserver

import (
	"errors"
	"net/http"
	"path"
	"regexp"
	"strings"

	"mesos-gpu/framework/api"
)

// startErrorPattern matches how Go, runc and the agent report that a program
// does not start: the program, then the reason.
var startErrorPattern = regexp.MustCompile(`(?:exec:?|start) "?([^\s":]+)"?(?: in [^:]+)?: ` +
	`(?:fork/exec [^\s":]+: |stat [^\s":]+: )?(no such.*|exec.*|permission denied|is a directory)`)

// classifyStartError sets the code of an agent's problem that reports that the
// program does not start. It leaves other errors as they are: a reason may also
// be about another file.
func classifyStartError(program string, err error) error {
	var p *api.Problem
	if !errors.As(err, &p) || p.Status == http.StatusNotFound {
		return err
	}
	found := startErrorPattern.FindStringSubmatch(p.Detail)
	if found == nil || path.Base(found[1]) != path.Base(program) {
		return err
	}
	for _, reason := range []struct {
		text string
		code api.ProblemCode
	}{
		{"no such program", api.CodeProgramNotFound},
		{"executable file not found", api.CodeProgramNotFound},
		{"no such file or directory", api.CodeProgramNotFound},
		{"permission denied", api.CodeProgramNotPermitted},
		{"exec format error", api.CodeProgramWrongFormat},
		{"is a directory", api.CodeProgramIsDirectory},
	} {
		if strings.HasPrefix(found[2], reason.text) {
			return p.WithCode(reason.code, program)
		}
	}
	return err
}
