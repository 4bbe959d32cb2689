package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/isolator/rules"
)

// fakeHierarchy is a directory with the cgroup "x". Its files are not live: the device
// list never changes with what is written.
func fakeHierarchy(t *testing.T, list string) V1 {
	t.Helper()
	c := V1{Root: t.TempDir()}
	if err := c.CreateCgroup("x"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"devices.list": list, "devices.allow": "", "devices.deny": "", "cgroup.procs": "",
	} {
		if err := os.WriteFile(c.rootTree().cgroupPath("x", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestConfineWritesDenyAllFirst(t *testing.T) {
	c := fakeHierarchy(t, "a *:* rwm\n")
	err := c.ConfineCgroup("x", []rules.DeviceRule{{Kind: 'c', Major: 195, Minor: 1, Access: "rw"}})
	if err == nil || !strings.Contains(err.Error(), "[a *:* rwm] too much") {
		t.Errorf("a cgroup that stays open is no error: %v", err)
	}
	for name, want := range map[string]string{"devices.deny": "a", "devices.allow": "c 195:1 rw"} {
		got, err := os.ReadFile(c.rootTree().cgroupPath("x", name))
		if err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestConfineCgroupErrors(t *testing.T) {
	one := []rules.DeviceRule{{Kind: 'c', Major: 195, Minor: 1, Access: "rw"}}
	cases := []struct {
		name, list, missing, want string
	}{
		{"no list", "", "devices.list", "read device cgroup x"},
		{"no deny", "a *:* rwm\n", "devices.deny", `write "a" to devices.deny of device cgroup x`},
		{"no deny of one", "c 9:9 r\n", "devices.deny", `write "c 9:9 r" to devices.deny of device cgroup x`},
		{"no allow", "a *:* rwm\n", "devices.allow", `write "c 195:1 rw" to devices.allow of device cgroup x`},
		{"nonsense", "nonsense\n", "", `read device cgroup x: parse device rule "nonsense"`},
		{"endless", strings.Repeat("c 1:3 rwm\n", maxListBytes/10+1), "", "more than 1048576 bytes"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v1 := fakeHierarchy(t, c.list)
			if c.missing != "" {
				if err := os.Remove(v1.rootTree().cgroupPath("x", c.missing)); err != nil {
					t.Fatal(err)
				}
			}
			err := v1.ConfineCgroup("x", one)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if c.missing != "" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("got %v, want one that is fs.ErrNotExist", err)
			}
		})
	}
}

// An untrusted path must not leave the hierarchy.
func TestPathsStayBelowRoot(t *testing.T) {
	c := V1{Root: filepath.Join(t.TempDir(), "root")}
	if err := c.CreateCgroup("../outside"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("create in a hierarchy that is not there: %v", err)
	}
	if err := os.Mkdir(c.Root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateCgroup("../../outside"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(c.Root, "outside")); err != nil {
		t.Error(err)
	}
	if got := (V1{}).rootTree().cgroupPath("/a/../b"); got != "/sys/fs/cgroup/devices/b" {
		t.Errorf("default root: got %s", got)
	}
	if got := (V2{}).rootTree().cgroupPath("/a/../b"); got != "/sys/fs/cgroup/b" {
		t.Errorf("default root: got %s", got)
	}
}

func TestCreateCgroupFailsWhereFileExists(t *testing.T) {
	c := V1{Root: t.TempDir()}
	if err := os.WriteFile(c.rootTree().cgroupPath("f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateCgroup("f/g"); err == nil {
		t.Error("a cgroup below a file was created")
	}
	if err := c.RemoveCgroup("f"); err == nil {
		t.Error("a file was removed as a cgroup")
	}
}

func TestRemoveCgroup(t *testing.T) {
	c := V1{Root: t.TempDir()}
	if err := c.CreateCgroup("a/b/c"); err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveCgroup("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.rootTree().cgroupPath("a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if err := c.RemoveCgroup("a"); err != nil {
		t.Errorf("remove what is gone: %v", err)
	}
	for _, root := range []string{"", "/", "..", "a/.."} {
		if err := c.RemoveCgroup(root); err == nil {
			t.Errorf("Remove(%q) removed the hierarchy", root)
		}
	}
}
