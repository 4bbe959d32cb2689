package task

import (
	"path"
	"regexp"
	"strings"
)

// Exit codes of programs that cannot be started, as in shells.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

// startFailurePattern matches how Go, runc and Mesos's launcher report that a program does
// not start: the program, then the reason.
var startFailurePattern = regexp.MustCompile(`(?:exec:?|start|Failed to execute) ['"]?([^\s"':]+)['"]?(?: in [^:]+)?: ` +
	`((?i:no such|executable file not found|exec format|permission denied|is a directory|fork/exec|stat ).*)`)

// ParseStartFailure returns the exit code of a shell and a message if the text, an error or
// the output of a launcher, reports that the program cannot be started. For other texts it
// returns 0: a reason may also be about another file.
func ParseStartFailure(program, text string) (code int, message string) {
	found := startFailurePattern.FindStringSubmatch(text)
	if found == nil || path.Base(found[1]) != path.Base(program) {
		return 0, ""
	}
	reason := strings.ToLower(found[2])
	switch {
	case strings.Contains(reason, "permission denied"):
		return exitCannotRun, program + ": permission denied"
	case strings.Contains(reason, "is a directory"):
		return exitCannotRun, program + ": is a directory"
	case strings.Contains(reason, "exec format"):
		return exitCannotRun, program + ": exec format error"
	case strings.Contains(reason, "no such"), strings.Contains(reason, "not found"):
		return exitNotFound, program + ": not found"
	}
	return 0, ""
}
