// Package drivermem limits the memory of shared devices through NVIDIA's driver, which from
// version 615 on limits what the processes of a cgroup of version 2 allocate. The driver does
// not limit compute: another limiter does. If the kernel has the dmem controller (Linux 6.14
// and later) the kernel counts and rejects allocations, otherwise the driver does.
//
// Limits are set and read through NVML. The package never writes the kernel's file dmem.max:
// the names of the driver's regions in it are not documented, and NVIDIA advises against
// writing it.
package drivermem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/share"
)

// DefaultRoot is where the driver expects cgroups of version 2.
const DefaultRoot = "/sys/fs/cgroup"

// LimitDriver is the part of NVML that the limiter needs: *nvml.MemoryLimits.
type LimitDriver interface {
	CheckSupport(uuid string) error
	SetLimit(uuid, cgroup string, bytes uint64) error
	ReadLimit(uuid, cgroup string) (nvml.MemoryLimit, error)
}

// MemoryLimiterConfig configures a MemoryLimiter.
type MemoryLimiterConfig struct {
	Driver LimitDriver
	// Root is the mount point of cgroup version 2; empty means DefaultRoot. CgroupsRoot is the
	// Mesos agent's --cgroups_root; empty means "mesos".
	Root, CgroupsRoot string
	// Compute limits containers that request cores. It also limits their memory to the same
	// size. With share.NoLimiter such containers are rejected.
	Compute share.Limiter
	// Simulated is set on a host with simulated GPUs.
	Simulated bool
}

// MemoryLimiter implements share.Limiter for containers whose processes are in the Mesos
// agent's own cgroups. Those of Docker containers are not.
type MemoryLimiter struct {
	cfg MemoryLimiterConfig

	mu sync.Mutex
	// admitted has the shares of each container, as AdmitContainer last accepted
	// them. An error leaves the entry as it was. A container without a cgroup is
	// admitted before the driver limits it.
	admitted map[string][]gpu.DeviceShare
}

// New returns a MemoryLimiter. It does not call the driver.
func New(cfg MemoryLimiterConfig) *MemoryLimiter {
	if cfg.Root == "" {
		cfg.Root = DefaultRoot
	}
	if cfg.CgroupsRoot == "" {
		cfg.CgroupsRoot = "mesos"
	}
	return &MemoryLimiter{cfg: cfg, admitted: map[string][]gpu.DeviceShare{}}
}

// Method implements share.Limiter.
func (l *MemoryLimiter) Method() gpu.EnforcementMethod { return gpu.EnforcedByDriver }

// CheckDevice implements share.Limiter.
func (l *MemoryLimiter) CheckDevice(ctx context.Context, d gpu.Device) error {
	switch {
	case l.cfg.Simulated:
		return errors.New("the GPU is simulated: there is no driver to limit it")
	case d.MIG != nil:
		return errors.New("the driver limits no MIG device")
	}
	if _, err := os.Stat(filepath.Join(l.cfg.Root, "cgroup.controllers")); err != nil {
		return fmt.Errorf("the driver limits cgroups of version 2 at %s, which is not mounted there: %w", l.cfg.Root, err)
	}
	if err := l.cfg.Driver.CheckSupport(d.UUID); err != nil {
		return err
	}
	if err := l.cfg.Compute.CheckDevice(ctx, d); err != nil {
		return fmt.Errorf("the driver limits memory, and compute cannot be by %s: %w", l.cfg.Compute.Method(), err)
	}
	return nil
}

// AdmitContainer implements share.Limiter. A container whose cgroup does not exist has no
// processes either: it is limited when it is admitted again.
func (l *MemoryLimiter) AdmitContainer(ctx context.Context, container string, shares []gpu.DeviceShare) (share.LimitSetup, error) {
	setup, err := l.admitToCompute(ctx, container, shares)
	if err != nil {
		return share.LimitSetup{}, err
	}
	group := l.cgroupPath(container)
	switch _, err := os.Stat(filepath.Join(l.cfg.Root, group)); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return share.LimitSetup{}, fmt.Errorf("find the container's cgroup: %w", err)
	default:
		if err := l.limitMemory(group, shares); err != nil {
			return share.LimitSetup{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admitted[container] = slices.Clone(shares)
	return setup, nil
}

// admitToCompute admits the container to the compute limiter if it requests cores.
func (l *MemoryLimiter) admitToCompute(ctx context.Context, container string, shares []gpu.DeviceShare) (share.LimitSetup, error) {
	i := slices.IndexFunc(shares, func(p gpu.DeviceShare) bool { return p.Cores > 0 && p.Cores < gpu.AllCores })
	switch {
	case i < 0:
		return share.LimitSetup{}, nil
	case l.cfg.Compute.Method() == gpu.NotEnforced:
		return share.LimitSetup{}, fmt.Errorf("it asks for %d %% of the cores of %s, and the driver limits memory alone: ask for memory only, or install the library of --share-library", shares[i].Cores, shares[i].UUID)
	}
	return l.cfg.Compute.AdmitContainer(ctx, container, shares)
}

// cgroupPath returns the path of the container's cgroup below Root, as Mesos names it.
func (l *MemoryLimiter) cgroupPath(container string) string {
	return path.Join(l.cfg.CgroupsRoot, strings.ReplaceAll(container, ".", "/mesos/"))
}

func (l *MemoryLimiter) limitMemory(group string, shares []gpu.DeviceShare) error {
	if err := l.enableAccounting(group); err != nil {
		return err
	}
	dir := filepath.Join(l.cfg.Root, group)
	for _, p := range shares {
		want := uint64(p.MemMiB) << 20
		if err := l.cfg.Driver.SetLimit(p.UUID, dir, want); err != nil {
			return err
		}
		got, err := l.cfg.Driver.ReadLimit(p.UUID, dir)
		if err != nil {
			return err
		}
		if got.LimitBytes != want {
			return fmt.Errorf("limit cgroup %s on GPU %s: the driver has %d bytes after %d were set", dir, p.UUID, got.LimitBytes, want)
		}
	}
	return nil
}

// dmemController is the kernel's controller of device memory.
const dmemController = "dmem"

// enableAccounting enables the dmem controller for a cgroup if the kernel has it: the driver
// sets no limit without. All cgroups above must delegate it.
func (l *MemoryLimiter) enableAccounting(group string) error {
	dir := l.cfg.Root
	for _, name := range strings.Split(group, "/") {
		has, err := listsDmem(dir, "cgroup.controllers")
		if err != nil || !has {
			return err
		}
		switch passes, err := listsDmem(dir, "cgroup.subtree_control"); {
		case err != nil:
			return err
		case !passes:
			if err := writeExisting(filepath.Join(dir, "cgroup.subtree_control"), "+"+dmemController); err != nil {
				return fmt.Errorf("have cgroups below %s count device memory: %w", dir, err)
			}
		}
		dir = filepath.Join(dir, name)
	}
	return nil
}

func listsDmem(dir, file string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return false, fmt.Errorf("learn whether a cgroup counts device memory: %w", err)
	}
	return slices.Contains(strings.Fields(string(text)), dmemController), nil
}

// writeExisting writes a file and never creates it: a missing file belongs to no cgroup.
func writeExisting(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// ReadUsage implements share.Limiter. The driver counts memory, the compute limiter compute.
func (l *MemoryLimiter) ReadUsage(container string) ([]share.ShareUsage, error) {
	l.mu.Lock()
	shares := l.admitted[container]
	l.mu.Unlock()
	compute, err := l.cfg.Compute.ReadUsage(container)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(l.cfg.Root, l.cgroupPath(container))
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = ""
	}
	var list []share.ShareUsage
	for _, p := range shares {
		u := share.ShareUsage{UUID: p.UUID, Cores: p.Cores}
		if i := slices.IndexFunc(compute, func(c share.ShareUsage) bool { return c.UUID == p.UUID }); i >= 0 {
			u = compute[i]
		}
		u.MemLimitBytes, u.Measured = p.MemMiB<<20, dir != ""
		if u.Measured {
			got, err := l.cfg.Driver.ReadLimit(p.UUID, dir)
			if err != nil {
				return nil, err
			}
			u.MemUsedBytes = int64(got.UsedBytes)
		}
		list = append(list, u)
	}
	return list, nil
}

// ReleaseContainer implements share.Limiter. The driver's limit is removed with the cgroup.
func (l *MemoryLimiter) ReleaseContainer(ctx context.Context, container string) error {
	if err := l.cfg.Compute.ReleaseContainer(ctx, container); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.admitted, container)
	return nil
}
