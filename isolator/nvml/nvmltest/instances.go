package nvmltest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mesos-gpu/isolator/layout"
)

// Cuttable puts a GPU into MIG mode: it can be cut into those profiles. What is
// made of it outlives the process that made it.
func (m *Machine) Cuttable(uuid string, profiles []layout.Profile) {
	m.t.Helper()
	m.change(func() {
		m.set(uuid, "mig", 1)
		for _, p := range profiles {
			starts := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(p.Starts)), ","), "[]")
			m.profiles = append(m.profiles, fmt.Sprintf("profile %d %d %d %d %d %d %s %s", m.index(uuid), p.ID, p.Slices, p.Max, p.MemMiB, p.Size, starts, p.Name))
		}
	})
	m.file(filepath.Join(m.ProcRoot, "driver/nvidia-caps/mig-minors"), m.allMinors())
}

// allMinors lists the capabilities of all instances that there could be, as
// the driver does.
func (m *Machine) allMinors() string {
	var text strings.Builder
	minor := 3
	for _, d := range m.whole {
		for gi := range 15 {
			fmt.Fprintf(&text, "gpu%d/gi%d/access %d\n", d.Minor, gi, minor)
			minor++
			for ci := range 8 {
				fmt.Fprintf(&text, "gpu%d/gi%d/ci%d/access %d\n", d.Minor, gi, ci, minor)
				minor++
			}
		}
	}
	return text.String()
}

// Cut makes an instance of a cuttable GPU, with its compute instance, as
// another program would.
func (m *Machine) Cut(uuid string, id, gi, start int) {
	m.t.Helper()
	text, err := os.ReadFile(m.path + ".instances")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.t.Fatal(err)
	}
	m.file(m.path+".instances", string(text)+fmt.Sprintf("gi %d %d %d %d 1\n", m.index(uuid), gi, id, start))
}

// Reboot ends all instances.
func (m *Machine) Reboot() {
	m.t.Helper()
	m.file(m.path+".instances", "")
}

// Instances are the numbers of profiles and the places of a cuttable GPU's
// instances, "9@0" for profile 9 at 0, in order.
func (m *Machine) Instances(uuid string) []string {
	m.t.Helper()
	text, err := os.ReadFile(m.path + ".instances")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		var gpu, gi, id, start, ci int
		if _, err := fmt.Sscanf(line, "gi %d %d %d %d %d", &gpu, &gi, &id, &start, &ci); err != nil {
			m.t.Fatal(err)
		}
		if gpu == m.index(uuid) {
			list = append(list, fmt.Sprintf("%d@%d", id, start))
		}
	}
	slices.Sort(list)
	return list
}

// Busy gives the instance at that place processes until Idle.
func (m *Machine) Busy(uuid string, start int) {
	m.t.Helper()
	m.change(func() { m.busy = append(m.busy, fmt.Sprintf("busy %d %d", m.index(uuid), start)) })
}

// Idle ends the processes of all instances.
func (m *Machine) Idle() {
	m.t.Helper()
	m.change(func() { m.busy = nil })
}
