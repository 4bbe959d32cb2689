package containers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

const (
	maxID = 512
	// separator is the cgroup between a container's and those nested in it,
	// Mesos's CGROUP_SEPARATOR of both cgroup versions.
	separator = "mesos"
	// maxName leaves room for a suffix in the 255 bytes of a file's name.
	maxName = 200
)

// Invalid is the error of a container id that is none.
type Invalid struct{ Why string }

func (i *Invalid) Error() string { return i.Why }

// CheckID refuses what cannot be a container's id: it becomes a part of paths.
// The error is *Invalid.
func CheckID(id string) error {
	if id == "" || len(id) > maxID {
		return &Invalid{fmt.Sprintf("container id has %d bytes, want 1 to %d", len(id), maxID)}
	}
	for part := range strings.SplitSeq(id, ".") {
		if part == "" {
			return &Invalid{fmt.Sprintf("container id %q has an empty part between dots", id)}
		}
	}
	legal := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.'
	}
	for _, r := range id {
		if !legal(r) {
			return &Invalid{fmt.Sprintf("container id %q holds %q, want letters, digits, '_', '-' and '.'", id, r)}
		}
	}
	return nil
}

// cgroup is where Mesos puts the container's own cgroup, whether it makes one
// or not: "mesos/PARENT/mesos/CHILD".
func (c *Containers) cgroup(id string) string {
	return path.Join(c.cfg.CgroupsRoot, strings.ReplaceAll(id, ".", "/"+separator+"/"))
}

// fileName is the id where that makes a name, and else a digest of it.
func fileName(id string) string {
	if len(id) > maxName {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	return id + suffix
}
