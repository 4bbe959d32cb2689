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

// User is who runs in a container.
type User struct {
	UID, GID uint32
	// Groups are the supplementary ones.
	Groups []uint32
	Home   string
}

// maxAccounts bounds how much of /etc/passwd and /etc/group is read.
const maxAccounts = 1 << 20

// LookupUser finds "USER", "USER:GROUP", names or numbers, in the accounts of
// a root file system. Empty means root; a number needs no account.
func LookupUser(rootfs, spec string) (User, error) {
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return User{}, fmt.Errorf("look up user %q: %w", spec, err)
	}
	defer root.Close()
	passwd, err := accounts(root, "etc/passwd", 7)
	if err != nil {
		return User{}, fmt.Errorf("look up user %q: %w", spec, err)
	}
	groups, err := accounts(root, "etc/group", 4)
	if err != nil {
		return User{}, fmt.Errorf("look up user %q: %w", spec, err)
	}
	return lookup(spec, passwd, groups)
}

// accounts reads a file of colon-separated fields; lines with fewer than want
// are skipped, an absent file is empty.
func accounts(root *os.Root, file string, want int) ([][]string, error) {
	dir, base := path.Split(file)
	dir, err := resolve(root, dir)
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

func lookup(spec string, passwd, groups [][]string) (User, error) {
	userPart, groupPart, hasGroup := strings.Cut(spec, ":")
	u, name, err := account(userPart, passwd)
	if err != nil {
		return User{}, err
	}
	if hasGroup {
		gid, err := groupID(groupPart, groups)
		if err != nil {
			return User{}, err
		}
		u.GID = gid
		return u, nil
	}
	for _, g := range groups {
		if name != "" && slices.Contains(strings.Split(g[3], ","), name) {
			if gid, err := number(g[2]); err == nil {
				u.Groups = append(u.Groups, gid)
			}
		}
	}
	return u, nil
}

// account finds a user by name or number; name is empty for a number without
// account.
func account(spec string, passwd [][]string) (u User, name string, err error) {
	if spec == "" {
		spec = "0"
	}
	for _, p := range passwd {
		if p[0] != spec && p[2] != spec {
			continue
		}
		uid, errUID := number(p[2])
		gid, errGID := number(p[3])
		if err := errors.Join(errUID, errGID); err != nil {
			return User{}, "", fmt.Errorf("user %q: %w", spec, err)
		}
		return User{UID: uid, GID: gid, Home: p[5]}, p[0], nil
	}
	uid, err := number(spec)
	if err != nil {
		return User{}, "", fmt.Errorf("user %q is no number and not in /etc/passwd", spec)
	}
	return User{UID: uid, Home: "/"}, "", nil
}

func groupID(spec string, groups [][]string) (uint32, error) {
	for _, g := range groups {
		if g[0] == spec {
			return number(g[2])
		}
	}
	gid, err := number(spec)
	if err != nil {
		return 0, fmt.Errorf("group %q is no number and not in /etc/group", spec)
	}
	return gid, nil
}

func number(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is no number of a user or group", s)
	}
	return uint32(n), nil
}
