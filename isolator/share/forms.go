package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/internal/checkpoint"
	"mesos-gpu/isolator/stock"
)

// NoDevices is the list of shared devices that names none.
const NoDevices = "none"

// Errors of who asks for another form of a device.
var (
	ErrUnknown = errors.New("no such device on this host, or one for a bare number of gpus (--stock)")
	ErrUnheld  = errors.New("this agent cannot hold tasks to parts of it")
	ErrStatic  = errors.New("this agent's devices stand in its flags: change --share of both `mesos-gpu agent` and `mesos-gpu agent flags`")
)

// Use says in which form tasks hold a device.
type Use struct{ Whole, Part bool }

// Config says which devices are shared.
type Config struct {
	// Host has the devices that go by name.
	Host gpu.Host
	// List is "none", "all", or minor numbers and UUIDs with commas between.
	List    string
	Scaling Scaling
	// StateDir keeps what an operator asked for since, and each device's form.
	StateDir string
	// Live is set where a device's form can change while the agent runs.
	Live bool
	// Books, where set, tells what containers of this agent hold beside what
	// the Mesos agent knows of.
	Books func() map[string]Use
	Log   logrus.FieldLogger
}

// Forms keeps in which form each device is advertised: whole or shared. One
// that is in use stays as it is until it is idle.
type Forms struct {
	cfg     Config
	listed  map[string]bool
	changed chan struct{}

	file sync.Mutex // held by who writes it, before mu
	mu   sync.Mutex
	kept kept
}

// kept is the file: what was asked for against the list, and each device's
// form.
type kept struct {
	Asked  map[string]bool `json:"asked"`
	Shared map[string]bool `json:"shared"`
}

// fileName is where Forms keeps what outlives the daemon.
const fileName = "shared.json"

// Listed tells which of the host's devices a list shares. The error names the
// part that is no device.
func Listed(h gpu.Host, list string) (map[string]bool, error) {
	listed := map[string]bool{}
	if list = strings.TrimSpace(list); list == "" || list == NoDevices {
		return listed, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		devices, err := stock.Find(h, strings.TrimSpace(name))
		if err != nil {
			return nil, fmt.Errorf("shared GPUs %q: %w", list, err)
		}
		for _, d := range devices {
			listed[d.UUID] = true
		}
	}
	return listed, nil
}

// Open reads what was kept. A device not seen before has the form that the
// list says.
func Open(cfg Config) (*Forms, error) {
	if err := cfg.Scaling.Validate(); err != nil {
		return nil, err
	}
	listed, err := Listed(cfg.Host, cfg.List)
	if err != nil {
		return nil, err
	}
	f := &Forms{cfg: cfg, listed: listed, changed: make(chan struct{}, 1), kept: kept{Asked: map[string]bool{}, Shared: map[string]bool{}}}
	if !cfg.Live { // the agent's flags say it, and they alone
		f.kept.Shared = listed
		return f, nil
	}
	text, err := os.ReadFile(f.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read which GPUs are shared: %w", err)
	default:
		if err := json.Unmarshal(text, &f.kept); err != nil || f.kept.Asked == nil || f.kept.Shared == nil {
			return nil, fmt.Errorf("read which GPUs are shared: %s holds %d bytes that say nothing of it (%w): remove it to begin with --share", f.path(), len(text), err)
		}
	}
	for _, d := range cfg.Host.Devices {
		if _, known := f.kept.Shared[d.UUID]; !known {
			f.kept.Shared[d.UUID] = f.wanted(d.UUID)
		}
	}
	return f, nil
}

func (f *Forms) path() string { return filepath.Join(f.cfg.StateDir, fileName) }

// wanted is called with mu held.
func (f *Forms) wanted(uuid string) bool {
	if asked, ok := f.kept.Asked[uuid]; ok {
		return asked
	}
	return f.listed[uuid]
}

func (f *Forms) device(uuid string) (gpu.Device, bool) {
	for _, d := range f.cfg.Host.Devices {
		if d.UUID == uuid {
			return d, true
		}
	}
	return gpu.Device{}, false
}

// Shared tells whether a device is shared now, and as how much it is
// advertised. It is a ledger.Shared.
func (f *Forms) Shared(uuid string) (all gpu.Part, ok bool) {
	d, known := f.device(uuid)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !known || !f.kept.Shared[uuid] {
		return gpu.Part{}, false
	}
	return f.cfg.Scaling.Of(d), true
}

// All are the shared devices, in the host's order.
func (f *Forms) All() []gpu.Part {
	var all []gpu.Part
	for _, d := range f.cfg.Host.Devices {
		if p, ok := f.Shared(d.UUID); ok {
			all = append(all, p)
		}
	}
	return all
}

// Pending tells whether that device is to have the other form once it is idle.
func (f *Forms) Pending(uuid string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known := f.device(uuid)
	return known && f.kept.Shared[uuid] != f.wanted(uuid)
}

// Waiting tells whether any device is pending.
func (f *Forms) Waiting() bool {
	for _, d := range f.cfg.Host.Devices {
		if f.Pending(d.UUID) {
			return true
		}
	}
	return false
}

// Changed has a token where something was asked for since it was looked at.
func (f *Forms) Changed() <-chan struct{} { return f.changed }

// Set asks for one form of a device, over restarts too; a GPU's name stands
// for all its slices. It takes effect when the device is idle. The error wraps
// ErrUnknown or ErrStatic.
func (f *Forms) Set(uuid string, shared bool) error {
	verb := map[bool]string{true: "share", false: "unshare"}[shared]
	if !f.cfg.Live {
		return fmt.Errorf("%s device %s: %w", verb, uuid, ErrStatic)
	}
	err := f.change(func(k kept) (changed bool, err error) {
		found := false
		for _, d := range f.cfg.Host.Devices {
			if d.UUID != uuid && (d.MIG == nil || d.MIG.Parent != uuid) {
				continue
			}
			found = true
			if k.Asked[d.UUID] = shared; shared == f.listed[d.UUID] {
				delete(k.Asked, d.UUID) // the list says so itself
			}
		}
		if !found {
			return false, ErrUnknown
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%s device %s: %w", verb, uuid, err)
	}
	select {
	case f.changed <- struct{}{}:
	default:
	}
	return nil
}

// Settle gives each device that is idle the form that is wanted of it, and to
// one in use the form in which it is held. held is what tasks hold as the
// Mesos agent tells; known says that it did. The error says that the change
// cannot be kept: nothing has changed then.
func (f *Forms) Settle(held map[string]Use, known bool) error {
	if !f.cfg.Live {
		return nil
	}
	var books map[string]Use
	if f.cfg.Books != nil {
		books = f.cfg.Books()
	}
	var forms logrus.Fields
	err := f.change(func(k kept) (bool, error) {
		forms = logrus.Fields{}
		for _, d := range f.cfg.Host.Devices {
			use := Use{held[d.UUID].Whole || books[d.UUID].Whole, held[d.UUID].Part || books[d.UUID].Part}
			now, asked := k.Shared[d.UUID], f.listed[d.UUID]
			if a, ok := k.Asked[d.UUID]; ok {
				asked = a
			}
			if next := settled(now, asked, use, known); next != now {
				k.Shared[d.UUID], forms[d.UUID] = next, next
			}
		}
		return len(forms) > 0, nil
	})
	if err == nil && len(forms) > 0 {
		f.cfg.Log.WithField("shared", forms).Info("GPUs change their form")
	}
	return err
}

// settled is the form that a device gets. One that tasks hold in both forms,
// as a launch that was on its way may have it, stays as it is.
func settled(now, asked bool, use Use, known bool) bool {
	switch {
	case use.Whole && use.Part:
		return now
	case use.Whole || use.Part:
		return use.Part
	case !known:
		return now
	}
	return asked
}

// change writes what a change makes of the file before it counts.
func (f *Forms) change(change func(kept) (changed bool, err error)) error {
	f.file.Lock()
	defer f.file.Unlock()
	f.mu.Lock()
	next := kept{Asked: maps.Clone(f.kept.Asked), Shared: maps.Clone(f.kept.Shared)}
	f.mu.Unlock()
	changed, err := change(next)
	if err != nil || !changed {
		return err
	}
	text, err := json.MarshalIndent(next, "", "  ")
	if err == nil {
		err = checkpoint.Write(f.path(), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keep which GPUs are shared: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = next
	return nil
}
