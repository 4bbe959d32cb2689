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

// changeTimeout bounds how long a GPU may take to create or destroy an instance, which normally
// takes less than a second.
const changeTimeout = 30 * time.Second

// queryTimeout bounds how long a GPU may take to list its instances.
const queryTimeout = 5 * time.Second

// DiscoverMIG loads the library and returns the GPUs in MIG mode. It returns the same
// errors as DiscoverHost.
func DiscoverMIG(c LibraryConfig) ([]MIGGPU, error) {
	c = c.withDefaults()
	return startWithTimeout(c, "discover GPUs in MIG mode", discoverMIG, func([]MIGGPU) {})
}

func discoverMIG(c LibraryConfig) (list []MIGGPU, err error) {
	unlock, err := nvmlGate.enterAlone(loadTimeout)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := startSession(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	wholes, err := s.listMIGGPUs()
	for _, w := range wholes {
		profiles, err := s.listProfiles(w.handle)
		if err != nil {
			return nil, fmt.Errorf("list the MIG profiles of GPU %s: %w", w.device.UUID, err)
		}
		made, err := s.listInstances(w.handle)
		if err != nil {
			return nil, fmt.Errorf("list the MIG instances of GPU %s: %w", w.device.UUID, err)
		}
		list = append(list, MIGGPU{w.device, profiles, layoutInstances(made)})
	}
	return list, err
}

func layoutInstances(made []existingInstance) []layout.GPUInstance {
	list := []layout.GPUInstance{}
	for _, i := range made {
		list = append(list, i.GPUInstance)
	}
	return list
}

// ListMIGGPUs returns the physical GPUs in MIG mode, if the driver lets programs change
// instances, as releases newer than 470. They have no NVLinks in MIG mode.
func (l *Library) ListMIGGPUs() ([]gpu.Device, error) {
	return callWithTimeout(l.hostToken, loadTimeout, "list the GPUs in MIG mode", func() ([]gpu.Device, error) {
		nvmlGate.enter()
		defer nvmlGate.leave()
		l.mu.Lock()
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return nil, fmt.Errorf("list the GPUs in MIG mode: %w", errClosed)
		}
		wholes, err := l.session.listMIGGPUs()
		var list []gpu.Device
		for _, w := range wholes {
			list = append(list, w.device)
		}
		return list, err
	})
}

func (s *nvmlSession) listMIGGPUs() ([]physicalGPU, error) {
	if !s.supportsPartitioning() {
		return nil, nil
	}
	wholes, _, err := s.describeGPUs()
	var list []physicalGPU
	for _, w := range wholes {
		if w.mig {
			w.device.NVLinks, w.device.Paths = nil, nil
			list = append(list, w)
		}
	}
	return list, err
}

// ListProfiles returns the instances that a GPU in MIG mode can have.
func (l *Library) ListProfiles(uuid string) ([]layout.InstanceProfile, error) {
	return runOnMIGGPU(l, queryTimeout, "list the MIG profiles of GPU "+uuid, uuid, l.session.listProfiles)
}

// ListInstances returns the instances of a GPU in MIG mode, whichever program created them,
// sorted by place.
func (l *Library) ListInstances(uuid string) ([]layout.GPUInstance, error) {
	return runOnMIGGPU(l, queryTimeout, "list the MIG instances of GPU "+uuid, uuid, func(handle nvml.Device) ([]layout.GPUInstance, error) {
		made, err := l.session.listInstances(handle)
		return layoutInstances(made), err
	})
}

// CreateInstance creates an instance with one compute instance of its full size, which makes it
// a device. For an existing instance it only creates a missing compute instance. It requires
// root. DescribeHost returns the device afterwards.
func (l *Library) CreateInstance(uuid string, i layout.GPUInstance) error {
	return l.changeInstances(fmt.Sprintf("make MIG instance %s of GPU %s", i, uuid), uuid, func(handle nvml.Device) error {
		made, err := l.session.findInstance(handle, i)
		if err != nil {
			return err
		}
		if made != nil {
			return made.addComputeInstance()
		}
		if made, err = l.session.createInstance(handle, i); err != nil {
			return err
		}
		if err := made.addComputeInstance(); err != nil {
			return errors.Join(err, made.destroyEmpty())
		}
		return nil
	})
}

// DestroyInstance destroys an instance and its compute instances. It fails if a process uses
// the instance. An instance that does not exist is no error.
func (l *Library) DestroyInstance(uuid string, i layout.GPUInstance) error {
	return l.changeInstances(fmt.Sprintf("end MIG instance %s of GPU %s", i, uuid), uuid, func(handle nvml.Device) error {
		made, err := l.session.findInstance(handle, i)
		if made == nil || err != nil {
			return err
		}
		parts, err := made.listComputeInstances()
		if err != nil {
			return err
		}
		for _, ci := range parts {
			if ret := ci.Destroy(); ret != nvml.SUCCESS {
				return fmt.Errorf("end its compute instance: %w", newNVMLError(ret))
			}
		}
		return made.destroyEmpty()
	})
}

func (l *Library) changeInstances(what, uuid string, do func(nvml.Device) error) error {
	_, err := runOnMIGGPU(l, changeTimeout, what, uuid, func(handle nvml.Device) (struct{}, error) { return struct{}{}, do(handle) })
	return err
}

// runOnMIGGPU calls do for a GPU in MIG mode, one call at a time for each GPU.
func runOnMIGGPU[T any](l *Library, patience time.Duration, what, uuid string, do func(nvml.Device) (T, error)) (T, error) {
	var none T
	l.mu.Lock()
	t, ok := l.targets[uuid]
	l.mu.Unlock()
	if !ok || t.mig != nil {
		return none, fmt.Errorf("%s: it is no GPU of this host", what)
	}
	return callWithTimeout(t.gpu.token, patience, what, func() (T, error) {
		nvmlGate.enter()
		defer nvmlGate.leave()
		l.mu.Lock()
		handle, lost, closed := l.targets[uuid].handle, t.gpu.lostErr, l.closed
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

// supportsPartitioning reports whether the driver has all functions that change instances.
func (s *nvmlSession) supportsPartitioning() bool {
	return s.hasAll("nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlDeviceGetGpuInstancePossiblePlacements_v2", "nvmlDeviceGetGpuInstances",
		"nvmlGpuInstanceGetInfo", "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy", "nvmlGpuInstanceGetComputeInstanceProfileInfo",
		"nvmlGpuInstanceCreateComputeInstance", "nvmlGpuInstanceGetComputeInstances", "nvmlComputeInstanceDestroy")
}

func (s *nvmlSession) listProfiles(handle nvml.Device) ([]layout.InstanceProfile, error) {
	if !s.supportsPartitioning() {
		return nil, errors.New("the driver does not list MIG profiles: update it to a release newer than 470")
	}
	var list []layout.InstanceProfile
	for n := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, ret := handle.GetGpuInstanceProfileInfoV(n).V2()
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue // a profile of other GPUs
		}
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("read MIG profile %d: %w", n, newNVMLError(ret))
		}
		name, _, _ := bytes.Cut(info.Name[:], []byte{0})
		p := layout.InstanceProfile{
			Name:   profileName(string(name)),
			ID:     int(info.Id),
			Slices: int(info.SliceCount),
			MemMiB: int64(info.MemorySizeMB),
			Max:    int(info.InstanceCount),
		}
		places, ret := handle.GetGpuInstancePossiblePlacements(&nvml.GpuInstanceProfileInfo{Id: info.Id})
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("read the placements of MIG profile %s: %w", p.Name, newNVMLError(ret))
		}
		for _, at := range places {
			p.Size, p.Starts = int(at.Size), append(p.Starts, int(at.Start))
		}
		list = append(list, p)
	}
	return list, nil
}

// existingInstance is a GPU instance that exists.
type existingInstance struct {
	layout.GPUInstance
	profile layout.InstanceProfile
	handle  nvml.GpuInstance
}

func (s *nvmlSession) listInstances(handle nvml.Device) ([]existingInstance, error) {
	profiles, err := s.listProfiles(handle)
	if err != nil {
		return nil, err
	}
	var list []existingInstance
	for _, p := range profiles {
		if p.Max == 0 {
			continue
		}
		made, ret := handle.GetGpuInstances(&nvml.GpuInstanceProfileInfo{Id: uint32(p.ID), InstanceCount: uint32(p.Max)})
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("list the instances of MIG profile %s: %w", p.Name, newNVMLError(ret))
		}
		for _, gi := range made {
			info, ret := gi.GetInfo()
			if ret != nvml.SUCCESS {
				return nil, fmt.Errorf("read the placement of an instance of MIG profile %s: %w", p.Name, newNVMLError(ret))
			}
			list = append(list, existingInstance{layout.GPUInstance{Profile: p.Name, Start: int(info.Placement.Start), Size: int(info.Placement.Size)}, p, gi})
		}
	}
	slices.SortFunc(list, func(a, b existingInstance) int { return a.Start - b.Start })
	return list, nil
}

// createInstance creates an instance without a compute instance. It is not a device yet.
func (s *nvmlSession) createInstance(handle nvml.Device, i layout.GPUInstance) (*existingInstance, error) {
	profiles, err := s.listProfiles(handle)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(profiles, func(p layout.InstanceProfile) bool { return p.Name == i.Profile })
	if at < 0 {
		return nil, fmt.Errorf("the GPU has no profile %q", i.Profile)
	}
	info := nvml.GpuInstanceProfileInfo{Id: uint32(profiles[at].ID)}
	gi, ret := handle.CreateGpuInstanceWithPlacement(&info, &nvml.GpuInstancePlacement{Start: uint32(i.Start), Size: uint32(i.Size)})
	if ret != nvml.SUCCESS {
		return nil, newNVMLError(ret)
	}
	return &existingInstance{i, profiles[at], gi}, nil
}

// findInstance returns the instance at that place, nil if none exists.
func (s *nvmlSession) findInstance(handle nvml.Device, i layout.GPUInstance) (*existingInstance, error) {
	all, err := s.listInstances(handle)
	for n := range all {
		if all[n].GPUInstance == i {
			return &all[n], nil
		}
	}
	return nil, err
}

// listComputeInstances returns the compute instances of an instance.
func (i *existingInstance) listComputeInstances() ([]nvml.ComputeInstance, error) {
	var list []nvml.ComputeInstance
	err := i.eachComputeProfile(func(info nvml.ComputeInstanceProfileInfo) error {
		made, ret := i.handle.GetComputeInstances(&info)
		if ret != nvml.SUCCESS {
			return fmt.Errorf("list its compute instances: %w", newNVMLError(ret))
		}
		list = append(list, made...)
		return nil
	})
	return list, err
}

// eachComputeProfile calls each for every kind of compute instance that the instance can have.
func (i *existingInstance) eachComputeProfile(each func(nvml.ComputeInstanceProfileInfo) error) error {
	for n := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, ret := i.handle.GetComputeInstanceProfileInfo(n, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		switch {
		case ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT || ret == nvml.SUCCESS && info.InstanceCount == 0:
			continue
		case ret != nvml.SUCCESS:
			return fmt.Errorf("read its compute profile %d: %w", n, newNVMLError(ret))
		}
		if err := each(info); err != nil {
			return err
		}
	}
	return nil
}

// addComputeInstance creates a compute instance with all slices of the instance, unless it has
// one.
func (i *existingInstance) addComputeInstance() error {
	there, err := i.listComputeInstances()
	if err != nil || len(there) > 0 {
		return err
	}
	made := false
	err = i.eachComputeProfile(func(info nvml.ComputeInstanceProfileInfo) error {
		if made || int(info.SliceCount) != i.profile.Slices {
			return nil
		}
		made = true
		if _, ret := i.handle.CreateComputeInstance(&info); ret != nvml.SUCCESS {
			return fmt.Errorf("make its compute instance: %w", newNVMLError(ret))
		}
		return nil
	})
	if err == nil && !made {
		err = fmt.Errorf("the driver has no compute instance of all its %d slices", i.profile.Slices)
	}
	return err
}

// destroyEmpty destroys an instance that has no compute instances.
func (i *existingInstance) destroyEmpty() error {
	if ret := i.handle.Destroy(); ret != nvml.SUCCESS {
		return newNVMLError(ret)
	}
	return nil
}
