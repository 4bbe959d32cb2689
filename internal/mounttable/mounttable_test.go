package mounttable

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sampleMounts = `21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:20 / /proc rw - proc proc rw
30 21 8:1 /data /srv rw master:1 propagate_from:2 - xfs /dev/sdb rw
31 30 8:1 /data/a\040b\134c /srv/in ro,nosuid - xfs /dev/sdb rw
32 30 8:2 / /srv/in rw - xfs /dev/sdc rw
`

func TestParse(t *testing.T) {
	got, err := Parse(sampleMounts)
	if err != nil {
		t.Fatal(err)
	}
	rw := []string{"rw"}
	want := []Mount{
		{"254:0", "/", "/", false, "ext4", rw},
		{"0:20", "/", "/proc", false, "proc", rw},
		{"8:1", "/data", "/srv", false, "xfs", rw},
		{"8:1", `/data/a b\c`, "/srv/in", true, "xfs", rw},
		{"8:2", "/", "/srv/in", false, "xfs", rw},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for path, want := range map[string]string{
		"/etc":      "254:0 /etc",
		"/srv":      "8:1 /data",
		"/srv/x/y":  "8:1 /data/x/y",
		"/srv/in/x": "8:2 /x",
		"/srvx":     "254:0 /srvx",
	} {
		if dev, root, err := LocatePath(got, path); err != nil || dev+" "+root != want {
			t.Errorf("%s is at %s %s, %v; want %s", path, dev, root, err, want)
		}
	}
	if m, ok := FindMount(got, "/srv/in"); !ok || m.Device != "8:2" {
		t.Errorf("at /srv/in is %v, %t", m, ok)
	}
	if m, ok := FindMount(got, "/srv/none"); ok {
		t.Errorf("at /srv/none is %v", m)
	}
	if _, _, err := LocatePath(got[1:2], "/srv"); err == nil {
		t.Error("a path on no mount was located")
	}
	for _, bad := range []string{"1 2 3", "21 1 254:0 / / rw,relatime shared:1 ext4 /dev/vda rw", strings.Repeat("x", 2<<20)} {
		if list, err := Parse(bad); err == nil {
			t.Errorf("%.40q was read as %v", bad, list)
		}
	}
}

// The machine's own mount table is parsed, and a path is located in it.
func TestReadOwnMounts(t *testing.T) {
	mounts, err := ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dev, root, err := LocatePath(mounts, dir)
	if err != nil || !strings.HasSuffix(dir, root) && !strings.HasSuffix(root, dir) || !strings.Contains(dev, ":") {
		t.Errorf("%s lies at %s of %s, %v", dir, root, dev, err)
	}
}

func TestParseReturnsWellFormedMountsOfABrokenTable(t *testing.T) {
	got, err := Parse("broken line\n" + sampleMounts)
	if len(got) != 5 || err == nil || !strings.Contains(err.Error(), "broken line") {
		t.Errorf("got %d mounts and %v, want 5 and an error about the broken line", len(got), err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sampleMounts)
	f.Add(`1 2 3:4 /\04 /\777 rw -`)
	f.Fuzz(func(t *testing.T, text string) {
		mounts, err := Parse(text)
		if err == nil && len(mounts) > strings.Count(text, "\n")+1 {
			t.Errorf("%d mounts in %d lines", len(mounts), strings.Count(text, "\n")+1)
		}
		for _, m := range mounts {
			if len(m.Root) > len(text) || len(m.Point) > len(text) {
				t.Errorf("%v is longer than its text", m)
			}
		}
	})
}
