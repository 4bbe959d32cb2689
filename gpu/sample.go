package gpu

import "time"

// Field names one thing measured of a device. The name says the unit.
type Field string

const (
	MemUsedBytes    Field = "mem_used_bytes"
	MemTotalBytes   Field = "mem_total_bytes"
	DutyRatio       Field = "duty_ratio"     // share of the time in which a kernel ran, 0 to 1
	MemDutyRatio    Field = "mem_duty_ratio" // share of the time in which memory was read or written
	SMClockHertz    Field = "sm_clock_hertz"
	MemClockHertz   Field = "mem_clock_hertz"
	Celsius         Field = "celsius"
	PowerWatts      Field = "power_watts"
	PowerLimitWatts Field = "power_limit_watts"
	EnergyJoules    Field = "energy_joules" // since the driver was loaded
	ECCCorrected    Field = "ecc_corrected" // errors since the driver was loaded
	ECCUncorrected  Field = "ecc_uncorrected"
	RowsPending     Field = "rows_pending"  // 1 while memory rows wait for a reset to be remapped
	ThrottleReasons Field = "throttle_bits" // NVML's bit mask nvmlClocksEventReasons
	PCIeTxBytes     Field = "pcie_tx_bytes_per_second"
	PCIeRxBytes     Field = "pcie_rx_bytes_per_second"
	NVLinkTxBytes   Field = "nvlink_tx_bytes" // since the driver was loaded
	NVLinkRxBytes   Field = "nvlink_rx_bytes"
)

// Process is one process that uses a device.
type Process struct {
	PID      int   `json:"pid"`
	MemBytes int64 `json:"mem_bytes"`
}

// Sample is what was measured of a device at one time. Values lacks what the
// device or its driver does not tell.
type Sample struct {
	At        time.Time         `json:"at"`
	Values    map[Field]float64 `json:"values"`
	Processes []Process         `json:"processes,omitempty"`
}
