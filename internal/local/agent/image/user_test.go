package image

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLookupUser(t *testing.T) {
	rootfs := t.TempDir()
	for file, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/sh\nann:x:1000:100:Ann:/home/ann:/bin/sh\nshort:line\n",
		"group":  "root:x:0:\nvideo:x:44:ann,bob\nusers:x:100:\ndisk:x:6:bob\n",
	} {
		if err := os.MkdirAll(filepath.Join(rootfs, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(rootfs, "etc", file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for spec, want := range map[string]syscall.Credential{
		"":           {},
		"root":       {},
		"ann":        {Uid: 1000, Gid: 100, Groups: []uint32{44}},
		"1000":       {Uid: 1000, Gid: 100, Groups: []uint32{44}},
		"ann:video":  {Uid: 1000, Gid: 44},
		"77":         {Uid: 77},
		"77:88":      {Uid: 77, Gid: 88},
		"1000:users": {Uid: 1000, Gid: 100},
	} {
		got, err := LookupUser(rootfs, spec)
		if err != nil {
			t.Errorf("%q: %v", spec, err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", spec, diff)
		}
	}
	for spec, want := range map[string]string{"eve": `the image has no user "eve"`, "ann:wheel": `the image has no group as in "ann:wheel"`, "-1": "/etc/passwd", "4294967295": "/etc/passwd"} {
		if _, err := LookupUser(rootfs, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", spec, err, want)
		}
	}
	if _, err := LookupUser("/", "no-such-user"); err == nil || !strings.Contains(err.Error(), `this agent has no user "no-such-user"`) {
		t.Errorf("on the machine: %v", err)
	}
	if u, err := LookupUser(t.TempDir(), "5"); err != nil || u.Uid != 5 {
		t.Errorf("without accounts: %v, %v", u, err)
	}
}
