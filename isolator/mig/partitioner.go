// Package mig keeps ListGPUs in MIG mode cut into the instances that an operator
// asked for. It decides which are made and which are ended, and when a PartitionedGPU may
// be cut anew is told to it. It never ends an instance that it did not make, and
// leaves MIG mode as it is.
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

// Lists that name no PartitionedGPU, and all.
const (
	None = "none"
	All  = "all"
)

// Errors of Cutter.Ask.
var (
	ErrUnknownGPU     = errors.New("no such GPU in MIG mode on this host, or none that --mig lets be cut")
	ErrLayoutRejected = errors.New("the GPU cannot be cut so")
)

// InstanceDriver makes and ends instances, as nvml.Library does.
type InstanceDriver interface {
	// ListMIGGPUs are the ListGPUs in MIG mode, whole.
	ListMIGGPUs() ([]gpu.Device, error)
	ListProfiles(uuid string) ([]layout.InstanceProfile, error)
	ListInstances(uuid string) ([]layout.GPUInstance, error)
	// CreateInstance completes an instance that is there, and Destroy of one that is not
	// is no error: both may be repeated.
	CreateInstance(uuid string, i layout.GPUInstance) error
	DestroyInstance(uuid string, i layout.GPUInstance) error
}

// PartitionerConfig says which ListGPUs may be cut.
type PartitionerConfig struct {
	Driver InstanceDriver // nil where the hardware cannot be cut
	// List is "none", "all", or minor numbers and UUIDs of ListGPUs with commas
	// between.
	List string
	// Layout is what they are cut into until somebody asks for another, as
	// layout.ParseLayout reads it; empty leaves them as they are.
	Layout string
	// StateDir keeps what was asked for and what was made.
	StateDir string
	// BootID tells one run of the machine, which ends all instances, from the
	// next; empty where nobody knows.
	BootID string
	Log    logrus.FieldLogger
}

// Partitioner cuts ListGPUs. It may be used by many goroutines.
type Partitioner struct {
	cfg             PartitionerConfig
	defaultLayout   []string // Config.Layout
	gpus            []gpu.Device
	profiles        map[string][]layout.InstanceProfile // by PartitionedGPU
	layoutRequested chan struct{}

	changeLock sync.Mutex // held by who changes instances or the file, before mu
	mu         sync.Mutex
	saved      savedState
	failures   map[string]layoutFailure
}

// PartitionedGPU is one that may be cut, as the daemon's API tells of it.
type PartitionedGPU struct {
	UUID   string `json:"uuid"`
	Model  string `json:"model"`
	Minor  int    `json:"minor"`
	MemMiB int64  `json:"mem_mib"`
	// Layout is what is wanted of it; absent where it stays as it is.
	Layout []string `json:"layout,omitempty"`
	// Pending tells that it is not cut so yet, and Reason why it could not be.
	Pending   bool                     `json:"pending,omitempty"`
	Reason    string                   `json:"reason,omitempty"`
	Instances []InstanceStatus         `json:"instances"`
	Profiles  []layout.InstanceProfile `json:"profiles"`
}

// InstanceStatus is what a PartitionedGPU is cut into. Those of others are never ended.
type InstanceStatus struct {
	layout.GPUInstance
	Ours bool `json:"ours"`
}

// Open reads what was kept, and asks the driver what there is. The error names
// what in the list is no PartitionedGPU in MIG mode.
func Open(cfg PartitionerConfig) (*Partitioner, error) {
	c := &Partitioner{cfg: cfg, profiles: map[string][]layout.InstanceProfile{}, layoutRequested: make(chan struct{}, 1), failures: map[string]layoutFailure{}}
	if list := strings.TrimSpace(cfg.List); list == "" || list == None {
		if cfg.Layout != "" {
			return nil, errors.New("a MIG layout is given and no GPU that may be cut: name them by --mig")
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
		return nil, fmt.Errorf("GPUs that may be cut %q: %w", cfg.List, err)
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

// selectGPUs chooses the ListGPUs of the list.
func (c *Partitioner) selectGPUs() error {
	if c.cfg.Driver == nil {
		return errors.New("these GPUs cannot be cut: they are made up")
	}
	all, err := c.cfg.Driver.ListMIGGPUs()
	if err != nil {
		return err
	}
	for _, d := range all {
		if IsSelected(c.cfg.List, d) {
			c.gpus = append(c.gpus, d)
		}
	}
	for part := range strings.SplitSeq(c.cfg.List, ",") {
		if !slices.ContainsFunc(all, func(d gpu.Device) bool { return IsSelected(part, d) }) {
			return fmt.Errorf("%q names none of this host's %d GPUs in MIG mode; `nvidia-smi -i GPU -mig 1` puts one into it", part, len(all))
		}
	}
	return nil
}

// IsSelected tells whether a list of ListGPUs that may be cut names that one.
func IsSelected(list string, d gpu.Device) bool {
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part == All || strings.EqualFold(part, d.UUID) || part == strconv.Itoa(d.Minor) {
			return true
		}
	}
	return false
}

// CanPartition reports whether that PartitionedGPU may be cut.
func (c *Partitioner) CanPartition(uuid string) bool {
	return slices.ContainsFunc(c.gpus, func(d gpu.Device) bool { return d.UUID == uuid })
}

// LayoutRequested has a token where something was asked for since it was looked at.
func (c *Partitioner) LayoutRequested() <-chan struct{} { return c.layoutRequested }

// ListGPUs are those that may be cut.
func (c *Partitioner) ListGPUs() ([]PartitionedGPU, error) {
	list := []PartitionedGPU{}
	for _, d := range c.gpus {
		g := PartitionedGPU{UUID: d.UUID, Model: d.Model, Minor: d.Minor, MemMiB: d.MemMiB, Instances: []InstanceStatus{}, Profiles: c.profiles[d.UUID]}
		has, err := c.cfg.Driver.ListInstances(d.UUID)
		if err != nil {
			return nil, err
		}
		made, wanted, why := c.lookUpState(d.UUID)
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

// lookUpState is what was made of a PartitionedGPU, what is wanted, and what went wrong last.
func (c *Partitioner) lookUpState(uuid string) (made []layout.GPUInstance, wanted []string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.saved.GPUs[uuid]
	wanted = c.defaultLayout
	if len(k.Requested) > 0 {
		wanted = k.Requested
	}
	return slices.Clone(k.Made), wanted, c.failures[uuid].err
}

// RequestLayout asks for a layout of a PartitionedGPU, over restarts too. It takes effect once no
// task holds a slice that it ends. pending tells that the PartitionedGPU is not cut so
// yet. The error wraps ErrUnknownGPU or ErrLayoutRejected where the call is at fault.
func (c *Partitioner) RequestLayout(uuid string, names []string) (pending bool, err error) {
	what := fmt.Sprintf("cut GPU %s into %s", uuid, layout.FormatLayout(names))
	if !c.CanPartition(uuid) {
		return false, fmt.Errorf("%s: %w", what, ErrUnknownGPU)
	}
	if len(names) == 0 {
		return false, fmt.Errorf("%s: %w: name one profile at least", what, ErrLayoutRejected)
	}
	has, err := c.cfg.Driver.ListInstances(uuid)
	if err != nil {
		return false, err
	}
	made, _, _ := c.lookUpState(uuid)
	end, create, err := layout.PlanChange(c.profiles[uuid], has, made, names)
	if err != nil {
		return false, fmt.Errorf("%s: %w: %w", what, ErrLayoutRejected, err)
	}
	err = c.lockAndUpdate(func(gpus map[string]savedGPU) { gpus[uuid] = savedGPU{Requested: names, Made: gpus[uuid].Made} })
	if err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	c.mu.Lock()
	delete(c.failures, uuid)
	c.mu.Unlock()
	select {
	case c.layoutRequested <- struct{}{}:
	default:
	}
	return len(end)+len(create) > 0, nil
}

// AddPlaceholders is the host with something in place of each PartitionedGPU that may be cut and
// has no instance now: lists of shared devices may name it, and what can hold
// tasks to its slices can be asked.
func (c *Partitioner) AddPlaceholders(h gpu.Host) gpu.Host { return AddPlaceholders(h, c.gpus) }

// AddPlaceholders is Cutter.Standing for those ListGPUs.
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
