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

// programRole is the purpose that a program of this package is attached for.
type programRole struct {
	// prefix begins the program's name. It identifies a program of this package, whichever
	// process attached it.
	prefix string
	flags  uint32
}

var (
	// ownRole programs restrict the cgroup and all cgroups below it.
	ownRole = programRole{"mesos_gpu_", unix.BPF_F_ALLOW_MULTI}
	// defaultRole programs apply to cgroups below that have no program of their own.
	defaultRole = programRole{"mesos_def_", unix.BPF_F_ALLOW_OVERRIDE}
)

// attachedProgram is a program attached to a cgroup.
type attachedProgram struct {
	program *ebpf.Program
	name    string
	maps    []ebpf.MapID
}

func (a attachedProgram) hasRole(r programRole) bool { return strings.HasPrefix(a.name, r.prefix) }

func (a attachedProgram) openRuleMap() (*ebpf.Map, error) {
	if len(a.maps) != 1 {
		return nil, fmt.Errorf("program %s has %d maps, want 1", a.name, len(a.maps))
	}
	m, err := ebpf.NewMapFromID(a.maps[0])
	if err != nil {
		return nil, fmt.Errorf("open rules of program %s: %w", a.name, err)
	}
	return m, nil
}

// updateRules replaces the rules of the program.
func (a attachedProgram) updateRules(want map[ruleKey]uint32) error {
	m, err := a.openRuleMap()
	if err != nil {
		return err
	}
	defer m.Close()
	return updateRuleMap(m, want)
}

// readRules reads the program's rules from the kernel.
func (a attachedProgram) readRules() ([]rules.DeviceRule, error) {
	m, err := a.openRuleMap()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	entries, err := readRuleMap(m)
	if err != nil {
		return nil, err
	}
	list := make([]rules.DeviceRule, 0, len(entries))
	for k, bits := range entries {
		list = append(list, decodeRule(k, bits))
	}
	return rules.MergeRules(list), nil
}

func readRuleMap(m *ebpf.Map) (map[ruleKey]uint32, error) {
	entries := map[ruleKey]uint32{}
	var k ruleKey
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

// updateRuleMap changes the map to want, one rule at a time. It deletes first, and never
// deletes a rule that stays.
func updateRuleMap(m *ebpf.Map, want map[ruleKey]uint32) error {
	now, err := readRuleMap(m)
	if err != nil {
		return err
	}
	for k, bits := range now {
		if _, ok := want[k]; ok {
			continue
		}
		if err := m.Delete(k); err != nil {
			return fmt.Errorf("delete rule %q: %w", decodeRule(k, bits), err)
		}
	}
	for k, bits := range want {
		if now[k] == bits {
			continue
		}
		if err := m.Put(k, bits); err != nil {
			return fmt.Errorf("add rule %q: %w", decodeRule(k, bits), err)
		}
	}
	return nil
}

// listPrograms returns the device programs attached to the cgroup itself. The caller closes
// them.
func listPrograms(cgroup int) ([]attachedProgram, error) {
	result, err := link.QueryPrograms(link.QueryOptions{Target: cgroup, Attach: ebpf.AttachCGroupDevice})
	if err != nil {
		return nil, err
	}
	var list []attachedProgram
	for _, p := range result.Programs {
		a, err := describeProgram(p.ID)
		if errors.Is(err, fs.ErrNotExist) {
			continue // detached since the query
		}
		if err != nil {
			closePrograms(list)
			return nil, fmt.Errorf("query program %d: %w", p.ID, err)
		}
		list = append(list, a)
	}
	return list, nil
}

func describeProgram(id ebpf.ProgramID) (attachedProgram, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return attachedProgram{}, err
	}
	info, err := program.Info()
	if err != nil {
		program.Close()
		return attachedProgram{}, err
	}
	maps, _ := info.MapIDs()
	return attachedProgram{program, info.Name, maps}, nil
}

func closePrograms(list []attachedProgram) {
	for _, a := range list {
		a.program.Close()
	}
}

// loadProgram loads a program that allows those rules.
func (r programRole) loadProgram(entries map[ruleKey]uint32) (*ebpf.Program, error) {
	m, err := newRuleMap()
	if err != nil {
		return nil, fmt.Errorf("make map of rules: %w", err)
	}
	defer m.Close() // the program keeps it open
	if err := updateRuleMap(m, entries); err != nil {
		return nil, err
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: r.programName(), Type: ebpf.CGroupDevice, AttachType: ebpf.AttachCGroupDevice,
		License: "Apache-2.0", Instructions: buildProgram(m.FD()),
	})
	if err != nil {
		return nil, fmt.Errorf("load device program: %w", err)
	}
	return p, nil
}

// programName returns the role and the version of the program in the 15 bytes that the kernel
// allows.
func (r programRole) programName() string { return r.prefix + programVersion(buildProgram(0)) }

// newRuleMap creates a map of rules. It raises the limit of locked memory on kernels before
// 5.11, which count maps as locked memory.
func newRuleMap() (*ebpf.Map, error) {
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
		return nil, fmt.Errorf("raise the limit of locked memory (is this process root?): %w", err)
	}
	return ebpf.NewMap(spec)
}

func (r programRole) attachProgram(cgroup int, p *ebpf.Program) error {
	return link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: cgroup, Program: p, Attach: ebpf.AttachCGroupDevice, Flags: r.flags,
	})
}

func (a attachedProgram) detachFrom(cgroup int) error {
	err := link.RawDetachProgram(link.RawDetachProgramOptions{
		Target: cgroup, Program: a.program, Attach: ebpf.AttachCGroupDevice,
	})
	if err != nil {
		return fmt.Errorf("detach program %s: %w", a.name, err)
	}
	return nil
}
