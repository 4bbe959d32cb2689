package job

import (
	"path"
	"slices"
	"strings"
	"unicode"
)

// ChdirSubmit is the Chdir of a job file whose tasks start in the folder of the submission. The client replaces it by its path.
const ChdirSubmit = "submit"

// validateChdir checks the key chdir. Its value may still be ChdirSubmit.
func (s *Spec) validateChdir(bad reportFunc) {
	switch {
	case s.Chdir == "":
	case len(s.Chdir) > maxURI || strings.ContainsFunc(s.Chdir, unicode.IsControl):
		bad(field("chdir"), "chdir: it has %d bytes, more than %d, or control characters", len(s.Chdir), maxURI)
	case s.Chdir != ChdirSubmit && (!path.IsAbs(s.Chdir) || path.Clean(s.Chdir) != s.Chdir):
		bad(field("chdir"), "chdir: %q is neither %s, the folder of the submission, nor an absolute path without . and ..", s.Chdir, ChdirSubmit)
	case s.Image != "":
		bad(field("chdir").and("image"), "chdir: a task with an image has other folders than its agent: mount the folder by volumes, and enter it in command")
	case s.Workdir != "":
		bad(field("chdir").and("workdir"), "chdir and workdir: each is where the tasks start: choose one")
	}
}

// enterFolder is a script that starts its other arguments in the folder of the first one. The shell sets PWD to that path, also if
// it is one of a link.
const enterFolder = `cd -- "$1" || {
	printf 'mesos-gpu: the task cannot start in %s on %s as %s: submit from a folder that this user can enter on all agents, or leave out chdir\n' \
		"$1" "$(uname -n)" "$(id -un)" >&2
	exit 126
}
shift
exec "$@"
`

// StartInFolder returns the command that starts argv in a folder of the agent, with the rights of the task's user. If the user cannot
// enter the folder, the command fails and prints why.
func StartInFolder(folder string, argv []string) []string {
	return slices.Concat([]string{"/bin/sh", "-c", enterFolder, "mesos-gpu", folder}, argv)
}
