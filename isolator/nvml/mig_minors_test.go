package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const migMinors = `config 1
monitor 2
gpu0/gi0/access 3
gpu0/gi0/ci0/access 4
gpu0/gi0/ci1/access 5
gpu11/gi14/ci7/access 1048575
fabric-imex-mgmt 9
gpu0/gi0/ci0/notify 6
gpu0/access 7
gpux/gi0/access 8
`

func TestParseMinors(t *testing.T) {
	got, err := parseMinors(strings.NewReader(migMinors))
	if err != nil {
		t.Fatal(err)
	}
	want := map[migCapability]int{{0, 0, wholeInstance}: 3, {0, 0, 0}: 4, {0, 0, 1}: 5, {11, 14, 7}: maxMinor}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(migCapability{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, text := range []string{"gpu0/gi0/access", "gpu0/gi0/access -1", "monitor 2\ngpu0/gi0/access 1048576", "gpu0/gi0/access 1 2"} {
		if _, err := parseMinors(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "minor number of gpu0/gi0/access is") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestReadMinors(t *testing.T) {
	root := t.TempDir()
	if got, err := readMinors(root); got != nil || err != nil {
		t.Errorf("without the file: %v, %v", got, err)
	}
	file := filepath.Join(root, "driver/nvidia-caps/mig-minors")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(migMinors), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readMinors(root); len(got) != 4 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// Parsed minors can be formatted and parsed again to the same value.
func FuzzParseMinors(f *testing.F) {
	f.Add(migMinors)
	f.Add("gpu0/gi0/access 03\r\n")
	f.Add("gpu4294967296/gi0/access 3")
	f.Fuzz(func(t *testing.T, text string) {
		minors, err := parseMinors(strings.NewReader(text))
		if err != nil {
			return
		}
		var again strings.Builder
		for c, minor := range minors {
			if minor < 0 || minor > maxMinor || c.gpu < 0 || c.gi < 0 || c.ci < wholeInstance {
				t.Fatalf("%v %d", c, minor)
			}
			fmt.Fprintf(&again, "%s %d\n", c, minor)
		}
		if got, err := parseMinors(strings.NewReader(again.String())); err != nil || !cmp.Equal(got, minors, cmp.AllowUnexported(migCapability{})) {
			t.Errorf("%v came back as %v, %v", minors, got, err)
		}
	})
}
