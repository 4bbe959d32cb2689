// Package preload limits shares of devices with this project's own library, which every process
// of the container loads. It writes the library's files for each container and reads what was
// used. Package limiter documents what the library can enforce and what it cannot.
package preload

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/limiter"
	"mesos-gpu/isolator/share"
)

// DefaultLibrary is where the package installs the library.
const DefaultLibrary = "/usr/lib/mesos-gpu/libmesosgpu.so"

// preloadPath is the file that makes every process of a container load the library.
const preloadPath = "/etc/ld.so.preload"

// LibraryLimiterConfig configures a LibraryLimiter.
type LibraryLimiterConfig struct {
	// Dir contains a folder for each container; a runtime directory is enough.
	Dir string
	// Library is libmesosgpu.so on the host.
	Library string
	// Oversubscribe moves allocations for which the device has no memory left to host memory.
	Oversubscribe bool
	// Simulated is set on a host with simulated GPUs, which has no driver functions for the
	// library to hook.
	Simulated bool
	// Driver, if set, returns the version of the host's driver.
	Driver func() string
}

// LibraryLimiter implements share.Limiter. All its state is in files, so a later process
// continues with it.
type LibraryLimiter struct{ cfg LibraryLimiterConfig }

// New returns a LibraryLimiter. It writes no files.
func New(cfg LibraryLimiterConfig) *LibraryLimiter {
	if cfg.Library == "" {
		cfg.Library = DefaultLibrary
	}
	return &LibraryLimiter{cfg}
}

// Method implements share.Limiter.
func (lim *LibraryLimiter) Method() gpu.EnforcementMethod { return gpu.EnforcedByPreload }

// CheckDevice implements share.Limiter.
func (lim *LibraryLimiter) CheckDevice(context.Context, gpu.Device) error {
	if lim.cfg.Simulated {
		return errors.New("the GPU is simulated: there is no driver to limit")
	}
	if lim.cfg.Driver != nil {
		if err := share.CheckDriver(gpu.EnforcedByPreload, lim.cfg.Driver()); err != nil {
			return err
		}
	}
	if info, err := os.Stat(lim.cfg.Library); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("no library at %s: install it there, or say where it is by --share-library", lim.cfg.Library)
	}
	return nil
}

// AdmitContainer implements share.Limiter. If the shares are the same, the container's
// processes keep their usage file. If they change, only processes started in a new root file
// system see the new files.
func (lim *LibraryLimiter) AdmitContainer(ctx context.Context, container string, shares []gpu.DeviceShare) (share.LimitSetup, error) {
	if err := lim.CheckDevice(ctx, gpu.Device{}); err != nil {
		return share.LimitSetup{}, err
	}
	dir := lim.containerDir(container)
	want := lim.containerLimits(shares)
	now, err := readLimits(dir)
	if err != nil || !slices.Equal(now.Devices, want.Devices) {
		if err := writeFiles(dir, want); err != nil {
			return share.LimitSetup{}, err
		}
	}
	return share.LimitSetup{OwnRootfs: true, Mounts: []share.LimitMount{
		{Source: lim.cfg.Library, Target: limiter.LibraryPath, ReadOnly: true},
		{Source: filepath.Join(dir, "limits"), Target: limiter.LimitsPath, ReadOnly: true},
		{Source: filepath.Join(dir, "books"), Target: limiter.UsagePath},
		{Source: filepath.Join(dir, "preload"), Target: preloadPath, ReadOnly: true},
	}}, nil
}

// containerDir returns the container's folder. Its name is a digest, because a container id may
// be longer than a file name.
func (lim *LibraryLimiter) containerDir(container string) string {
	sum := sha256.Sum256([]byte(container))
	return filepath.Join(lim.cfg.Dir, hex.EncodeToString(sum[:16]))
}

// containerLimits returns the library's limits for the shares. A share without cores has no
// core limit: it uses what others leave.
func (lim *LibraryLimiter) containerLimits(shares []gpu.DeviceShare) limiter.ContainerLimits {
	var l limiter.ContainerLimits
	for _, part := range shares {
		cores := min(part.Cores, gpu.AllCores)
		if cores == 0 {
			cores = gpu.AllCores
		}
		l.Devices = append(l.Devices, limiter.DeviceLimit{
			UUID: part.UUID, MemoryBytes: uint64(part.MemMiB) << 20, CoresPercent: cores, Oversubscribe: lim.cfg.Oversubscribe,
		})
	}
	return l
}

func readLimits(dir string) (limiter.ContainerLimits, error) {
	text, err := os.ReadFile(filepath.Join(dir, "limits"))
	if err != nil {
		return limiter.ContainerLimits{}, err
	}
	return limiter.ParseLimits(text)
}

// writeFiles writes the files, the limits last: they mark the folder as complete. The usage
// file is writable by every user inside the container; outside it the folder is private.
func writeFiles(dir string, l limiter.ContainerLimits) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder of limits: %w", err)
	}
	var nonce [8]byte
	rand.Read(nonce[:])
	l.Nonce = binary.LittleEndian.Uint64(nonce[:])
	if err := limiter.CreateUsageFile(filepath.Join(dir, "books"), l); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "preload"), []byte(limiter.LibraryPath+"\n"), 0o644); err != nil {
		return fmt.Errorf("have processes load the library: %w", err)
	}
	return limiter.WriteLimits(filepath.Join(dir, "limits"), l)
}

// ReadUsage implements share.Limiter.
func (lim *LibraryLimiter) ReadUsage(container string) ([]share.ShareUsage, error) {
	dir := lim.containerDir(container)
	l, err := readLimits(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	uses, err := limiter.ReadUsageFile(filepath.Join(dir, "books"), l)
	if err != nil {
		return nil, err
	}
	var list []share.ShareUsage
	for i, u := range uses {
		cores := l.Devices[i].CoresPercent
		if cores == gpu.AllCores || u.NotMeasured {
			cores = 0 // no limit, or none that can be kept
		}
		list = append(list, share.ShareUsage{
			UUID: u.UUID, MemLimitBytes: int64(u.LimitBytes), Cores: cores, Measured: true, MemUsedBytes: int64(u.UsedBytes), Throttled: u.Throttled,
		})
	}
	return list, nil
}

// ReleaseContainer implements share.Limiter.
func (lim *LibraryLimiter) ReleaseContainer(_ context.Context, container string) error {
	if err := os.RemoveAll(lim.containerDir(container)); err != nil {
		return fmt.Errorf("remove limits: %w", err)
	}
	return nil
}
