package nvml

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// migCapability identifies what a container must be allowed to reach a MIG device: a GPU
// instance, or one of its compute instances. gpu is the GPU's minor number.
type migCapability struct {
	gpu, gi, ci int
}

// wholeInstance is the ci of the GPU instance itself.
const wholeInstance = -1

// maxMinor is the kernel's MINORMASK.
const maxMinor = 1<<20 - 1

func (c migCapability) String() string {
	if c.ci == wholeInstance {
		return fmt.Sprintf("gpu%d/gi%d/access", c.gpu, c.gi)
	}
	return fmt.Sprintf("gpu%d/gi%d/ci%d/access", c.gpu, c.gi, c.ci)
}

// readMinors reads <procRoot>/driver/nvidia-caps/mig-minors. A driver without MIG has no such
// file, and no capabilities.
func readMinors(procRoot string) (map[migCapability]int, error) {
	f, err := os.Open(filepath.Join(procRoot, "driver/nvidia-caps/mig-minors"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the minor numbers of MIG capabilities: %w", err)
	}
	defer f.Close()
	minors, err := parseMinors(f)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", f.Name(), err)
	}
	return minors, nil
}

// parseMinors reads lines such as "gpu0/gi1/ci0/access 4". The number is the N of
// /dev/nvidia-caps/nvidia-capN. Other lines are ignored.
func parseMinors(r io.Reader) (map[migCapability]int, error) {
	minors := map[migCapability]int{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		name, number, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		c, ok := parseCapability(name)
		if !ok {
			continue
		}
		minor, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || minor < 0 || minor > maxMinor {
			return nil, fmt.Errorf("line %d: minor number of %s is %q, not one of 0 to %d", n, name, number, maxMinor)
		}
		minors[c] = minor
	}
	return minors, lines.Err()
}

func parseCapability(name string) (migCapability, bool) {
	parts := strings.Split(name, "/")
	if len(parts) < 3 || len(parts) > 4 || parts[len(parts)-1] != "access" {
		return migCapability{}, false
	}
	gpu, ok := parseNumbered(parts[0], "gpu")
	gi, ok2 := parseNumbered(parts[1], "gi")
	if len(parts) == 3 {
		return migCapability{gpu, gi, wholeInstance}, ok && ok2
	}
	ci, ok3 := parseNumbered(parts[2], "ci")
	return migCapability{gpu, gi, ci}, ok && ok2 && ok3
}

// parseNumbered returns the 3 of "gpu3".
func parseNumbered(word, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(word, prefix)
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), ok && err == nil
}
