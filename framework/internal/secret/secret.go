// Package secret reads files that only their owner should be able to read. It never
// includes their contents in errors or warnings.
package secret

import (
	"fmt"
	"os"
	"strings"
)

// ReadFile returns the file's text without surrounding white space. The warning is not
// empty if all users may access the file; Mesos warns in this case too.
func ReadFile(path string) (text, warning string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", "", err
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		warning = fmt.Sprintf("%s has mode %04o and others may use it: make it 0600", path, mode)
	}
	return strings.TrimSpace(string(body)), warning, nil
}
