// Package mig keeps GPUs in MIG mode partitioned into the instances that an operator requested.
// It decides which instances are created and destroyed; the caller decides when a GPU may be
// changed. It never destroys an instance that it did not create, and never changes MIG mode.
package mig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/layout"
)

// Lists of no GPU and of all GPUs.
const (
	None = "none"
	All  = "all"
)

// Errors of Partitioner.RequestLayout.
var (
	ErrUnknownGPU     = errors.New("no such GPU in MIG mode on this host, or not one that --mig allows to partition")
	ErrLayoutRejected = errors.New("the GPU cannot have this layout")
)

// InstanceDriver creates and destroys instances, as nvml.Library does.
type InstanceDriver interface {
	// ListMIGGPUs returns the physical GPUs in MIG mode.
	ListMIGGPUs() ([]gpu.Device, error)
	ListProfiles(uuid string) ([]layout.InstanceProfile, error)
	ListInstances(uuid string) ([]layout.GPUInstance, error)
	// CreateInstance completes an instance that exists. DestroyInstance of one that does not
	// exist is no error. Both may be repeated.
	CreateInstance(uuid string, i layout.GPUInstance) error
	DestroyInstance(uuid string, i layout.GPUInstance) error
}

// PartitionerConfig configures a Partitioner.
type PartitionerConfig struct {
	Driver InstanceDriver // nil if the hardware cannot be partitioned
	// List is "none", "all", or minor numbers and UUIDs of GPUs separated by commas.
	List string
	// Layout is the layout of GPUs for which none was requested, in the syntax of
	// layout.ParseLayout. Empty leaves them as they are.
	Layout string
	// StateDir contains the requested layouts and the created instances.
	StateDir string
	// BootID changes with each boot, which destroys all instances; empty if it is not known.
	BootID string
	// Lost are the host's lost devices. List may name their GPUs.
	Lost []gpu.LostDevice
	Log  logrus.FieldLogger
}

// Partitioner partitions GPUs. It is safe for concurrent use.
type Partitioner struct {
	cfg PartitionerConfig
	// defaultLayout is PartitionerConfig.Layout, parsed; nil if it is empty.
	defaultLayout []string
	// gpus are the GPUs in MIG mode that PartitionerConfig.List selects, and
	// profiles the instances that each of them can have. Neither changes.
	gpus     []gpu.Device
	profiles map[string][]layout.InstanceProfile
	// layoutRequested has a token after a request.
	layoutRequested chan struct{}

	// changeLock is held while instances or the file are changed. It is locked
	// before mu.
	changeLock sync.Mutex
	mu         sync.Mutex
	// saved is the content of the file. An instance is recorded before it is
	// created, and removed from the record after it is destroyed.
	saved savedState
	// failures has, by GPU, the last error of applying its layout and when it
	// is tried again. Success and a new request remove the entry.
	failures map[string]layoutFailure
}

// PartitionedGPU is a GPU that may be partitioned, as the daemon's API describes it.
type PartitionedGPU struct {
	UUID   string `json:"uuid"`
	Model  string `json:"model"`
	Minor  int    `json:"minor"`
	MemMiB int64  `json:"mem_mib"`
	// Layout is the wanted layout; absent if the GPU stays as it is.
	Layout []string `json:"layout,omitempty"`
	// Pending is set if the GPU does not have that layout yet. Reason is the last error.
	Pending   bool                     `json:"pending,omitempty"`
	Reason    string                   `json:"reason,omitempty"`
	Instances []InstanceStatus         `json:"instances"`
	Profiles  []layout.InstanceProfile `json:"profiles"`
}

// InstanceStatus is an instance of a GPU. Instances of other software are never destroyed.
type InstanceStatus struct {
	layout.GPUInstance
	Ours bool `json:"ours"`
}

// Open reads the saved state and queries the driver. The error names entries of the list that
// are not GPUs in MIG mode.
func Open(cfg PartitionerConfig) (*Partitioner, error) {
	c := &Partitioner{cfg: cfg, profiles: map[string][]layout.InstanceProfile{}, layoutRequested: make(chan struct{}, 1), failures: map[string]layoutFailure{}}
	if list := strings.TrimSpace(cfg.List); list == "" || list == None {
		if cfg.Layout != "" {
			return nil, errors.New("a MIG layout requires GPUs to partition: name them by --mig")
		}
		return c, nil
	}
	if cfg.Layout != "" {
		names, err := layout.ParseLayout(cfg.Layout)
		if err != nil {
			return nil, err
		}
		c.defaultLayout = names
	}
	if err := c.selectGPUs(); err != nil {
		return nil, fmt.Errorf("GPUs to partition %q: %w", cfg.List, err)
	}
	for _, d := range c.gpus {
		profiles, err := cfg.Driver.ListProfiles(d.UUID)
		if err != nil {
			return nil, err
		}
		c.profiles[d.UUID] = profiles
	}
	if err := c.loadState(); err != nil {
		return nil, err
	}
	for _, d := range c.gpus {
		if _, known := c.saved.GPUs[d.UUID]; known {
			if err := c.pruneRecords(d.UUID); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// selectGPUs selects the GPUs of the list.
func (p *Partitioner) selectGPUs() error {
	if p.cfg.Driver == nil {
		return errors.New("these GPUs cannot be partitioned: they are simulated")
	}
	all, err := p.cfg.Driver.ListMIGGPUs()
	if err != nil {
		return err
	}
	for _, d := range all {
		if IsSelected(p.cfg.List, d) {
			p.gpus = append(p.gpus, d)
		}
	}
	for part := range strings.SplitSeq(p.cfg.List, ",") {
		if !slices.ContainsFunc(all, func(d gpu.Device) bool { return IsSelected(part, d) }) && !p.mayBeLost(part) {
			return fmt.Errorf("%q names none of this host's %d GPUs in MIG mode; `nvidia-smi -i GPU -mig 1` enables it", part, len(all))
		}
	}
	return nil
}

// mayBeLost reports whether a part of the list names a lost GPU, or may name one that was never
// described.
func (p *Partitioner) mayBeLost(part string) bool {
	return slices.ContainsFunc(p.cfg.Lost, func(l gpu.LostDevice) bool {
		d := l.Device
		if d.MIG != nil {
			d.UUID = d.MIG.Parent
		}
		return !l.IsKnown() || IsSelected(part, d)
	})
}

// IsSelected reports whether a list of GPUs names that GPU.
func IsSelected(list string, d gpu.Device) bool {
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part == All || strings.EqualFold(part, d.UUID) || part == strconv.Itoa(d.Minor) {
			return true
		}
	}
	return false
}

// CanPartition reports whether that GPU may be partitioned.
func (p *Partitioner) CanPartition(uuid string) bool {
	return slices.ContainsFunc(p.gpus, func(d gpu.Device) bool { return d.UUID == uuid })
}

// LayoutRequested returns a channel that receives a value after a layout was requested.
func (p *Partitioner) LayoutRequested() <-chan struct{} { return p.layoutRequested }

// ListGPUs returns the GPUs that may be partitioned.
func (p *Partitioner) ListGPUs() ([]PartitionedGPU, error) {
	list := []PartitionedGPU{}
	for _, d := range p.gpus {
		g := PartitionedGPU{UUID: d.UUID, Model: d.Model, Minor: d.Minor, MemMiB: d.MemMiB, Instances: []InstanceStatus{}, Profiles: p.profiles[d.UUID]}
		has, err := p.cfg.Driver.ListInstances(d.UUID)
		if err != nil {
			return nil, err
		}
		made, wanted, why := p.lookUpState(d.UUID)
		for _, i := range has {
			g.Instances = append(g.Instances, InstanceStatus{i, slices.Contains(made, i)})
		}
		if g.Layout = wanted; wanted != nil {
			end, create, err := layout.PlanChange(g.Profiles, has, made, wanted)
			g.Pending = err != nil || len(end)+len(create) > 0
			if err = cmp.Or(why, err); err != nil && g.Pending {
				g.Reason = err.Error()
			}
		}
		list = append(list, g)
	}
	return list, nil
}

// lookUpState returns the instances created on a GPU, its wanted layout, and its last error.
func (p *Partitioner) lookUpState(uuid string) (made []layout.GPUInstance, wanted []string, why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.saved.GPUs[uuid]
	wanted = p.defaultLayout
	if len(k.Requested) > 0 {
		wanted = k.Requested
	}
	return slices.Clone(k.Made), wanted, p.failures[uuid].err
}

// RequestLayout requests a layout for a GPU. The request survives restarts. It takes effect
// when no task uses an instance that it destroys; pending is true until then. The error wraps
// ErrUnknownGPU or ErrLayoutRejected if the request is at fault.
func (p *Partitioner) RequestLayout(uuid string, names []string) (pending bool, err error) {
	what := fmt.Sprintf("partition GPU %s into %s", uuid, layout.FormatLayout(names))
	if !p.CanPartition(uuid) {
		return false, fmt.Errorf("%s: %w", what, ErrUnknownGPU)
	}
	if len(names) == 0 {
		return false, fmt.Errorf("%s: %w: name at least one profile", what, ErrLayoutRejected)
	}
	has, err := p.cfg.Driver.ListInstances(uuid)
	if err != nil {
		return false, err
	}
	made, _, _ := p.lookUpState(uuid)
	end, create, err := layout.PlanChange(p.profiles[uuid], has, made, names)
	if err != nil {
		return false, fmt.Errorf("%s: %w: %w", what, ErrLayoutRejected, err)
	}
	err = p.lockAndUpdate(func(gpus map[string]savedGPU) { gpus[uuid] = savedGPU{Requested: names, Made: gpus[uuid].Made} })
	if err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	p.mu.Lock()
	delete(p.failures, uuid)
	p.mu.Unlock()
	select {
	case p.layoutRequested <- struct{}{}:
	default:
	}
	return len(end)+len(create) > 0, nil
}

// AddPlaceholders returns the host with a placeholder for each GPU that may be partitioned and
// has no instance now. So lists of shared devices may name the GPU, and limiters can check it.
func (p *Partitioner) AddPlaceholders(h gpu.Host) gpu.Host { return AddPlaceholders(h, p.gpus) }

// AddPlaceholders is Partitioner.AddPlaceholders for those GPUs.
func AddPlaceholders(h gpu.Host, gpus []gpu.Device) gpu.Host {
	h.Devices = slices.Clone(h.Devices)
	for _, g := range gpus {
		if !slices.ContainsFunc(h.Devices, func(d gpu.Device) bool { return d.MIG != nil && d.MIG.Parent == g.UUID }) {
			g.MIG = &gpu.MIG{Parent: g.UUID}
			h.Devices = append(h.Devices, g)
		}
	}
	return h
}
