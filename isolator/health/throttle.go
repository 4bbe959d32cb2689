package health

import "strings"

// Throttle is one reason for lower clocks, as in NVML's nvmlClocksEventReasons.
type Throttle struct {
	Bit  uint64
	Name string
	// Hardware tells that the device protects itself.
	Hardware bool
}

// Throttles lists the reasons by their bits.
func Throttles() []Throttle {
	return []Throttle{
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

// slowdown names the hardware's own reasons among the bits, "" for none.
func slowdown(bits uint64) string {
	var names []string
	for _, t := range Throttles() {
		if t.Hardware && bits&t.Bit != 0 {
			names = append(names, t.Name)
		}
	}
	return strings.Join(names, ", ")
}
