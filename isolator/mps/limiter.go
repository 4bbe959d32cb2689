// Package mps holds tasks to their parts of shared devices by NVIDIA's
// Multi-Process Service: it keeps one control daemon for each device that is in
// use, with folders of its own, and tells each container how to reach it and
// how much it may take. What Limiter enforces, and for whom, is NVIDIA's to say:
// each limit is one process's, and a process that changes its environment
// escapes it.
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

// ControlConfig says how control daemons are run.
type ControlConfig struct {
	// Dir is where each device has its folders; a runtime directory will do.
	Dir string
	// SharedMemory is a folder of this program's own in a tmpfs. Clients of a
	// device have one below it for their /dev/shm, as its daemon has: a file
	// system mounted for them would not be seen out of the agent's unit.
	SharedMemory string
	// Program is NVIDIA's nvidia-cuda-mps-control, by default as PATH has it.
	// Arguments come before its own.
	Program   string
	Arguments []string
	// Simulated is set on a host whose GPUs are made up.
	Simulated bool
	// Exclusive has Program's neighbour nvidia-smi put a device in use into the
	// compute mode EXCLUSIVE_PROCESS, so that no process can use it past the
	// daemon; without it the mode is the operator's.
	Exclusive bool
	// SMI is nvidia-smi, by default as PATH has it.
	SMI string
	Log logrus.FieldLogger

	// ProbeInterval is the time between two probes of a daemon, 5 s; each command may
	// take Patience, 10 s. BackoffMin and BackoffMax bound the pause before one
	// that died is started again, 1 s and 1 min.
	ProbeInterval, CommandTimeout, BackoffMin, BackoffMax time.Duration
}

// Limiter implements share.Limiter.
type Limiter struct {
	cfg ControlConfig

	mu       sync.Mutex
	closed   bool
	daemons  map[string]*controlDaemon    // by device
	ending   map[string]*controlDaemon    // those that are told to stop, by device
	admitted map[string][]gpu.DeviceShare // by container
}

// New checks the configuration; nothing runs before a container is admitted.
func New(cfg ControlConfig) (*Limiter, error) {
	if cfg.Dir == "" || cfg.Log == nil {
		return nil, errors.New("mps: no folder or no log given")
	}
	cfg.Program, cfg.SMI = cmp.Or(cfg.Program, "nvidia-cuda-mps-control"), cmp.Or(cfg.SMI, "nvidia-smi")
	cfg.SharedMemory = cmp.Or(cfg.SharedMemory, "/dev/shm/mesos-gpu-mps")
	for value, fallback := range map[*time.Duration]time.Duration{
		&cfg.ProbeInterval: 5 * time.Second, &cfg.CommandTimeout: 10 * time.Second, &cfg.BackoffMin: time.Second, &cfg.BackoffMax: time.Minute,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	return &Limiter{cfg: cfg, daemons: map[string]*controlDaemon{}, ending: map[string]*controlDaemon{}, admitted: map[string][]gpu.DeviceShare{}}, nil
}

// Method implements share.Limiter.
func (m *Limiter) Method() gpu.EnforcementMethod { return gpu.EnforcedByMPS }

// minComputeMajor is Volta's compute capability: before it Limiter limits no client.
const minComputeMajor = 7

// CheckDevice implements share.Limiter.
func (m *Limiter) CheckDevice(_ context.Context, d gpu.Device) error {
	if m.cfg.Simulated {
		return errors.New("the GPU is simulated: there is no driver to serve")
	}
	if d.MIG != nil {
		return errors.New("a MIG device is served by no control daemon here")
	}
	if major, _, _ := strings.Cut(d.Arch, "."); major != "" {
		if n, err := strconv.Atoi(major); err != nil || n < minComputeMajor {
			return fmt.Errorf("compute capability %s: MPS limits clients from %d.0 on", d.Arch, minComputeMajor)
		}
	}
	if _, err := exec.LookPath(m.cfg.Program); err != nil {
		return fmt.Errorf("find the MPS control program: %w", err)
	}
	return nil
}

// AdmitContainer implements share.Limiter. It returns once the device's daemon answers.
// A process reaches one daemon, so that a container has parts of one device.
// One that runs keeps the limits with which it was started.
func (m *Limiter) AdmitContainer(ctx context.Context, container string, parts []gpu.DeviceShare) (share.LimitSetup, error) {
	if len(parts) != 1 {
		return share.LimitSetup{}, fmt.Errorf("it has parts of %d devices and MPS serves a process one: ask for 1, or run this agent with another --share-limit", len(parts))
	}
	s, before, err := m.addContainer(ctx, container, parts)
	if err != nil {
		return share.LimitSetup{}, err
	}
	if err := s.awaitReady(ctx); err != nil {
		m.undoAdmission(ctx, container, before)
		return share.LimitSetup{}, err
	}
	return s.clientSetup(parts[0]), nil
}

// undoAdmission takes back what enter booked. A container that was admitted before runs,
// and keeps its daemon, however slow that is.
func (m *Limiter) undoAdmission(ctx context.Context, container string, before []gpu.DeviceShare) {
	if before == nil {
		_ = m.ReleaseContainer(ctx, container) // why the daemon did not answer is told
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.admitted[container] = before
}

// addContainer books the container, whose parts were those before, and starts its
// device's daemon once none of an earlier one is left.
func (m *Limiter) addContainer(ctx context.Context, container string, parts []gpu.DeviceShare) (s *controlDaemon, before []gpu.DeviceShare, err error) {
	uuid := parts[0].UUID
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
			return nil, nil, fmt.Errorf("wait for the last MPS control daemon of device %s to end: %w", uuid, context.Cause(ctx))
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
	m.admitted[container] = slices.Clone(parts)
	return s, before, nil
}

// ReadUsage implements share.Limiter: Limiter measures nothing of a container.
func (m *Limiter) ReadUsage(container string) ([]share.ShareUsage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []share.ShareUsage
	for _, p := range m.admitted[container] {
		list = append(list, share.ShareUsage{UUID: p.UUID, MemLimitBytes: p.MemMiB << 20, Cores: p.Cores})
	}
	return list, nil
}

// ReleaseContainer implements share.Limiter. The last container of a device ends its
// daemon.
func (m *Limiter) ReleaseContainer(_ context.Context, container string) error {
	m.mu.Lock()
	parts := m.admitted[container]
	delete(m.admitted, container)
	var idle *controlDaemon
	for _, p := range parts {
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

// isInUse is called with mu held.
func (m *Limiter) isInUse(uuid string) bool {
	for _, parts := range m.admitted {
		if slices.ContainsFunc(parts, func(p gpu.DeviceShare) bool { return p.UUID == uuid }) {
			return true
		}
	}
	return false
}

// Run waits for ctx to end. Control daemons that have clients then stay: ending
// them would end the clients, and the next daemon takes them over.
func (m *Limiter) Run(ctx context.Context) error {
	<-ctx.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for uuid, s := range m.daemons {
		s.leaveRunning()
		m.cfg.Log.WithField("gpu", uuid).Info("MPS control daemon stays for the containers that use it")
	}
	return nil
}

// clientSetup is what a client needs. Paths are the same inside and outside, so that
// they hold in a container without a file system of its own too.
func (s *controlDaemon) clientSetup(p gpu.DeviceShare) share.LimitSetup {
	env := map[string]string{
		pipeVariable:                       s.pipeDir(),
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": fmt.Sprintf("0=%dM", p.MemMiB),
	}
	if p.Cores > 0 {
		env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = strconv.Itoa(min(p.Cores, gpu.AllCores))
	}
	return share.LimitSetup{
		Mounts:      []share.LimitMount{{Source: s.pipeDir(), Target: s.pipeDir()}, {Source: s.sharedMemoryDir(), Target: "/dev/shm"}},
		Environment: env,
	}
}

func (s *controlDaemon) pipeDir() string         { return filepath.Join(s.dir, "pipe") }
func (s *controlDaemon) logDir() string          { return filepath.Join(s.dir, "log") }
func (s *controlDaemon) sharedMemoryDir() string { return filepath.Join(s.cfg.SharedMemory, s.uuid) }
