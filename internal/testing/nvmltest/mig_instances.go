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

// EnableMIG puts a GPU into MIG mode with those profiles. Its instances survive the process
// that created them.
func (m *FakeMachine) EnableMIG(uuid string, profiles []layout.InstanceProfile) {
	m.t.Helper()
	m.changeState(func() {
		m.setValue(uuid, "mig", 1)
		for _, p := range profiles {
			starts := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(p.Starts)), ","), "[]")
			m.profiles = append(m.profiles, fmt.Sprintf("profile %d %d %d %d %d %d %s %s", m.deviceIndex(uuid), p.ID, p.Slices, p.Max, p.MemMiB, p.Size, starts, p.Name))
		}
	})
	m.writeFile(filepath.Join(m.ProcRoot, "driver/nvidia-caps/mig-minors"), m.allMinors())
}

// allMinors lists the capabilities of all possible instances, as the driver does.
func (m *FakeMachine) allMinors() string {
	var text strings.Builder
	minor := 3
	for _, d := range m.physicalGPUs {
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

// AddInstance creates an instance with its compute instance, as other software would.
func (m *FakeMachine) AddInstance(uuid string, id, gi, start int) {
	m.t.Helper()
	text, err := os.ReadFile(m.path + ".instances")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.t.Fatal(err)
	}
	m.writeFile(m.path+".instances", string(text)+fmt.Sprintf("gi %d %d %d %d 1\n", m.deviceIndex(uuid), gi, id, start))
}

// ListInstances returns the profiles and places of a GPU's instances, sorted: "9@0" is profile
// 9 at 0.
func (m *FakeMachine) ListInstances(uuid string) []string {
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
		if gpu == m.deviceIndex(uuid) {
			list = append(list, fmt.Sprintf("%d@%d", id, start))
		}
	}
	slices.Sort(list)
	return list
}

// MarkBusy adds processes to the instance at that place until ClearBusy.
func (m *FakeMachine) MarkBusy(uuid string, start int) {
	m.t.Helper()
	m.changeState(func() { m.busy = append(m.busy, fmt.Sprintf("busy %d %d", m.deviceIndex(uuid), start)) })
}

// ClearBusy removes the processes of all instances.
func (m *FakeMachine) ClearBusy() {
	m.t.Helper()
	m.changeState(func() { m.busy = nil })
}
