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
	// nestedCgroupName is the cgroup between a container's and those nested in it, Mesos's
	// CGROUP_SEPARATOR with both cgroup versions.
	nestedCgroupName = "mesos"
	// maxNameBytes leaves room for a prefix and a suffix in the 255 bytes of a file name.
	maxNameBytes = 200
)

// InvalidContainerError is returned for an invalid container id or pid.
type InvalidContainerError struct{ Why string }

func (i *InvalidContainerError) Error() string { return i.Why }

// CheckID returns an *InvalidContainerError if id cannot be a container id. Ids become parts of
// paths.
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

// cgroupPath returns the path of the container's own cgroup, whether Mesos creates it or not:
// "mesos/PARENT/mesos/CHILD".
func (m *Manager) cgroupPath(id string) string {
	return path.Join(m.cfg.CgroupsRoot, strings.ReplaceAll(id, ".", "/"+nestedCgroupName+"/"))
}

// recordFileName returns the name of the container's file: its id, or a digest of a long id.
func recordFileName(id string) string {
	if len(id) > maxNameBytes {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	return id + recordSuffix
}
