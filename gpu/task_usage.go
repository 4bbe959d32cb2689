package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// UsageFile is the file in a task's sandbox that reports what its devices do.
// MaxUsageBytes is the largest file that is read.
const (
	UsageFile     = "gpu-usage.json"
	MaxUsageBytes = 64 << 10
)

// maxUsageDevices bounds the devices in a file if the number of the task's devices
// is not known. maxUUID bounds the length of a UUID.
const (
	maxUsageDevices = 64
	maxUUID         = 128
)

// TaskUsage is the usage of one task's devices at one time. It comes from the
// task's sandbox, where the task can write. It is shown to users, and no decision
// depends on it.
type TaskUsage struct {
	Time time.Time `json:"time"`
	// Simulated devices have invented values.
	Simulated bool          `json:"simulated,omitempty"`
	Devices   []DeviceUsage `json:"devices"`
}

// DeviceUsage is the usage of one device. A value that it does not report is nil.
type DeviceUsage struct {
	UUID string `json:"uuid"`
	// Duty is the fraction of the time in which a kernel ran, 0 to 1.
	Duty *float64 `json:"duty,omitempty"`
	// MemUsedMiB of MemMiB are in use.
	MemUsedMiB *float64 `json:"mem_used_mib,omitempty"`
	MemMiB     *float64 `json:"mem_mib,omitempty"`
	Watts      *float64 `json:"watts,omitempty"`
	Celsius    *float64 `json:"celsius,omitempty"`
	Health     Health   `json:"health,omitempty"`
	// Shared is true if the task has only a share of the device. Duty, Watts
	// and Celsius then describe the whole device, and MemMiB the share. The
	// memory that the task uses of it cannot be measured.
	Shared bool `json:"shared,omitempty"`
	// ThrottledSeconds is how long the task was throttled to stay within its share of the device's time, since it
	// started.
	ThrottledSeconds *float64 `json:"throttled_seconds,omitempty"`
	// EnergyJoules is the device's energy counter since its driver was loaded.
	EnergyJoules *float64 `json:"energy_joules,omitempty"`
	// Totals are sums over the task's time, nil before the second measurement.
	Totals *UsageTotals `json:"totals,omitempty"`
}

// UsageTotals is the measured usage of one device since its task started.
type UsageTotals struct {
	// Seconds is the measured time, BusySeconds the part of it in which kernels ran.
	Seconds     float64 `json:"seconds"`
	BusySeconds float64 `json:"busy_seconds"`
	// MemMiBSeconds is the memory over that time, MemUsedMiBSeconds the used part, MaxMemMiB the most in use.
	MemMiBSeconds     float64 `json:"mem_mib_seconds"`
	MemUsedMiBSeconds float64 `json:"mem_used_mib_seconds"`
	MaxMemMiB         float64 `json:"max_mem_mib"`
	// Joules is the energy of the device by its counter, 0 if it is shared or has none.
	Joules float64 `json:"joules"`
}

// maxSampleGap bounds the time between two measurements that count as one span. Nothing is known about longer gaps.
const maxSampleGap = time.Minute

// AddTotals sets the totals of each device from those of the usage before it. Each value holds for the time since the
// measurement before it.
func (u *TaskUsage) AddTotals(before *TaskUsage) {
	span := u.Time.Sub(before.Time)
	for i := range u.Devices {
		d := &u.Devices[i]
		at := slices.IndexFunc(before.Devices, func(o DeviceUsage) bool { return o.UUID == d.UUID })
		if at < 0 {
			continue
		}
		old, sums := &before.Devices[at], UsageTotals{}
		if old.Totals != nil {
			sums = *old.Totals
		}
		if span > 0 && span <= maxSampleGap && d.Duty != nil {
			sums.addSpan(span.Seconds(), old, d)
		}
		d.Totals = &sums
	}
}

func (s *UsageTotals) addSpan(seconds float64, old, now *DeviceUsage) {
	s.Seconds += seconds
	s.BusySeconds += *now.Duty * seconds
	if now.MemUsedMiB != nil && now.MemMiB != nil {
		s.MemMiBSeconds += *now.MemMiB * seconds
		s.MemUsedMiBSeconds += *now.MemUsedMiB * seconds
		s.MaxMemMiB = max(s.MaxMemMiB, *now.MemUsedMiB)
	}
	if !now.Shared && now.EnergyJoules != nil && old.EnergyJoules != nil {
		s.Joules += max(*now.EnergyJoules-*old.EnergyJoules, 0) // lower after a reset
	}
}

// UsageOf converts a sample. Without a sample only the UUID and the health are set.
func UsageOf(uuid string, health Health, s *Sample) DeviceUsage {
	u := DeviceUsage{UUID: uuid, Health: health}
	if s == nil {
		return u
	}
	value := func(f SampleField, unit float64) *float64 {
		v, ok := s.Values[f]
		if !ok {
			return nil
		}
		v /= unit
		return &v
	}
	u.Duty, u.Watts, u.Celsius = value(DutyRatio, 1), value(PowerWatts, 1), value(Celsius, 1)
	u.EnergyJoules = value(EnergyJoules, 1)
	u.MemUsedMiB, u.MemMiB = value(MemUsedBytes, 1<<20), value(MemTotalBytes, 1<<20)
	return u
}

// ParseUsage reads a usage file of a task with these devices, which the task may
// have written itself. With no devices given it does not check the UUIDs. The error
// quotes nothing of the text, which may come from any file that the agent can read.
func ParseUsage(text []byte, devices []string) (TaskUsage, error) {
	var u TaskUsage
	if len(text) > MaxUsageBytes {
		return u, fmt.Errorf("read GPU use: it has more than %d bytes", MaxUsageBytes)
	}
	if json.Unmarshal(text, &u) != nil { // unknown keys, of a newer executor, are ignored
		return TaskUsage{}, fmt.Errorf("read GPU use: its %d bytes are not the JSON that an executor writes", len(text))
	}
	most := len(devices)
	if most == 0 {
		most = maxUsageDevices
	}
	if len(u.Devices) > most {
		return TaskUsage{}, fmt.Errorf("read GPU use: it has %d devices, want at most %d", len(u.Devices), most)
	}
	for i := range u.Devices {
		if err := u.Devices[i].validateFor(devices); err != nil {
			return TaskUsage{}, fmt.Errorf("read GPU use: device %d: %w", i+1, err)
		}
	}
	return u, nil
}

func (u *DeviceUsage) validateFor(devices []string) error {
	if len(devices) > 0 && !slices.Contains(devices, u.UUID) || !isDeviceName(u.UUID) {
		return errors.New("it is not the task's")
	}
	if known := []Health{"", Healthy, Suspect, Failed, Recovering}; !slices.Contains(known, u.Health) {
		return fmt.Errorf("its health is not one of %q", known[1:])
	}
	t := u.Totals
	if t == nil {
		t = &UsageTotals{}
	}
	for _, v := range []struct {
		of        *float64
		what      string
		least, to float64
	}{
		{u.Duty, "duty", 0, 1},
		{u.Celsius, "temperature", -273.15, 1000},
		{u.Watts, "power", 0, 1e6},
		{u.MemUsedMiB, "used memory", 0, 1e9},
		{u.MemMiB, "memory", 0, 1e9},
		{u.ThrottledSeconds, "throttling", 0, math.MaxFloat64},
		{u.EnergyJoules, "energy", 0, math.MaxFloat64},
		{&t.Seconds, "measured time", 0, 1e10},
		{&t.BusySeconds, "busy time", 0, 1e10},
		{&t.MemMiBSeconds, "memory over time", 0, 1e19},
		{&t.MemUsedMiBSeconds, "used memory over time", 0, 1e19},
		{&t.MaxMemMiB, "most used memory", 0, 1e9},
		{&t.Joules, "energy", 0, 1e15},
	} {
		if v.of != nil && !(*v.of >= v.least && *v.of <= v.to) {
			return fmt.Errorf("its %s is %g, want %g to %g", v.what, *v.of, v.least, v.to)
		}
	}
	return nil
}

// isDeviceName reports whether the text looks like a UUID of a driver: printable,
// without blanks, and not too long.
func isDeviceName(uuid string) bool {
	return uuid != "" && len(uuid) <= maxUUID && !strings.ContainsFunc(uuid, func(c rune) bool { return c <= ' ' || c > '~' })
}
