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
	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/isolator/stock"
)

// NoDevices is the list without shared devices.
const NoDevices = "none"

// Errors of requests for another mode.
var (
	ErrUnknownDevice = errors.New("no such device on this host, or a stock device (--stock)")
	ErrNoLimiter     = errors.New("this agent cannot enforce shares of it")
	ErrStatic        = errors.New("this agent's flags list its devices: change --share of both `mesos-gpu agent` and `mesos-gpu agent flags`")
)

// DeviceUse is how tasks hold a device.
type DeviceUse struct{ Whole, Shared bool }

// ModeConfig configures which devices are shared.
type ModeConfig struct {
	// Host has the named devices.
	Host gpu.Host
	// List is "none", "all", or a comma-separated list of minor numbers and
	// UUIDs.
	List    string
	Scaling ShareScaling
	// StateDir has the file with the operators' requests and each device's
	// mode.
	StateDir string
	// Live is set if a device's mode can change while the agent runs.
	Live bool
	// ContainerUse, if set, returns what containers of this agent hold in
	// addition to what the Mesos agent reports.
	ContainerUse func() map[string]DeviceUse
	Log          logrus.FieldLogger
}

// ModeStore stores how each device is advertised: whole or shared. A device in
// use keeps its mode until it is idle.
type ModeStore struct {
	cfg ModeConfig
	// listed are the devices that ModeConfig.List shares. It never changes.
	listed map[string]bool
	// changed has a token after a request.
	changed chan struct{}

	// file is held while the file is written. It is taken before mu.
	file sync.Mutex
	mu   sync.Mutex
	// saved is the content of the file. It changes after the file was written.
	saved savedModes
}

// savedModes is the content of the file.
type savedModes struct {
	// Requested are the operators' requests that differ from the list, by
	// device: true for shared. A request that equals the list removes the entry.
	Requested map[string]bool `json:"requested"`
	// Shared is each device's mode now. It follows the request when the device
	// is idle.
	Shared map[string]bool `json:"shared"`
}

// UnmarshalJSON also reads the file of release 0.1.0, in which requested was called asked.
func (m *savedModes) UnmarshalJSON(text []byte) error {
	type current savedModes
	decoded := struct {
		*current
		Asked map[string]bool `json:"asked"`
	}{current: (*current)(m)}
	if err := json.Unmarshal(text, &decoded); err != nil {
		return err
	}
	if decoded.Asked != nil {
		m.Requested = decoded.Asked
	}
	return nil
}

// stateFileName is the name of the file in StateDir.
const stateFileName = "shared.json"

// ParseSharedList returns which of the host's devices a list shares. The error
// names the part that matches no device.
func ParseSharedList(h gpu.Host, list string) (map[string]bool, error) {
	listed := map[string]bool{}
	if list = strings.TrimSpace(list); list == "" || list == NoDevices {
		return listed, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		devices, err := stock.FindDevices(h, strings.TrimSpace(name))
		if err != nil {
			return nil, fmt.Errorf("shared GPUs %q: %w", list, err)
		}
		for _, d := range devices {
			listed[d.UUID] = true
		}
	}
	return listed, nil
}

// OpenModes reads the file. A device that is not in it gets the mode of the
// list.
func OpenModes(cfg ModeConfig) (*ModeStore, error) {
	if err := cfg.Scaling.Validate(); err != nil {
		return nil, err
	}
	listed, err := ParseSharedList(cfg.Host, cfg.List)
	if err != nil {
		return nil, err
	}
	f := &ModeStore{cfg: cfg, listed: listed, changed: make(chan struct{}, 1), saved: savedModes{Requested: map[string]bool{}, Shared: map[string]bool{}}}
	if !cfg.Live { // the agent's flags alone determine the modes
		f.saved.Shared = listed
		return f, nil
	}
	text, err := os.ReadFile(f.statePath())
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read which GPUs are shared: %w", err)
	default:
		err := json.Unmarshal(text, &f.saved)
		if err == nil && (f.saved.Requested == nil || f.saved.Shared == nil) {
			err = errors.New("requested or shared is null")
		}
		if err != nil {
			return nil, fmt.Errorf("read which GPUs are shared: %s with %d bytes is malformed (%w): remove it to start with --share", f.statePath(), len(text), err)
		}
	}
	for _, d := range cfg.Host.Devices {
		if _, known := f.saved.Shared[d.UUID]; !known {
			f.saved.Shared[d.UUID] = f.wantsShared(d.UUID)
		}
	}
	return f, nil
}

func (s *ModeStore) statePath() string { return filepath.Join(s.cfg.StateDir, stateFileName) }

// The caller of wantsShared holds mu.
func (s *ModeStore) wantsShared(uuid string) bool {
	if requested, ok := s.saved.Requested[uuid]; ok {
		return requested
	}
	return s.listed[uuid]
}

func (s *ModeStore) findDevice(uuid string) (gpu.Device, bool) {
	for _, d := range s.cfg.Host.Devices {
		if d.UUID == uuid {
			return d, true
		}
	}
	return gpu.Device{}, false
}

// SharedCapacity returns how much of a device is advertised in shares, and
// whether it is shared now. It is an allocation.ShareLookup.
func (s *ModeStore) SharedCapacity(uuid string) (all gpu.DeviceShare, ok bool) {
	d, known := s.findDevice(uuid)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !known || !s.saved.Shared[uuid] {
		return gpu.DeviceShare{}, false
	}
	return s.cfg.Scaling.ScaledShare(d), true
}

// AllShared returns the shared devices in the host's order.
func (s *ModeStore) AllShared() []gpu.DeviceShare {
	var all []gpu.DeviceShare
	for _, d := range s.cfg.Host.Devices {
		if p, ok := s.SharedCapacity(d.UUID); ok {
			all = append(all, p)
		}
	}
	return all
}

// IsPending reports whether the device will change its mode when it is idle.
func (s *ModeStore) IsPending(uuid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.findDevice(uuid)
	return known && s.saved.Shared[uuid] != s.wantsShared(uuid)
}

// HasPending reports whether any device is pending.
func (s *ModeStore) HasPending() bool {
	for _, d := range s.cfg.Host.Devices {
		if s.IsPending(d.UUID) {
			return true
		}
	}
	return false
}

// Changes has a token after a new request.
func (s *ModeStore) Changes() <-chan struct{} { return s.changed }

// RequestMode requests a mode for a device, which a restart does not undo. A
// GPU's UUID means all its MIG devices. The mode changes when the device is
// idle. The error wraps ErrUnknownDevice or ErrStatic.
func (s *ModeStore) RequestMode(uuid string, shared bool) error {
	verb := map[bool]string{true: "share", false: "unshare"}[shared]
	if !s.cfg.Live {
		return fmt.Errorf("%s device %s: %w", verb, uuid, ErrStatic)
	}
	err := s.updateSaved(func(k savedModes) (changed bool, err error) {
		found := false
		for _, d := range s.cfg.Host.Devices {
			if d.UUID != uuid && (d.MIG == nil || d.MIG.Parent != uuid) {
				continue
			}
			found = true
			if k.Requested[d.UUID] = shared; shared == s.listed[d.UUID] {
				delete(k.Requested, d.UUID) // the list already has this mode
			}
		}
		if !found {
			return false, ErrUnknownDevice
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%s device %s: %w", verb, uuid, err)
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

// ReconcileModes gives each idle device its requested mode, and each device in
// use the mode in which it is held. held has the devices that tasks hold according
// to the Mesos agent; known reports whether that could be read. If the change cannot
// be saved, it returns an error and nothing changes.
func (s *ModeStore) ReconcileModes(held map[string]DeviceUse, known bool) error {
	if !s.cfg.Live {
		return nil
	}
	var containerUse map[string]DeviceUse
	if s.cfg.ContainerUse != nil {
		containerUse = s.cfg.ContainerUse()
	}
	var forms logrus.Fields
	err := s.updateSaved(func(k savedModes) (bool, error) {
		forms = logrus.Fields{}
		for _, d := range s.cfg.Host.Devices {
			use := DeviceUse{held[d.UUID].Whole || containerUse[d.UUID].Whole, held[d.UUID].Shared || containerUse[d.UUID].Shared}
			now, requested := k.Shared[d.UUID], s.listed[d.UUID]
			if r, ok := k.Requested[d.UUID]; ok {
				requested = r
			}
			if next := nextMode(now, requested, use, known); next != now {
				k.Shared[d.UUID], forms[d.UUID] = next, next
			}
		}
		return len(forms) > 0, nil
	})
	if err == nil && len(forms) > 0 {
		s.cfg.Log.WithField("shared", forms).Info("GPUs change their sharing mode")
	}
	return err
}

// nextMode returns the new mode of a device. A device that is held in both
// modes, as a launch in progress may cause, keeps its mode.
func nextMode(now, requested bool, use DeviceUse, known bool) bool {
	switch {
	case use.Whole && use.Shared:
		return now
	case use.Whole || use.Shared:
		return use.Shared
	case !known:
		return now
	}
	return requested
}

// updateSaved writes the changed content to the file before it takes effect.
func (s *ModeStore) updateSaved(update func(savedModes) (changed bool, err error)) error {
	s.file.Lock()
	defer s.file.Unlock()
	s.mu.Lock()
	next := savedModes{Requested: maps.Clone(s.saved.Requested), Shared: maps.Clone(s.saved.Shared)}
	s.mu.Unlock()
	changed, err := update(next)
	if err != nil || !changed {
		return err
	}
	text, err := json.MarshalIndent(next, "", "  ")
	if err == nil {
		err = atomicfile.Write(s.statePath(), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("save which GPUs are shared: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = next
	return nil
}
