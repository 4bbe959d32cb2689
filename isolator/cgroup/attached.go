package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"mesos-gpu/isolator/rules"
)

// role is what a program of this package is attached for.
type role struct {
	// prefix begins the program's name, by which it is found again: whoever
	// attached it, it is a program of this package.
	prefix string
	flags  uint32
}

var (
	// own programs all count, those of the cgroups above too.
	own = role{"mesos_gpu_", unix.BPF_F_ALLOW_MULTI}
	// fallback programs count until a cgroup below has one of its own.
	fallback = role{"mesos_def_", unix.BPF_F_ALLOW_OVERRIDE}
)

// attached is a program on a cgroup.
type attached struct {
	program *ebpf.Program
	name    string
	maps    []ebpf.MapID
}

func (a attached) is(r role) bool { return strings.HasPrefix(a.name, r.prefix) }

func (a attached) rules() (*ebpf.Map, error) {
	if len(a.maps) != 1 {
		return nil, fmt.Errorf("program %s has %d maps, want 1", a.name, len(a.maps))
	}
	m, err := ebpf.NewMapFromID(a.maps[0])
	if err != nil {
		return nil, fmt.Errorf("open rules of program %s: %w", a.name, err)
	}
	return m, nil
}

// change makes the program allow those rules.
func (a attached) change(want map[key]uint32) error {
	m, err := a.rules()
	if err != nil {
		return err
	}
	defer m.Close()
	return change(m, want)
}

// list reads the program's rules from the kernel.
func (a attached) list() ([]rules.Rule, error) {
	m, err := a.rules()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	entries, err := read(m)
	if err != nil {
		return nil, err
	}
	list := make([]rules.Rule, 0, len(entries))
	for k, bits := range entries {
		list = append(list, decode(k, bits))
	}
	return rules.Merge(list), nil
}

func read(m *ebpf.Map) (map[key]uint32, error) {
	entries := map[key]uint32{}
	var k key
	var bits uint32
	all := m.Iterate()
	for all.Next(&k, &bits) {
		entries[k] = bits
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	return entries, nil
}

// change makes the map hold want, one rule at a time: first those go that are
// not wanted, and what stays is there throughout.
func change(m *ebpf.Map, want map[key]uint32) error {
	now, err := read(m)
	if err != nil {
		return err
	}
	for k, bits := range now {
		if _, ok := want[k]; ok {
			continue
		}
		if err := m.Delete(k); err != nil {
			return fmt.Errorf("take rule %q: %w", decode(k, bits), err)
		}
	}
	for k, bits := range want {
		if now[k] == bits {
			continue
		}
		if err := m.Put(k, bits); err != nil {
			return fmt.Errorf("give rule %q: %w", decode(k, bits), err)
		}
	}
	return nil
}

// programs lists the device programs attached to the cgroup itself. The
// caller closes them.
func programs(cgroup int) ([]attached, error) {
	result, err := link.QueryPrograms(link.QueryOptions{Target: cgroup, Attach: ebpf.AttachCGroupDevice})
	if err != nil {
		return nil, err
	}
	var list []attached
	for _, p := range result.Programs {
		a, err := describe(p.ID)
		if errors.Is(err, fs.ErrNotExist) {
			continue // detached since the query
		}
		if err != nil {
			closeAll(list)
			return nil, fmt.Errorf("query program %d: %w", p.ID, err)
		}
		list = append(list, a)
	}
	return list, nil
}

func describe(id ebpf.ProgramID) (attached, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return attached{}, err
	}
	info, err := program.Info()
	if err != nil {
		program.Close()
		return attached{}, err
	}
	maps, _ := info.MapIDs()
	return attached{program, info.Name, maps}, nil
}

func closeAll(list []attached) {
	for _, a := range list {
		a.program.Close()
	}
}

// load makes a program that allows those rules.
func (r role) load(entries map[key]uint32) (*ebpf.Program, error) {
	m, err := newMap()
	if err != nil {
		return nil, fmt.Errorf("make map of rules: %w", err)
	}
	defer m.Close() // the program holds it
	if err := change(m, entries); err != nil {
		return nil, err
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: r.name(), Type: ebpf.CGroupDevice, AttachType: ebpf.AttachCGroupDevice,
		License: "Apache-2.0", Instructions: program(m.FD()),
	})
	if err != nil {
		return nil, fmt.Errorf("load device program: %w", err)
	}
	return p, nil
}

// name tells the role and the version of a program, in the 15 bytes there are.
func (r role) name() string { return r.prefix + version(program(0)) }

// newMap lifts the bound on locked memory where the kernel counts maps as
// such (before 5.11).
func newMap() (*ebpf.Map, error) {
	spec := &ebpf.MapSpec{
		Name: "mesos_gpu_rules", Type: ebpf.Hash, KeySize: keySize, ValueSize: accessSize,
		MaxEntries: maxRules, Flags: unix.BPF_F_NO_PREALLOC,
	}
	m, err := ebpf.NewMap(spec)
	if !errors.Is(err, unix.EPERM) {
		return m, err
	}
	none := &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, none); err != nil {
		return nil, fmt.Errorf("lift the bound on locked memory (is this process root?): %w", err)
	}
	return ebpf.NewMap(spec)
}

func (r role) attach(cgroup int, p *ebpf.Program) error {
	return link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: cgroup, Program: p, Attach: ebpf.AttachCGroupDevice, Flags: r.flags,
	})
}

func (a attached) detach(cgroup int) error {
	err := link.RawDetachProgram(link.RawDetachProgramOptions{
		Target: cgroup, Program: a.program, Attach: ebpf.AttachCGroupDevice,
	})
	if err != nil {
		return fmt.Errorf("detach program %s: %w", a.name, err)
	}
	return nil
}
