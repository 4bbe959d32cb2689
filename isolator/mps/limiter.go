// Package mps limits shares of devices with NVIDIA's Multi-Process Service. It runs one control
// daemon for each device in use, with folders of its own, and passes each container the
// daemon's address and its limits. NVIDIA documents what MPS enforces: each limit applies to
// one process, and a process that changes its environment is not limited.
package mps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/share"
)

// ControlConfig configures the control daemons.
type ControlConfig struct {
	// Dir contains the folders of each device; a runtime directory is enough.
	Dir string
	// sharedMemory is a folder in a tmpfs for this program only. It contains a folder for each
	// device, which the daemon and its clients use as /dev/shm. A file system mounted for them
	// would not be visible outside the agent's systemd unit.
	sharedMemory string
	// program is NVIDIA's nvidia-cuda-mps-control, by default from PATH. arguments come before
	// its own arguments.
	program   string
	arguments []string
	// Simulated is set on a host with simulated GPUs.
	Simulated bool
	// Driver, if set, returns the version of the host's driver.
	Driver func() string
	// Exclusive sets the compute mode of a device in use to EXCLUSIVE_PROCESS, so that no
	// process can use the device without the daemon. Otherwise the mode is not changed.
	Exclusive bool
	Log       logrus.FieldLogger

	// probeInterval is the time between two probes of a daemon, by default 5 s. commandTimeout
	// bounds a command, by default 10 s. backoffMin and backoffMax bound the pause before a
	// daemon that died is restarted, by default 1 s and 1 min.
	probeInterval, commandTimeout, backoffMin, backoffMax time.Duration
}

// Limiter implements share.Limiter.
type Limiter struct {
	cfg ControlConfig

	mu sync.Mutex
	// closed is set when Run ends. No container is admitted after that.
	closed bool
	// daemons has the daemon of each device with admitted containers. It is
	// started for the first container and stopped after the last.
	daemons map[string]*controlDaemon
	// ending has the daemon of each device that is being stopped. The next
	// daemon of the device starts after that.
	ending map[string]*controlDaemon
	// admitted has the shares of each admitted container, exactly one.
	admitted map[string][]gpu.DeviceShare
}

// New checks the configuration. It starts no process before a container is admitted.
func New(cfg ControlConfig) (*Limiter, error) {
	if cfg.Dir == "" || cfg.Log == nil {
		return nil, errors.New("mps: Dir or Log is missing")
	}
	cfg.program = cmp.Or(cfg.program, "nvidia-cuda-mps-control")
	cfg.sharedMemory = cmp.Or(cfg.sharedMemory, "/dev/shm/mesos-gpu-mps")
	for value, fallback := range map[*time.Duration]time.Duration{
		&cfg.probeInterval: 5 * time.Second, &cfg.commandTimeout: 10 * time.Second, &cfg.backoffMin: time.Second, &cfg.backoffMax: time.Minute,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	return &Limiter{cfg: cfg, daemons: map[string]*controlDaemon{}, ending: map[string]*controlDaemon{}, admitted: map[string][]gpu.DeviceShare{}}, nil
}

// Method implements share.Limiter.
func (m *Limiter) Method() gpu.EnforcementMethod { return gpu.EnforcedByMPS }

// minComputeMajor is Volta's compute capability. MPS does not limit clients of older GPUs.
const minComputeMajor = 7

// CheckDevice implements share.Limiter.
func (m *Limiter) CheckDevice(_ context.Context, d gpu.Device) error {
	if m.cfg.Simulated {
		return errors.New("the GPU is simulated: it has no driver")
	}
	if m.cfg.Driver != nil {
		if err := share.CheckDriver(gpu.EnforcedByMPS, m.cfg.Driver()); err != nil {
			return err
		}
	}
	if d.MIG != nil {
		return errors.New("MPS for MIG devices is not supported")
	}
	if major, _, _ := strings.Cut(d.Arch, "."); major != "" {
		if n, err := strconv.Atoi(major); err != nil || n < minComputeMajor {
			return fmt.Errorf("compute capability %s: MPS limits clients only from %d.0 on", d.Arch, minComputeMajor)
		}
	}
	if _, err := exec.LookPath(m.cfg.program); err != nil {
		return fmt.Errorf("find the MPS control program: %w", err)
	}
	return nil
}

// AdmitContainer implements share.Limiter. It returns once the device's daemon responds. A
// process uses one daemon, so a container can have a share of one device only. A container that
// runs keeps the limits with which it was started.
func (m *Limiter) AdmitContainer(ctx context.Context, container string, shares []gpu.DeviceShare) (share.LimitSetup, error) {
	if len(shares) != 1 {
		return share.LimitSetup{},
			fmt.Errorf("it has shares of %d devices and a process can use one through MPS: request 1, or run this agent with another --share-limit", len(shares))
	}
	s, before, err := m.addContainer(ctx, container, shares)
	if err != nil {
		return share.LimitSetup{}, err
	}
	if err := s.awaitReady(ctx); err != nil {
		m.undoAdmission(ctx, container, before)
		return share.LimitSetup{}, err
	}
	return s.clientSetup(shares[0]), nil
}

// undoAdmission undoes addContainer. A container that was admitted before runs, and keeps its
// daemon, even if the daemon is slow.
func (m *Limiter) undoAdmission(ctx context.Context, container string, before []gpu.DeviceShare) {
	if before == nil {
		_ = m.ReleaseContainer(ctx, container) // the caller returns the daemon's error
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.admitted[container] = before
}

// addContainer records the container and returns its shares before. It starts the device's
// daemon, once an earlier daemon of the device has ended.
func (m *Limiter) addContainer(ctx context.Context, container string, shares []gpu.DeviceShare) (s *controlDaemon, before []gpu.DeviceShare, err error) {
	uuid := shares[0].UUID
	m.mu.Lock()
	defer m.mu.Unlock()
	for last := m.ending[uuid]; last != nil; last = m.ending[uuid] {
		m.mu.Unlock()
		select {
		case <-last.removed:
		case <-ctx.Done():
		}
		m.mu.Lock()
		if ctx.Err() != nil {
			return nil, nil, fmt.Errorf("wait for the previous MPS control daemon of device %s to end: %w", uuid, context.Cause(ctx))
		}
	}
	if m.closed {
		return nil, nil, errors.New("this process is ending")
	}
	s = m.daemons[uuid]
	if s == nil {
		s = newControlDaemon(m.cfg, uuid)
		m.daemons[uuid] = s
		s.startKeeping()
	}
	before = m.admitted[container]
	m.admitted[container] = slices.Clone(shares)
	return s, before, nil
}

// ReadUsage implements share.Limiter. MPS measures nothing of a container.
func (m *Limiter) ReadUsage(container string) ([]share.ShareUsage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []share.ShareUsage
	for _, p := range m.admitted[container] {
		list = append(list, share.ShareUsage{UUID: p.UUID, MemLimitBytes: p.MemMiB << 20, Cores: p.Cores})
	}
	return list, nil
}

// ReleaseContainer implements share.Limiter. It ends the daemon of a device after its last
// container.
func (m *Limiter) ReleaseContainer(_ context.Context, container string) error {
	m.mu.Lock()
	shares := m.admitted[container]
	delete(m.admitted, container)
	var idle *controlDaemon
	for _, p := range shares {
		if !m.isInUse(p.UUID) && m.daemons[p.UUID] != nil {
			idle = m.daemons[p.UUID]
			m.ending[p.UUID] = idle
			delete(m.daemons, p.UUID)
		}
	}
	m.mu.Unlock()
	if idle == nil {
		return nil
	}
	err := idle.stopDaemon()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ending, idle.uuid)
	close(idle.removed)
	return err
}

// AwaitUnlimited returns once no control daemon of the device runs, so that a container can use the device without MPS: in
// compute mode EXCLUSIVE_PROCESS only the daemon's clients can. It waits for the end of containers whose tasks have ended.
func (m *Limiter) AwaitUnlimited(ctx context.Context, uuid string) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.commandTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		m.mu.Lock()
		runs := m.daemons[uuid] != nil || m.ending[uuid] != nil
		m.mu.Unlock()
		if !runs {
			return m.checkNoOtherDaemon(uuid)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("its MPS control daemon still runs for containers with shares of it: %w", context.Cause(ctx))
		}
	}
}

// checkNoOtherDaemon returns an error if an earlier process left a control daemon that keeps other processes from the
// device. The daemon may have clients, so it is not ended here.
func (m *Limiter) checkNoOtherDaemon(uuid string) error {
	d := newControlDaemon(m.cfg, uuid)
	pid := d.findProcess()
	if !m.cfg.Exclusive || pid == 0 {
		return nil
	}
	return fmt.Errorf("an MPS control daemon of an earlier agent daemon, process %d, has it exclusively: "+
		"end the process and run nvidia-smi -i %s -c DEFAULT", pid, uuid)
}

// isInUse reports whether any container has a share of the device. The caller holds mu.
func (m *Limiter) isInUse(uuid string) bool {
	for _, shares := range m.admitted {
		if slices.ContainsFunc(shares, func(p gpu.DeviceShare) bool { return p.UUID == uuid }) {
			return true
		}
	}
	return false
}

// Run waits for ctx to end. Control daemons with clients then keep running: ending them would
// end the clients. The next process takes them over.
func (m *Limiter) Run(ctx context.Context) error {
	<-ctx.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for uuid, s := range m.daemons {
		s.leaveRunning()
		m.cfg.Log.WithField("gpu", uuid).Info("MPS control daemon keeps running for the containers that use it")
	}
	return nil
}

// clientSetup returns what a client needs. Paths are the same inside and outside of the
// container, so they also work in a container without a root file system of its own.
func (d *controlDaemon) clientSetup(p gpu.DeviceShare) share.LimitSetup {
	env := map[string]string{
		pipeVariable:                       d.pipeDir(),
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": fmt.Sprintf("0=%dM", p.MemMiB),
	}
	if p.Cores > 0 {
		env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = strconv.Itoa(min(p.Cores, gpu.AllCores))
	}
	return share.LimitSetup{
		Mounts:      []share.LimitMount{{Source: d.pipeDir(), Target: d.pipeDir()}, {Source: d.sharedMemoryDir(), Target: "/dev/shm"}},
		Environment: env,
	}
}

func (d *controlDaemon) pipeDir() string         { return filepath.Join(d.dir, "pipe") }
func (d *controlDaemon) logDir() string          { return filepath.Join(d.dir, "log") }
func (d *controlDaemon) sharedMemoryDir() string { return filepath.Join(d.cfg.sharedMemory, d.uuid) }
