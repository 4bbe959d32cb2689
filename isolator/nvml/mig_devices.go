//go:build linux && cgo

package nvml

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
)

func (s *nvmlSession) inMIGMode(handle nvml.Device) bool {
	if !s.hasAll("nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
		"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId") {
		return false
	}
	current, _, ret := handle.GetMigMode()
	return ret == nvml.SUCCESS && current == nvml.DEVICE_MIG_ENABLE
}

// describeMIGDevices describes the MIG devices of a GPU. It logs and leaves out a device that
// cannot be described, whose capabilities are unknown, or that shares its memory with another one.
func (s *nvmlSession) describeMIGDevices(w physicalGPU, minors map[migCapability]int) []migDevice {
	log := s.cfg.Log.WithField("gpu", w.device.UUID)
	count, ret := w.handle.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		log.WithError(newNVMLError(ret)).Warn("MIG devices left out")
		return nil
	}
	var found []migDevice
	for i := range count {
		handle, ret := w.handle.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue // a slot that no slice is in
		}
		d, err := gpu.Device{}, newNVMLError(ret)
		if ret == nvml.SUCCESS {
			d, err = describeMIGDevice(w.device, handle, minors)
		}
		if err != nil {
			log.WithField("index", i).WithError(err).Warn("MIG device left out")
			continue
		}
		found = append(found, migDevice{handle, d})
	}
	return onePerGPUInstance(found, log)
}

// onePerGPUInstance returns the devices without those that share the memory of their GPU instance with another one. Of the
// compute instances of one GPU instance, it keeps the one with the most compute.
func onePerGPUInstance(found []migDevice, log logrus.FieldLogger) (kept []migDevice) {
	for _, d := range found {
		mig := d.device.MIG
		at := slices.IndexFunc(kept, func(k migDevice) bool { return k.device.MIG.GPUInstance == mig.GPUInstance })
		if at < 0 {
			kept = append(kept, d)
			continue
		}
		best, other := kept[at], d
		if computeSlices(mig.Profile) > computeSlices(best.device.MIG.Profile) {
			best, other = d, kept[at]
		}
		kept[at] = best
		log.WithFields(logrus.Fields{
			"device": other.device.UUID, "profile": other.device.MIG.Profile, "offered": best.device.UUID, "instance": mig.GPUInstance,
		}).Warn("MIG device left out: it shares the memory of its GPU instance with the device that is offered. " +
			"Create one compute instance for each GPU instance (nvidia-smi mig -dci, then -cci)")
	}
	return kept
}

// computeSlices returns 2 for the profile "2c.3g.40gb". A compute instance with all of its GPU instance has no number.
func computeSlices(profile string) int {
	number, _, ok := strings.Cut(profile, "c.")
	if n, err := strconv.Atoi(number); ok && err == nil {
		return n
	}
	return math.MaxInt
}

func describeMIGDevice(parent gpu.Device, handle nvml.Device, minors map[migCapability]int) (gpu.Device, error) {
	uuid, ret := handle.GetUUID()
	if ret != nvml.SUCCESS {
		return gpu.Device{}, fmt.Errorf("read the UUID of a MIG device: %w", newNVMLError(ret))
	}
	name, ret := handle.GetName()
	if ret != nvml.SUCCESS {
		return gpu.Device{}, fmt.Errorf("read the name of MIG device %s: %w", uuid, newNVMLError(ret))
	}
	memory, ret := handle.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return gpu.Device{}, fmt.Errorf("read the memory of MIG device %s: %w", uuid, newNVMLError(ret))
	}
	gi, ret := handle.GetGpuInstanceId()
	if ret != nvml.SUCCESS {
		return gpu.Device{}, fmt.Errorf("read the GPU instance of MIG device %s: %w", uuid, newNVMLError(ret))
	}
	ci, ret := handle.GetComputeInstanceId()
	if ret != nvml.SUCCESS {
		return gpu.Device{}, fmt.Errorf("read the compute instance of MIG device %s: %w", uuid, newNVMLError(ret))
	}
	mig := &gpu.MIG{Parent: parent.UUID, Profile: profileName(name), GPUInstance: gi, ComputeInstance: ci}
	for at, cap := range map[migCapability]*int{
		{parent.Minor, gi, wholeInstance}: &mig.GPUInstanceCap,
		{parent.Minor, gi, ci}:            &mig.ComputeInstanceCap,
	} {
		minor, ok := minors[at]
		if !ok {
			return gpu.Device{}, fmt.Errorf("find the capability of MIG device %s: driver/nvidia-caps/mig-minors lacks %s", uuid, at)
		}
		*cap = minor
	}
	d := parent
	d.UUID, d.Model, d.MemMiB, d.MIG = uuid, name, int64(memory.Total>>20), mig
	return d, nil
}

// profileName returns "1g.5gb" for "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
func profileName(name string) string {
	if i := strings.LastIndex(name, "MIG "); i >= 0 {
		return name[i+len("MIG "):]
	}
	return name
}
