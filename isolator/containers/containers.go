// Package containers carries out what the ledger decides: it keeps a file for
// each container, has the kernel confine its cgroup, and puts together what a
// container is launched with. Devices are claimed in the books before the
// kernel opens them and given back only after it has closed them, so that
// whenever the process dies no device has two holders.
package containers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/ledger"
	"mesos-gpu/isolator/rules"
	"mesos-gpu/isolator/share"
)

// Kernel is what the kernel does for containers. Cgroups are named by their
// paths below the hierarchy: "mesos/CONTAINER". Methods on cgroups may be
// called for several at a time.
type Kernel interface {
	// Nodes are the device nodes that belong into the /dev of a container
	// with those devices. A device that the host does not have is an error.
	Nodes(devices []string) ([]rules.Node, error)
	// Confine makes the cgroup where it is not there yet, lets its processes
	// open those devices and no others, and reads that back.
	Confine(cgroup string, devices []string) error
	// Enter moves the process to the cgroup unless it is there.
	Enter(cgroup string, pid int) error
	// Holding is the devices that the cgroup's processes may open, and Rules
	// the kernel's rules. The error is fs.ErrNotExist if there is no such
	// cgroup. Holding of one that nobody confined is an error too.
	Holding(cgroup string) ([]string, error)
	Rules(cgroup string) ([]rules.Rule, error)
	// Remove undoes Confine. A cgroup that is gone is no error.
	Remove(cgroup string) error
	// Below are the names of the cgroups right below that one; none if there
	// is no such cgroup.
	Below(cgroup string) ([]string, error)
}

// Config says how containers are kept.
type Config struct {
	Kernel Kernel
	// Dir keeps one file for each container. Cgroups do not outlive the
	// machine, and neither need Dir: a runtime directory will do.
	Dir string
	// CgroupsRoot is the agent's --cgroups_root; empty means "mesos". Cgroups
	// is the version by which Kernel confines, "v1" or "v2". While Dir keeps
	// containers neither may change.
	CgroupsRoot, Cgroups string
	// Stock are the devices for a bare number of gpus, and Usable tells
	// whether one may be granted now; nil lets all be.
	Stock  []string
	Usable func(device string) bool
	// Shared tells which devices are shared, and Limiter holds containers to
	// their parts of them; without them no device is.
	Shared  ledger.Shared
	Limiter share.Limiter
	// Volume gives the host path of the driver volume, made if need be.
	Volume func(context.Context) (path string, err error)
	// NeedsDriver tells whether an image wants the driver volume. An error
	// says why it cannot run with this driver.
	NeedsDriver func(labels, env map[string]string) (bool, error)
	// Fits, where set, is an error where an image cannot run on one of those
	// devices.
	Fits func(labels, env map[string]string, devices []string) error
	Log  logrus.FieldLogger
}

// Containers are the containers of one agent. Its methods may be called at
// the same time; those on containers of one root wait for each other.
type Containers struct {
	cfg   Config
	files files

	// Lock order: all, then one of roots, then mu.
	all   sync.RWMutex // held for writing where every container is looked at
	roots keyed

	mu    sync.Mutex // guards books and facts
	books *ledger.Ledger
	facts map[string]facts
}

// facts is what is known of a container beside what it holds.
type facts struct {
	Framework string `json:"framework,omitempty"`
	Executor  string `json:"executor,omitempty"`
	Task      string `json:"task,omitempty"`
	Job       string `json:"job,omitempty"`
	// Isolated tells that it has a cgroup of its own, which the kernel was told
	// of, or is about to be.
	Isolated bool `json:"isolated,omitempty"`
}

// Unknown is the error of a call for a container that was never prepared.
type Unknown struct{ Container string }

func (u *Unknown) Error() string {
	return fmt.Sprintf("container %s is not known here: prepare it first", u.Container)
}

// Open reads the files, lets go of containers whose cgroup is gone, and finds
// those again from their cgroups whose files are lost.
func Open(cfg Config) (*Containers, error) {
	switch {
	case cfg.Kernel == nil || cfg.Log == nil:
		return nil, errors.New("open containers: no kernel or no log given")
	case cfg.Volume == nil || cfg.NeedsDriver == nil:
		return nil, errors.New("open containers: no way given to the driver volume")
	}
	if cfg.Limiter == nil {
		cfg.Limiter = share.None{}
	}
	if cfg.CgroupsRoot == "" {
		cfg.CgroupsRoot = "mesos"
	}
	c := &Containers{cfg: cfg, files: files{dir: cfg.Dir}, books: ledger.New(cfg.Stock, cfg.Shared), facts: map[string]facts{}}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	if err := c.sweep(); err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	switch err := c.search(cfg.CgroupsRoot, ""); {
	case errors.Is(err, cgroup.ErrNoHierarchy):
		cfg.Log.WithError(err).Warn("containers cannot be confined here")
	case err != nil:
		return nil, fmt.Errorf("open containers: %w", err)
	}
	c.admitAgain()
	return c, nil
}

// load fills the books from the files. One that is torn or contradicts
// another is removed; the kernel may still know its container.
func (c *Containers) load() error {
	entries, bad, err := c.files.read()
	if err != nil {
		return err
	}
	if err := c.files.settle(c.home(), len(entries)+len(bad)); err != nil {
		return err
	}
	for _, b := range bad {
		c.cfg.Log.WithError(b.err).WithField("file", b.name).Warn("container's file is of no use: asking its cgroup")
	}
	for _, e := range entries {
		id := e.Holding.Container
		if err := c.books.Check(e.Holding); err != nil {
			c.cfg.Log.WithError(err).WithField("container", id).Warn("container's file contradicts others: asking its cgroup")
			bad = append(bad, badFile{name: fileName(id)})
			continue
		}
		if held, err := c.cfg.Kernel.Holding(c.cgroup(id)); err == nil && len(held) > 0 {
			e.Facts.Isolated = true // whatever its file missed
		}
		c.books.Set(e.Holding)
		c.facts[id] = e.Facts
	}
	for _, b := range bad {
		if err := c.files.remove(b.name); err != nil {
			return err
		}
	}
	return nil
}

// home says where the containers' cgroups are.
func (c *Containers) home() string {
	return fmt.Sprintf("--cgroups-root=%s --cgroups=%s", path.Clean(c.cfg.CgroupsRoot), c.cfg.Cgroups)
}

// enter waits for the container's turn; the caller calls leave at its end.
func (c *Containers) enter(container string) (leave func()) {
	c.all.RLock()
	unlock := c.roots.lock(ledger.Root(container))
	return func() {
		unlock()
		c.all.RUnlock()
	}
}

// save writes the files of those holdings.
func (c *Containers) save(holdings ...ledger.Holding) error {
	for _, h := range holdings {
		c.mu.Lock()
		f := c.facts[h.Container]
		c.mu.Unlock()
		if err := c.files.write(entry{Holding: h, Facts: f}); err != nil {
			return err
		}
	}
	return nil
}

// release strikes the container and those nested in it, files first: a file
// without a container would claim devices after a restart.
func (c *Containers) release(container string) error {
	c.mu.Lock()
	ids := []string{container}
	for _, h := range c.books.Under(container) {
		ids = append(ids, h.Container)
	}
	c.mu.Unlock()
	for _, id := range ids {
		if err := c.files.remove(fileName(id)); err != nil {
			return err
		}
	}
	c.dismiss(ids)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.books.Release(container) {
		delete(c.facts, id)
	}
	return nil
}

// Holders are the containers that hold devices, parents before the nested.
func (c *Containers) Holders() []gpu.Holder {
	c.mu.Lock()
	defer c.mu.Unlock()
	holders := []gpu.Holder{}
	for _, h := range c.books.All() {
		if devices := h.Devices(); len(devices) > 0 {
			holders = append(holders, c.facts[h.Container].holder(h.Container, devices, h.Parts))
		}
	}
	return holders
}

// Stock are the devices for a bare number of gpus.
func (c *Containers) Stock() []string { return c.books.Stock() }

// Devices are those that the container holds or inherits. The error is
// *Unknown for one that is not known.
func (c *Containers) Devices(container string) ([]string, error) {
	if err := CheckID(container); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.knows(container) {
		return nil, &Unknown{container}
	}
	return c.books.Devices(container), nil
}

// Status is what is known of a container. The error is *Unknown for one that
// is not.
func (c *Containers) Status(container string) (Status, error) {
	if err := CheckID(container); err != nil {
		return Status{}, err
	}
	c.mu.Lock()
	known := c.knows(container)
	f, devices := c.facts[container], c.books.Devices(container)
	_, parts := c.books.Parts(container)
	c.mu.Unlock()
	if !known {
		return Status{}, &Unknown{container}
	}
	s := Status{Holder: f.holder(container, devices, parts), Rules: []string{}}
	if !f.Isolated {
		return s, nil
	}
	list, err := c.cfg.Kernel.Rules(c.cgroup(container))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Status{}, err
	}
	for _, r := range list {
		s.Rules = append(s.Rules, r.String())
	}
	return s, nil
}

// knows reports whether the books have the container, or for a nested one an
// ancestor. The caller holds mu.
func (c *Containers) knows(container string) bool {
	for ; container != ""; container = ledger.Parent(container) {
		if _, ok := c.books.Get(container); ok {
			return true
		}
	}
	return false
}

// present are those of the devices that the host still has: one may be gone
// since it was granted, and the container runs on with the others.
func (c *Containers) present(devices []string) []string {
	return slices.DeleteFunc(slices.Clone(devices), func(d string) bool {
		_, err := c.cfg.Kernel.Nodes([]string{d})
		return err != nil
	})
}

func (f facts) holder(container string, devices []string, parts []gpu.Part) gpu.Holder {
	return gpu.Holder{Container: container, Framework: f.Framework, Executor: f.Executor, Task: f.Task, Job: f.Job, Devices: listed(devices), Parts: parts}
}
