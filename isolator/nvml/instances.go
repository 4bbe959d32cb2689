//go:build linux && cgo

package nvml

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/layout"
)

// cutPatience is how long a GPU may take to make or end an instance, which is
// below a second while nothing is wrong.
const cutPatience = 30 * time.Second

// askPatience is how long it may take to tell of its instances.
const askPatience = 5 * time.Second

// DiscoverMIG loads the library and tells of the GPUs in MIG mode. Its errors
// are those of Discover.
func DiscoverMIG(c Config) ([]Cuttable, error) {
	c = c.withDefaults()
	return starting(c, "discover GPUs in MIG mode", discoverMIG, func([]Cuttable) {})
}

func discoverMIG(c Config) (list []Cuttable, err error) {
	unlock, err := one.alone(startPatience)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := start(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	wholes, err := s.cuttable()
	for _, w := range wholes {
		profiles, err := s.profiles(w.handle)
		if err != nil {
			return nil, fmt.Errorf("ask for the MIG profiles of GPU %s: %w", w.device.UUID, err)
		}
		made, err := s.instances(w.handle)
		if err != nil {
			return nil, fmt.Errorf("ask for the MIG instances of GPU %s: %w", w.device.UUID, err)
		}
		list = append(list, Cuttable{w.device, profiles, placesOf(made)})
	}
	return list, err
}

func placesOf(made []instance) []layout.Instance {
	list := []layout.Instance{}
	for _, i := range made {
		list = append(list, i.Instance)
	}
	return list
}

// Cuttable lists the GPUs in MIG mode whose instances this driver lets a
// program change, as from release 470 on: whole, without NVLinks, which they do
// not have then.
func (l *Library) Cuttable() ([]gpu.Device, error) {
	return bounded(l.host, startPatience, "list the GPUs in MIG mode", func() ([]gpu.Device, error) {
		one.enter()
		defer one.leave()
		l.mu.Lock()
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return nil, fmt.Errorf("list the GPUs in MIG mode: %w", errClosed)
		}
		wholes, err := l.s.cuttable()
		var list []gpu.Device
		for _, w := range wholes {
			list = append(list, w.device)
		}
		return list, err
	})
}

func (s *session) cuttable() ([]whole, error) {
	if !s.cuts() {
		return nil, nil
	}
	wholes, err := s.wholes()
	var list []whole
	for _, w := range wholes {
		if w.mig {
			w.device.NVLinks, w.device.Paths = nil, nil
			list = append(list, w)
		}
	}
	return list, err
}

// Profiles are the instances that a GPU in MIG mode can be cut into.
func (l *Library) Profiles(uuid string) ([]layout.Profile, error) {
	return cut(l, askPatience, "ask for the MIG profiles of GPU "+uuid, uuid, l.s.profiles)
}

// Instances are those that a GPU in MIG mode is cut into, whoever made them, in
// the order of their places.
func (l *Library) Instances(uuid string) ([]layout.Instance, error) {
	return cut(l, askPatience, "ask for the MIG instances of GPU "+uuid, uuid, func(handle nvml.Device) ([]layout.Instance, error) {
		made, err := l.s.instances(handle)
		return placesOf(made), err
	})
}

// Create makes an instance, with one compute instance of all of it, by which it
// is a device. Of one that is there already the compute instance alone is made,
// if it lacks that. It takes root. Host tells of the device afterwards.
func (l *Library) Create(uuid string, i layout.Instance) error {
	return l.change(fmt.Sprintf("make MIG instance %s of GPU %s", i, uuid), uuid, func(handle nvml.Device) error {
		made, err := l.s.instance(handle, i)
		if err != nil {
			return err
		}
		if made != nil {
			return made.complete()
		}
		if made, err = l.s.create(handle, i); err != nil {
			return err
		}
		if err := made.complete(); err != nil {
			return errors.Join(err, made.undo())
		}
		return nil
	})
}

// Destroy ends an instance and its compute instances. One that a process uses
// stays as it is; the error says so. One that is not there is no error.
func (l *Library) Destroy(uuid string, i layout.Instance) error {
	return l.change(fmt.Sprintf("end MIG instance %s of GPU %s", i, uuid), uuid, func(handle nvml.Device) error {
		made, err := l.s.instance(handle, i)
		if made == nil || err != nil {
			return err
		}
		parts, err := made.compute()
		if err != nil {
			return err
		}
		for _, ci := range parts {
			if ret := ci.Destroy(); ret != nvml.SUCCESS {
				return fmt.Errorf("end its compute instance: %w", fault(ret))
			}
		}
		return made.undo()
	})
}

func (l *Library) change(what, uuid string, do func(nvml.Device) error) error {
	_, err := cut(l, cutPatience, what, uuid, func(handle nvml.Device) (struct{}, error) { return struct{}{}, do(handle) })
	return err
}

// cut runs what asks a GPU about MIG, alone on that GPU.
func cut[T any](l *Library, patience time.Duration, what, uuid string, do func(nvml.Device) (T, error)) (T, error) {
	var none T
	l.mu.Lock()
	t, ok := l.targets[uuid]
	l.mu.Unlock()
	if !ok || t.mig != nil {
		return none, fmt.Errorf("%s: it is no GPU of this host", what)
	}
	return bounded(t.card.busy, patience, what, func() (T, error) {
		one.enter()
		defer one.leave()
		l.mu.Lock()
		handle, lost, closed := l.targets[uuid].handle, t.card.lost, l.closed
		l.mu.Unlock()
		switch {
		case closed:
			return none, fmt.Errorf("%s: %w", what, errClosed)
		case lost != nil:
			return none, fmt.Errorf("%s: %w", what, lost)
		case handle == nil:
			return none, fmt.Errorf("%s: %w", what, ErrLost)
		}
		v, err := do(handle)
		if err != nil {
			return none, fmt.Errorf("%s: %w", what, err)
		}
		return v, nil
	})
}

// cuts reports whether the driver has all that it takes.
func (s *session) cuts() bool {
	return s.hasAll("nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlDeviceGetGpuInstancePossiblePlacements_v2", "nvmlDeviceGetGpuInstances",
		"nvmlGpuInstanceGetInfo", "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy", "nvmlGpuInstanceGetComputeInstanceProfileInfo",
		"nvmlGpuInstanceCreateComputeInstance", "nvmlGpuInstanceGetComputeInstances", "nvmlComputeInstanceDestroy")
}

func (s *session) profiles(handle nvml.Device) ([]layout.Profile, error) {
	if !s.cuts() {
		return nil, errors.New("the driver tells nothing of MIG profiles: update it to 470 or later")
	}
	var list []layout.Profile
	for n := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, ret := handle.GetGpuInstanceProfileInfoV(n).V2()
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue // a profile of other GPUs
		}
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("ask for MIG profile %d: %w", n, fault(ret))
		}
		name, _, _ := bytes.Cut(info.Name[:], []byte{0})
		p := layout.Profile{Name: profile(string(name)), ID: int(info.Id), Slices: int(info.SliceCount), MemMiB: int64(info.MemorySizeMB), Max: int(info.InstanceCount)}
		places, ret := handle.GetGpuInstancePossiblePlacements(&nvml.GpuInstanceProfileInfo{Id: info.Id})
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("ask where MIG profile %s may stand: %w", p.Name, fault(ret))
		}
		for _, at := range places {
			p.Size, p.Starts = int(at.Size), append(p.Starts, int(at.Start))
		}
		list = append(list, p)
	}
	return list, nil
}

// instance is a GPU instance that there is.
type instance struct {
	layout.Instance
	profile layout.Profile
	handle  nvml.GpuInstance
}

func (s *session) instances(handle nvml.Device) ([]instance, error) {
	profiles, err := s.profiles(handle)
	if err != nil {
		return nil, err
	}
	var list []instance
	for _, p := range profiles {
		if p.Max == 0 {
			continue
		}
		made, ret := handle.GetGpuInstances(&nvml.GpuInstanceProfileInfo{Id: uint32(p.ID), InstanceCount: uint32(p.Max)})
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("list the instances of MIG profile %s: %w", p.Name, fault(ret))
		}
		for _, gi := range made {
			info, ret := gi.GetInfo()
			if ret != nvml.SUCCESS {
				return nil, fmt.Errorf("ask where an instance of MIG profile %s stands: %w", p.Name, fault(ret))
			}
			list = append(list, instance{layout.Instance{Profile: p.Name, Start: int(info.Placement.Start), Size: int(info.Placement.Size)}, p, gi})
		}
	}
	slices.SortFunc(list, func(a, b instance) int { return a.Start - b.Start })
	return list, nil
}

// create makes an instance that is no device yet.
func (s *session) create(handle nvml.Device, i layout.Instance) (*instance, error) {
	profiles, err := s.profiles(handle)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(profiles, func(p layout.Profile) bool { return p.Name == i.Profile })
	if at < 0 {
		return nil, fmt.Errorf("the GPU has no profile %q", i.Profile)
	}
	info := nvml.GpuInstanceProfileInfo{Id: uint32(profiles[at].ID)}
	gi, ret := handle.CreateGpuInstanceWithPlacement(&info, &nvml.GpuInstancePlacement{Start: uint32(i.Start), Size: uint32(i.Size)})
	if ret != nvml.SUCCESS {
		return nil, fault(ret)
	}
	return &instance{i, profiles[at], gi}, nil
}

// instance is the one at that place, nil where there is none.
func (s *session) instance(handle nvml.Device, i layout.Instance) (*instance, error) {
	all, err := s.instances(handle)
	for n := range all {
		if all[n].Instance == i {
			return &all[n], nil
		}
	}
	return nil, err
}

// compute are an instance's compute instances.
func (i *instance) compute() ([]nvml.ComputeInstance, error) {
	var list []nvml.ComputeInstance
	err := i.computeProfiles(func(info nvml.ComputeInstanceProfileInfo) error {
		made, ret := i.handle.GetComputeInstances(&info)
		if ret != nvml.SUCCESS {
			return fmt.Errorf("list its compute instances: %w", fault(ret))
		}
		list = append(list, made...)
		return nil
	})
	return list, err
}

// computeProfiles goes through the kinds of compute instances that it can have.
func (i *instance) computeProfiles(each func(nvml.ComputeInstanceProfileInfo) error) error {
	for n := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, ret := i.handle.GetComputeInstanceProfileInfo(n, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		switch {
		case ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT || ret == nvml.SUCCESS && info.InstanceCount == 0:
			continue
		case ret != nvml.SUCCESS:
			return fmt.Errorf("ask for its compute profile %d: %w", n, fault(ret))
		}
		if err := each(info); err != nil {
			return err
		}
	}
	return nil
}

// complete gives an instance a compute instance of all its slices, unless it
// has one.
func (i *instance) complete() error {
	there, err := i.compute()
	if err != nil || len(there) > 0 {
		return err
	}
	made := false
	err = i.computeProfiles(func(info nvml.ComputeInstanceProfileInfo) error {
		if made || int(info.SliceCount) != i.profile.Slices {
			return nil
		}
		made = true
		if _, ret := i.handle.CreateComputeInstance(&info); ret != nvml.SUCCESS {
			return fmt.Errorf("make its compute instance: %w", fault(ret))
		}
		return nil
	})
	if err == nil && !made {
		err = fmt.Errorf("the driver has no compute instance of all its %d slices", i.profile.Slices)
	}
	return err
}

// undo ends an instance without compute instances.
func (i *instance) undo() error {
	if ret := i.handle.Destroy(); ret != nvml.SUCCESS {
		return fault(ret)
	}
	return nil
}
