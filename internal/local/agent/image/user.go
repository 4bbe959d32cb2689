package image

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ImageUser is the user of a container's process.
type ImageUser struct {
	UID, GID uint32
	// Groups are the supplementary groups.
	Groups []uint32
	Home   string
}

// maxAccounts limits how many bytes of /etc/passwd and /etc/group are read.
const maxAccounts = 1 << 20

// LookupUser resolves "USER" or "USER:GROUP", given as names or numbers, with
// the accounts of a root file system. An empty spec means root. A number needs
// no account.
func LookupUser(rootfs, spec string) (ImageUser, error) {
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return ImageUser{}, fmt.Errorf("look up user %q: %w", spec, err)
	}
	defer root.Close()
	passwd, err := readAccounts(root, "etc/passwd", 7)
	if err != nil {
		return ImageUser{}, fmt.Errorf("look up user %q: %w", spec, err)
	}
	groups, err := readAccounts(root, "etc/group", 4)
	if err != nil {
		return ImageUser{}, fmt.Errorf("look up user %q: %w", spec, err)
	}
	return lookupUser(spec, passwd, groups)
}

// readAccounts reads a file of colon-separated fields. It skips lines with
// fewer than want fields and treats a missing file as empty.
func readAccounts(root *os.Root, file string, want int) ([][]string, error) {
	dir, base := path.Split(file)
	dir, err := resolveLinks(root, dir)
	if err != nil {
		return nil, err
	}
	f, err := root.Open(path.Join(dir, base))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines [][]string
	scan := bufio.NewScanner(io.LimitReader(f, maxAccounts))
	for scan.Scan() {
		if fields := strings.Split(scan.Text(), ":"); len(fields) >= want {
			lines = append(lines, fields)
		}
	}
	return lines, scan.Err()
}

func lookupUser(spec string, passwd, groups [][]string) (ImageUser, error) {
	userPart, groupPart, hasGroup := strings.Cut(spec, ":")
	u, name, err := findAccount(userPart, passwd)
	if err != nil {
		return ImageUser{}, err
	}
	if hasGroup {
		gid, err := groupID(groupPart, groups)
		if err != nil {
			return ImageUser{}, err
		}
		u.GID = gid
		return u, nil
	}
	for _, g := range groups {
		if name != "" && slices.Contains(strings.Split(g[3], ","), name) {
			if gid, err := parseID(g[2]); err == nil {
				u.Groups = append(u.Groups, gid)
			}
		}
	}
	return u, nil
}

// findAccount returns the user with the given name or number. name is empty for
// a number without an account.
func findAccount(spec string, passwd [][]string) (u ImageUser, name string, err error) {
	if spec == "" {
		spec = "0"
	}
	for _, p := range passwd {
		if p[0] != spec && p[2] != spec {
			continue
		}
		uid, errUID := parseID(p[2])
		gid, errGID := parseID(p[3])
		if err := errors.Join(errUID, errGID); err != nil {
			return ImageUser{}, "", fmt.Errorf("user %q: %w", spec, err)
		}
		return ImageUser{UID: uid, GID: gid, Home: p[5]}, p[0], nil
	}
	uid, err := parseID(spec)
	if err != nil {
		return ImageUser{}, "", fmt.Errorf("user %q is no number and not in /etc/passwd", spec)
	}
	return ImageUser{UID: uid, Home: "/"}, "", nil
}

func groupID(spec string, groups [][]string) (uint32, error) {
	for _, g := range groups {
		if g[0] == spec {
			return parseID(g[2])
		}
	}
	gid, err := parseID(spec)
	if err != nil {
		return 0, fmt.Errorf("group %q is no number and not in /etc/group", spec)
	}
	return gid, nil
}

func parseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of a user or group", s)
	}
	return uint32(n), nil
}
