package api

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// SandboxFile is a file or folder in a task's sandbox. Links are described by their
// targets.
type SandboxFile struct {
	Name   string `json:"name"`
	Folder bool   `json:"folder,omitempty"`
	// Special is true for a socket, a pipe or a device, which cannot be read.
	Special bool  `json:"special,omitempty"`
	Bytes   int64 `json:"bytes"`
	// Mode has the permissions in octal, such as 644.
	Mode     string    `json:"mode"`
	Modified time.Time `json:"modified"`
}

// SandboxList is the answer to GET /v1/tasks/{id}/files.
type SandboxList struct {
	// Path is relative to the sandbox; "." is the sandbox itself. File describes it.
	Path string      `json:"path"`
	File SandboxFile `json:"file"`
	// Files are the entries of a folder, by name.
	Files []SandboxFile `json:"files"`
}

// MaxSandboxPath limits the path of a file in a sandbox, in bytes.
const MaxSandboxPath = 4096

// CleanSandboxPath returns a path relative to the sandbox in its shortest form. It
// rejects paths that lead out of the sandbox.
func CleanSandboxPath(text string) (string, error) {
	clean := path.Clean("./" + text)
	switch {
	case len(text) > MaxSandboxPath || strings.ContainsRune(text, 0):
		return "", fmt.Errorf("the path has %d bytes, more than %d, or a zero byte", len(text), MaxSandboxPath)
	case path.IsAbs(text):
		return "", fmt.Errorf("%q is absolute: files are read from the task's sandbox only, by paths relative to it", text)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", fmt.Errorf("%q leads out of the task's sandbox", text)
	}
	return clean, nil
}
