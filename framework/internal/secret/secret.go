// Package secret reads files that should be their owner's alone. It says
// where they are not, and nothing of what they hold.
package secret

import (
	"fmt"
	"os"
	"strings"
)

// ReadFile returns the file's text without white space around it. The warning is
// not empty where others may read the file, which Mesos warns of as well.
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
