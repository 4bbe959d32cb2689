package job

import (
	"fmt"
	"strings"
	"unicode"
)

const (
	// WorkdirPrefix begins the Workdir of a submitted job. The SHA-256 digest of an
	// archive that the scheduler stores follows, in lower-case hexadecimal.
	WorkdirPrefix = "sha256:"
	// WorkdirArchive is the name under which agents fetch the archive. Mesos's fetcher
	// unpacks it because of the suffix.
	WorkdirArchive = "workdir.tar.gz"
	// workdirDigestLength is the length of the digest in characters.
	workdirDigestLength = 64
)

// IsWorkdirDigest reports whether a Workdir names a stored archive and not a folder of
// the client.
func IsWorkdirDigest(workdir string) bool {
	digest, ok := strings.CutPrefix(workdir, WorkdirPrefix)
	return ok && len(digest) == workdirDigestLength && strings.Trim(digest, "0123456789abcdef") == ""
}

// validateWorkdir checks the key workdir. Its value may still be a folder of the client.
func (s *Spec) validateWorkdir(bad reportFunc) {
	switch {
	case s.Workdir == "":
	case len(s.Workdir) > maxURI || strings.ContainsFunc(s.Workdir, unicode.IsControl):
		bad(field("workdir"), "workdir: it has %d bytes, more than %d, or control characters", len(s.Workdir), maxURI)
	case strings.HasPrefix(s.Workdir, WorkdirPrefix) && !IsWorkdirDigest(s.Workdir):
		bad(field("workdir"), "workdir: %q is no digest: %s is followed by %d hexadecimal digits in lower case", s.Workdir, WorkdirPrefix, workdirDigestLength)
	case s.startsInWorkdirByShell() && (s.ImageEntrypoint || len(s.Command) == 0):
		bad(field("workdir").and("command", "image_entrypoint"),
			"workdir: with an image, container: %s starts only a command of its own in the working folder: give command, without image_entrypoint",
			Mesos)
	}
}

// startsInWorkdirByShell reports whether a shell must enter the working folder: Mesos
// starts a container with an image in the image's folder.
func (s *Spec) startsInWorkdirByShell() bool {
	return s.Workdir != "" && s.Containerizer == Mesos && s.Image != ""
}

// enterWorkdir is a script that starts its arguments in the sandbox.
const enterWorkdir = `cd "$MESOS_SANDBOX" && exec "$@"`

// WrapForWorkdir returns the command that starts argv in the working folder.
func (s *Spec) WrapForWorkdir(argv []string) []string {
	if !s.startsInWorkdirByShell() {
		return argv
	}
	return append([]string{"/bin/sh", "-c", enterWorkdir, "sh"}, argv...)
}

// CheckSubmittedWorkdir returns an error for a folder of the client: the scheduler
// cannot read it.
func (s *Spec) CheckSubmittedWorkdir() error {
	if s.Workdir == "" || IsWorkdirDigest(s.Workdir) {
		return nil
	}
	return fmt.Errorf("workdir: %q is a folder of the client: upload it by PUT /v1/workdirs/{digest}, as mesos-gpu submit does, and name the digest: %s…",
		s.Workdir, WorkdirPrefix)
}
