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
