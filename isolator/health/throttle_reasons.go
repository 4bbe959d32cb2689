package health

import "strings"

// ThrottleReason is a reason for lower clocks, as in NVML's nvmlClocksEventReasons.
type ThrottleReason struct {
	Bit  uint64
	Name string
	// Hardware is set if the device protects itself.
	Hardware bool
}

// ThrottleReasons returns all reasons, sorted by bit.
func ThrottleReasons() []ThrottleReason {
	return []ThrottleReason{
		{1 << 0, "idle", false},
		{1 << 1, "application_clocks", false},
		{1 << 2, "software_power_cap", false},
		{1 << 3, "hardware_slowdown", true},
		{1 << 4, "sync_boost", false},
		{1 << 5, "software_thermal", false},
		{1 << 6, "hardware_thermal", true},
		{1 << 7, "hardware_power_brake", true},
		{1 << 8, "display_clocks", false},
	}
}

// hardwareThrottles names the hardware's own reasons among the bits, "" for none.
func hardwareThrottles(bits uint64) string {
	var names []string
	for _, t := range ThrottleReasons() {
		if t.Hardware && bits&t.Bit != 0 {
			names = append(names, t.Name)
		}
	}
	return strings.Join(names, ", ")
}
