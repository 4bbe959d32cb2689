// Package mig keeps GPUs in MIG mode cut into the instances that an operator
// asked for. It decides which are made and which are ended, and when a GPU may
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

// Lists that name no GPU, and all.
const (
	None = "none"
	All  = "all"
)

// Errors of Cutter.Ask.
var (
	ErrUnknown = errors.New("no such GPU in MIG mode on this host, or none that --mig lets be cut")
	ErrRefused = errors.New("the GPU cannot be cut so")
)

// Driver makes and ends instances, as nvml.Library does.
type Driver interface {
	// Cuttable are the GPUs in MIG mode, whole.
	Cuttable() ([]gpu.Device, error)
	Profiles(uuid string) ([]layout.Profile, error)
	Instances(uuid string) ([]layout.Instance, error)
	// Create completes an instance that is there, and Destroy of one that is not
	// is no error: both may be repeated.
	Create(uuid string, i layout.Instance) error
	Destroy(uuid string, i layout.Instance) error
}

// Config says which GPUs may be cut.
type Config struct {
	Driver Driver // nil where the hardware cannot be cut
	// List is "none", "all", or minor numbers and UUIDs of GPUs with commas
	// between.
	List string
	// Layout is what they are cut into until somebody asks for another, as
	// layout.Parse reads it; empty leaves them as they are.
	Layout string
	// StateDir keeps what was asked for and what was made.
	StateDir string
	// Boot tells one run of the machine, which ends all instances, from the
	// next; empty where nobody knows.
	Boot string
	Log  logrus.FieldLogger
}

// Cutter cuts GPUs. It may be used by many goroutines.
type Cutter struct {
	cfg      Config
	standard []string // Config.Layout
	gpus     []gpu.Device
	profiles map[string][]layout.Profile // by GPU
	changed  chan struct{}

	cutting sync.Mutex // held by who changes instances or the file, before mu
	mu      sync.Mutex
	kept    kept
	trouble map[string]trouble
}

// GPU is one that may be cut, as the daemon's API tells of it.
type GPU struct {
	UUID   string `json:"uuid"`
	Model  string `json:"model"`
	Minor  int    `json:"minor"`
	MemMiB int64  `json:"mem_mib"`
	// Layout is what is wanted of it; absent where it stays as it is.
	Layout []string `json:"layout,omitempty"`
	// Pending tells that it is not cut so yet, and Reason why it could not be.
	Pending   bool             `json:"pending,omitempty"`
	Reason    string           `json:"reason,omitempty"`
	Instances []Instance       `json:"instances"`
	Profiles  []layout.Profile `json:"profiles"`
}

// Instance is what a GPU is cut into. Those of others are never ended.
type Instance struct {
	layout.Instance
	Ours bool `json:"ours"`
}

// Open reads what was kept, and asks the driver what there is. The error names
// what in the list is no GPU in MIG mode.
func Open(cfg Config) (*Cutter, error) {
	c := &Cutter{cfg: cfg, profiles: map[string][]layout.Profile{}, changed: make(chan struct{}, 1), trouble: map[string]trouble{}}
	if list := strings.TrimSpace(cfg.List); list == "" || list == None {
		if cfg.Layout != "" {
			return nil, errors.New("a MIG layout is given and no GPU that may be cut: name them by --mig")
		}
		return c, nil
	}
	if cfg.Layout != "" {
		names, err := layout.Parse(cfg.Layout)
		if err != nil {
			return nil, err
		}
		c.standard = names
	}
	if err := c.find(); err != nil {
		return nil, fmt.Errorf("GPUs that may be cut %q: %w", cfg.List, err)
	}
	for _, d := range c.gpus {
		profiles, err := cfg.Driver.Profiles(d.UUID)
		if err != nil {
			return nil, err
		}
		c.profiles[d.UUID] = profiles
	}
	if err := c.read(); err != nil {
		return nil, err
	}
	for _, d := range c.gpus {
		if _, known := c.kept.GPUs[d.UUID]; known {
			if err := c.prune(d.UUID); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// find chooses the GPUs of the list.
func (c *Cutter) find() error {
	if c.cfg.Driver == nil {
		return errors.New("these GPUs cannot be cut: they are made up")
	}
	all, err := c.cfg.Driver.Cuttable()
	if err != nil {
		return err
	}
	for _, d := range all {
		if Chosen(c.cfg.List, d) {
			c.gpus = append(c.gpus, d)
		}
	}
	for part := range strings.SplitSeq(c.cfg.List, ",") {
		if !slices.ContainsFunc(all, func(d gpu.Device) bool { return Chosen(part, d) }) {
			return fmt.Errorf("%q names none of this host's %d GPUs in MIG mode; `nvidia-smi -i GPU -mig 1` puts one into it", part, len(all))
		}
	}
	return nil
}

// Chosen tells whether a list of GPUs that may be cut names that one.
func Chosen(list string, d gpu.Device) bool {
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part == All || strings.EqualFold(part, d.UUID) || part == strconv.Itoa(d.Minor) {
			return true
		}
	}
	return false
}

// May reports whether that GPU may be cut.
func (c *Cutter) May(uuid string) bool {
	return slices.ContainsFunc(c.gpus, func(d gpu.Device) bool { return d.UUID == uuid })
}

// Changed has a token where something was asked for since it was looked at.
func (c *Cutter) Changed() <-chan struct{} { return c.changed }

// GPUs are those that may be cut.
func (c *Cutter) GPUs() ([]GPU, error) {
	list := []GPU{}
	for _, d := range c.gpus {
		g := GPU{UUID: d.UUID, Model: d.Model, Minor: d.Minor, MemMiB: d.MemMiB, Instances: []Instance{}, Profiles: c.profiles[d.UUID]}
		has, err := c.cfg.Driver.Instances(d.UUID)
		if err != nil {
			return nil, err
		}
		made, wanted, why := c.look(d.UUID)
		for _, i := range has {
			g.Instances = append(g.Instances, Instance{i, slices.Contains(made, i)})
		}
		if g.Layout = wanted; wanted != nil {
			end, create, err := layout.Change(g.Profiles, has, made, wanted)
			g.Pending = err != nil || len(end)+len(create) > 0
			if err = cmp.Or(why, err); err != nil && g.Pending {
				g.Reason = err.Error()
			}
		}
		list = append(list, g)
	}
	return list, nil
}

// look is what was made of a GPU, what is wanted, and what went wrong last.
func (c *Cutter) look(uuid string) (made []layout.Instance, wanted []string, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kept.GPUs[uuid]
	wanted = c.standard
	if len(k.Asked) > 0 {
		wanted = k.Asked
	}
	return slices.Clone(k.Made), wanted, c.trouble[uuid].err
}

// Ask asks for a layout of a GPU, over restarts too. It takes effect once no
// task holds a slice that it ends. pending tells that the GPU is not cut so
// yet. The error wraps ErrUnknown or ErrRefused where the call is at fault.
func (c *Cutter) Ask(uuid string, names []string) (pending bool, err error) {
	what := fmt.Sprintf("cut GPU %s into %s", uuid, layout.Text(names))
	if !c.May(uuid) {
		return false, fmt.Errorf("%s: %w", what, ErrUnknown)
	}
	if len(names) == 0 {
		return false, fmt.Errorf("%s: %w: name one profile at least", what, ErrRefused)
	}
	has, err := c.cfg.Driver.Instances(uuid)
	if err != nil {
		return false, err
	}
	made, _, _ := c.look(uuid)
	end, create, err := layout.Change(c.profiles[uuid], has, made, names)
	if err != nil {
		return false, fmt.Errorf("%s: %w: %w", what, ErrRefused, err)
	}
	err = c.change(func(gpus map[string]keptGPU) { gpus[uuid] = keptGPU{Asked: names, Made: gpus[uuid].Made} })
	if err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	c.mu.Lock()
	delete(c.trouble, uuid)
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return len(end)+len(create) > 0, nil
}

// Standing is the host with something in place of each GPU that may be cut and
// has no instance now: lists of shared devices may name it, and what can hold
// tasks to its slices can be asked.
func (c *Cutter) Standing(h gpu.Host) gpu.Host { return Standing(h, c.gpus) }

// Standing is Cutter.Standing for those GPUs.
func Standing(h gpu.Host, gpus []gpu.Device) gpu.Host {
	h.Devices = slices.Clone(h.Devices)
	for _, g := range gpus {
		if !slices.ContainsFunc(h.Devices, func(d gpu.Device) bool { return d.MIG != nil && d.MIG.Parent == g.UUID }) {
			g.MIG = &gpu.MIG{Parent: g.UUID}
			h.Devices = append(h.Devices, g)
		}
	}
	return h
}
