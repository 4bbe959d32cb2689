package containers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

const (
	maxIDBytes = 512
	// nestedCgroupName is the cgroup between a container's and those nested in it,
	// Mesos's CGROUP_SEPARATOR of both cgroup versions.
	nestedCgroupName = "mesos"
	// maxNameBytes leaves room for a suffix in the 255 bytes of a file's name.
	maxNameBytes = 200
)

// InvalidContainerError is the error of a container id that is none.
type InvalidContainerError struct{ Why string }

func (i *InvalidContainerError) Error() string { return i.Why }

// CheckID refuses what cannot be a container's id: it becomes a part of paths.
// The error is *Invalid.
func CheckID(id string) error {
	if id == "" || len(id) > maxIDBytes {
		return &InvalidContainerError{fmt.Sprintf("container id has %d bytes, want 1 to %d", len(id), maxIDBytes)}
	}
	for part := range strings.SplitSeq(id, ".") {
		if part == "" {
			return &InvalidContainerError{fmt.Sprintf("container id %q has an empty part between dots", id)}
		}
	}
	legal := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.'
	}
	for _, r := range id {
		if !legal(r) {
			return &InvalidContainerError{fmt.Sprintf("container id %q holds %q, want letters, digits, '_', '-' and '.'", id, r)}
		}
	}
	return nil
}

// cgroupPath is where Mesos puts the container's own cgroup, whether it makes one
// or not: "mesos/PARENT/mesos/CHILD".
func (c *Manager) cgroupPath(id string) string {
	return path.Join(c.cfg.CgroupsRoot, strings.ReplaceAll(id, ".", "/"+nestedCgroupName+"/"))
}

// recordFileName is the id where that makes a name, and else a digest of it.
func recordFileName(id string) string {
	if len(id) > maxNameBytes {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	return id + recordSuffix
}
