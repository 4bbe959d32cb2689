package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/moby/sys/user"
)

// maxAccounts limits how many bytes of /etc/passwd and /etc/group are read.
const maxAccounts = 1 << 20

// LookupUser resolves "USER" or "USER:GROUP", given as names or numbers, with
// the accounts of a root file system. An empty spec means root. A number needs
// no account.
func LookupUser(rootfs, spec string) (*syscall.Credential, error) {
	passwd, err := openAccounts(rootfs, "passwd")
	if err != nil {
		return nil, fmt.Errorf("look up user %q: %w", spec, err)
	}
	defer passwd.Close()
	groups, err := openAccounts(rootfs, "group")
	if err != nil {
		return nil, fmt.Errorf("look up user %q: %w", spec, err)
	}
	defer groups.Close()
	found, err := user.GetExecUser(spec, nil, io.LimitReader(passwd, maxAccounts), io.LimitReader(groups, maxAccounts))
	switch {
	case errors.Is(err, user.ErrNoPasswdEntries):
		return nil, fmt.Errorf("%s has no user %q: its /etc/passwd lists the names, and a number needs no entry", whose(rootfs), spec)
	case errors.Is(err, user.ErrNoGroupEntries):
		return nil, fmt.Errorf("%s has no group as in %q: its /etc/group lists the names, and a number needs no entry", whose(rootfs), spec)
	case err != nil:
		return nil, fmt.Errorf("look up user %q in /etc/passwd and /etc/group: %w", spec, err)
	}
	u := &syscall.Credential{Uid: uint32(found.Uid), Gid: uint32(found.Gid)}
	for _, gid := range found.Sgids {
		u.Groups = append(u.Groups, uint32(gid))
	}
	return u, nil
}

// whose names the owner of a root file system in messages.
func whose(rootfs string) string {
	if rootfs == "/" {
		return "this agent"
	}
	return "the image"
}

// openAccounts opens a file in /etc of a root file system. A missing file reads
// as empty.
func openAccounts(rootfs, name string) (*os.File, error) {
	path, err := securejoin.SecureJoin(rootfs, filepath.Join("etc", name))
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Open(os.DevNull)
	}
	return f, err
}
