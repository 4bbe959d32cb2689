// Package mps holds tasks to their parts of shared devices by NVIDIA's
// Multi-Process Service: it keeps one control daemon for each device that is in
// use, with folders of its own, and tells each container how to reach it and
// how much it may take. What MPS enforces, and for whom, is NVIDIA's to say:
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

// Config says how control daemons are run.
type Config struct {
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

	// Every is the time between two probes of a daemon, 5 s; each command may
	// take Patience, 10 s. BackoffMin and BackoffMax bound the pause before one
	// that died is started again, 1 s and 1 min.
	Every, Patience, BackoffMin, BackoffMax time.Duration
}

// MPS implements share.Limiter.
type MPS struct {
	cfg Config

	mu       sync.Mutex
	closed   bool
	servers  map[string]*server    // by device
	ending   map[string]*server    // those that are told to stop, by device
	admitted map[string][]gpu.Part // by container
}

// New checks the configuration; nothing runs before a container is admitted.
func New(cfg Config) (*MPS, error) {
	if cfg.Dir == "" || cfg.Log == nil {
		return nil, errors.New("mps: no folder or no log given")
	}
	cfg.Program, cfg.SMI = cmp.Or(cfg.Program, "nvidia-cuda-mps-control"), cmp.Or(cfg.SMI, "nvidia-smi")
	cfg.SharedMemory = cmp.Or(cfg.SharedMemory, "/dev/shm/mesos-gpu-mps")
	for value, fallback := range map[*time.Duration]time.Duration{
		&cfg.Every: 5 * time.Second, &cfg.Patience: 10 * time.Second, &cfg.BackoffMin: time.Second, &cfg.BackoffMax: time.Minute,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	return &MPS{cfg: cfg, servers: map[string]*server{}, ending: map[string]*server{}, admitted: map[string][]gpu.Part{}}, nil
}

// Method implements share.Limiter.
func (m *MPS) Method() gpu.Method { return gpu.HeldByMPS }

// firstArch is Volta's compute capability: before it MPS limits no client.
const firstArch = 7

// Check implements share.Limiter.
func (m *MPS) Check(_ context.Context, d gpu.Device) error {
	if m.cfg.Simulated {
		return errors.New("the GPU is simulated: there is no driver to serve")
	}
	if d.MIG != nil {
		return errors.New("a MIG device is served by no control daemon here")
	}
	if major, _, _ := strings.Cut(d.Arch, "."); major != "" {
		if n, err := strconv.Atoi(major); err != nil || n < firstArch {
			return fmt.Errorf("compute capability %s: MPS limits clients from %d.0 on", d.Arch, firstArch)
		}
	}
	if _, err := exec.LookPath(m.cfg.Program); err != nil {
		return fmt.Errorf("find the MPS control program: %w", err)
	}
	return nil
}

// Admit implements share.Limiter. It returns once the device's daemon answers.
// A process reaches one daemon, so that a container has parts of one device.
// One that runs keeps the limits with which it was started.
func (m *MPS) Admit(ctx context.Context, container string, parts []gpu.Part) (share.Setup, error) {
	if len(parts) != 1 {
		return share.Setup{}, fmt.Errorf("it has parts of %d devices and MPS serves a process one: ask for 1, or run this agent with another --share-limit", len(parts))
	}
	s, before, err := m.enter(ctx, container, parts)
	if err != nil {
		return share.Setup{}, err
	}
	if err := s.await(ctx); err != nil {
		m.leave(ctx, container, before)
		return share.Setup{}, err
	}
	return s.setup(parts[0]), nil
}

// leave takes back what enter booked. A container that was admitted before runs,
// and keeps its daemon, however slow that is.
func (m *MPS) leave(ctx context.Context, container string, before []gpu.Part) {
	if before == nil {
		_ = m.Release(ctx, container) // why the daemon did not answer is told
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.admitted[container] = before
}

// enter books the container, whose parts were those before, and starts its
// device's daemon once none of an earlier one is left.
func (m *MPS) enter(ctx context.Context, container string, parts []gpu.Part) (s *server, before []gpu.Part, err error) {
	uuid := parts[0].UUID
	m.mu.Lock()
	defer m.mu.Unlock()
	for last := m.ending[uuid]; last != nil; last = m.ending[uuid] {
		m.mu.Unlock()
		select {
		case <-last.gone:
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
	s = m.servers[uuid]
	if s == nil {
		s = newServer(m.cfg, uuid)
		m.servers[uuid] = s
		s.start()
	}
	before = m.admitted[container]
	m.admitted[container] = slices.Clone(parts)
	return s, before, nil
}

// Usage implements share.Limiter: MPS measures nothing of a container.
func (m *MPS) Usage(container string) ([]share.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []share.Usage
	for _, p := range m.admitted[container] {
		list = append(list, share.Usage{UUID: p.UUID, MemLimitBytes: p.MemMiB << 20, Cores: p.Cores})
	}
	return list, nil
}

// Release implements share.Limiter. The last container of a device ends its
// daemon.
func (m *MPS) Release(_ context.Context, container string) error {
	m.mu.Lock()
	parts := m.admitted[container]
	delete(m.admitted, container)
	var idle *server
	for _, p := range parts {
		if !m.used(p.UUID) && m.servers[p.UUID] != nil {
			idle = m.servers[p.UUID]
			m.ending[p.UUID] = idle
			delete(m.servers, p.UUID)
		}
	}
	m.mu.Unlock()
	if idle == nil {
		return nil
	}
	err := idle.stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ending, idle.uuid)
	close(idle.gone)
	return err
}

// used is called with mu held.
func (m *MPS) used(uuid string) bool {
	for _, parts := range m.admitted {
		if slices.ContainsFunc(parts, func(p gpu.Part) bool { return p.UUID == uuid }) {
			return true
		}
	}
	return false
}

// Run waits for ctx to end. Control daemons that have clients then stay: ending
// them would end the clients, and the next daemon takes them over.
func (m *MPS) Run(ctx context.Context) error {
	<-ctx.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for uuid, s := range m.servers {
		s.leave()
		m.cfg.Log.WithField("gpu", uuid).Info("MPS control daemon stays for the containers that use it")
	}
	return nil
}

// setup is what a client needs. Paths are the same inside and outside, so that
// they hold in a container without a file system of its own too.
func (s *server) setup(p gpu.Part) share.Setup {
	env := map[string]string{
		pipeVariable:                       s.pipe(),
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": fmt.Sprintf("0=%dM", p.MemMiB),
	}
	if p.Cores > 0 {
		env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = strconv.Itoa(min(p.Cores, gpu.AllCores))
	}
	return share.Setup{
		Mounts:      []share.Mount{{Source: s.pipe(), Target: s.pipe()}, {Source: s.shm(), Target: "/dev/shm"}},
		Environment: env,
	}
}

func (s *server) pipe() string { return filepath.Join(s.dir, "pipe") }
func (s *server) logs() string { return filepath.Join(s.dir, "log") }
func (s *server) shm() string  { return filepath.Join(s.cfg.SharedMemory, s.uuid) }
