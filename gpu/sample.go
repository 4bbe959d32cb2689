package gpu

import "time"

// SampleField names a measured quantity of a device. The name includes its unit.
type SampleField string

const (
	MemUsedBytes    SampleField = "mem_used_bytes"
	MemTotalBytes   SampleField = "mem_total_bytes"
	DutyRatio       SampleField = "duty_ratio"     // share of the time in which a kernel ran, 0 to 1
	MemDutyRatio    SampleField = "mem_duty_ratio" // share of the time in which memory was read or written
	SMClockHertz    SampleField = "sm_clock_hertz"
	MemClockHertz   SampleField = "mem_clock_hertz"
	Celsius         SampleField = "celsius"
	PowerWatts      SampleField = "power_watts"
	PowerLimitWatts SampleField = "power_limit_watts"
	EnergyJoules    SampleField = "energy_joules" // since the driver was loaded
	ECCCorrected    SampleField = "ecc_corrected" // errors since the driver was loaded
	ECCUncorrected  SampleField = "ecc_uncorrected"
	RowsPending     SampleField = "rows_pending"    // 1 while memory rows wait for a reset to be remapped
	RowsFailed      SampleField = "rows_failed"     // 1 if a memory row could not be remapped
	RecoveryAction  SampleField = "recovery_action" // NVML's nvmlDeviceGpuRecoveryAction_t, 0 for none
	FabricState     SampleField = "fabric_state"    // NVML's nvmlGpuFabricState_t, 3 for completed
	FabricStatus    SampleField = "fabric_status"   // NVML's error of a completed registration, 0 for none
	ThrottleReasons SampleField = "throttle_bits"   // NVML's bit mask nvmlClocksEventReasons
	PCIeTxBytes     SampleField = "pcie_tx_bytes_per_second"
	PCIeRxBytes     SampleField = "pcie_rx_bytes_per_second"
	NVLinkTxBytes   SampleField = "nvlink_tx_bytes" // since the driver was loaded
	NVLinkRxBytes   SampleField = "nvlink_rx_bytes"
)

// DeviceProcess is one process that uses a device.
type DeviceProcess struct {
	// PID is in the PID namespace of the host. MemBytes is the memory that the process has allocated on the device.
	PID      int   `json:"pid"`
	MemBytes int64 `json:"mem_bytes"`
}

// Sample is one measurement of a device. Values has no entry for a quantity that
// the device or its driver does not report.
type Sample struct {
	// At is when it was taken.
	At        time.Time               `json:"at"`
	Values    map[SampleField]float64 `json:"values"`
	Processes []DeviceProcess         `json:"processes,omitempty"`
}
