package job

import "strings"

// UnixUserPrefix is the prefix of the owner of a job whose submitter was identified as a user
// of the scheduler's machine, through a unix socket.
const UnixUserPrefix = "unix:"

// UnixUser returns the machine's user whom an owner stands for, or "" if it is not one.
func UnixUser(owner string) string {
	name, ok := strings.CutPrefix(owner, UnixUserPrefix)
	if !ok {
		return ""
	}
	return name
}

// RunsAsOwner reports whether the tasks run as the user of the machine who owns the job.
func (s *Spec) RunsAsOwner() bool {
	name := UnixUser(s.Owner)
	return name != "" && (s.HostUser != nil || s.Image == "" && s.User == name)
}
