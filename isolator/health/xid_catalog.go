package health

import "fmt"

// FaultEffect is the effect of an XID on the device that reports it.
type FaultEffect string

const (
	// Passes fails the device until it has been clean for the quiet time. NVIDIA recommends to
	// restart the application, or nothing.
	Passes FaultEffect = "passes"
	// NeedsReset fails the device until it is reset, its driver is reloaded, the host is
	// rebooted, or an operator declares it healthy.
	NeedsReset FaultEffect = "needs reset"
	// DriverDecides is NeedsReset, unless a later sample has the recovery action "none". The XID alone
	// does not say how severe the error is: its subcode does, or the action itself, which NVML reports.
	DriverDecides FaultEffect = "needs reset, unless the recovery action is none"
)

// XID is one of NVIDIA's error numbers.
type XID struct {
	Number  uint64
	Meaning string
	Effect  FaultEffect
}

// DefaultIgnoredXIDs returns the XIDs that NVIDIA's device plugin for Kubernetes attributes to
// the application.
func DefaultIgnoredXIDs() []uint64 { return []uint64{13, 31, 43, 45, 68, 109} }

// LookUpXID returns what an XID means. One that is not in the catalog needs a reset: nothing
// shows that it passes.
func LookUpXID(number uint64) XID {
	for _, x := range XIDCatalog() {
		if x.Number == number {
			return x
		}
	}
	return XID{Number: number, Meaning: "unknown error", Effect: NeedsReset}
}

func (x XID) String() string { return fmt.Sprintf("XID %d (%s)", x.Number, x.Meaning) }

// XIDCatalog follows NVIDIA's "Analyzing Xid Errors with the Xid Catalog". An XID whose
// immediate action is to reset the GPU, or more, needs a reset.
func XIDCatalog() []XID {
	return []XID{
		{8, "GPU stopped processing", Passes},
		{13, "graphics engine exception", Passes},
		{31, "GPU memory page fault", Passes},
		{32, "corrupted push buffer stream", Passes},
		{37, "driver firmware error", Passes},
		{38, "driver firmware watchdog", Passes},
		{39, "copy engine 0 exception", Passes},
		{40, "copy engine 1 exception", Passes},
		{41, "copy engine 2 exception", Passes},
		{43, "GPU stopped processing an application", Passes},
		{44, "graphics engine fault during context switch", Passes},
		{45, "preemptive cleanup after an earlier error", Passes},
		{46, "GPU timeout", NeedsReset},
		{48, "double bit ECC error", NeedsReset},
		{54, "auxiliary power not connected", NeedsReset},
		{60, "video processor exception", Passes},
		{61, "internal microcontroller breakpoint", NeedsReset},
		{62, "internal microcontroller halt", NeedsReset},
		{63, "memory row remapped or page retired", Passes},
		{64, "memory row remapping or page retirement failed", NeedsReset},
		{66, "illegal access by driver", Passes},
		{67, "illegal access by driver", Passes},
		{68, "video decoder 0 exception", Passes},
		{69, "graphics engine class error", Passes},
		{70, "copy engine 3 error", Passes},
		{71, "copy engine 4 error", Passes},
		{72, "copy engine 5 error", Passes},
		{74, "NVLink error", NeedsReset},
		{75, "copy engine 6 error", Passes},
		{76, "copy engine 7 error", Passes},
		{77, "copy engine 8 error", Passes},
		{79, "GPU has fallen off the bus", NeedsReset},
		{80, "corrupted data sent to GPU", Passes},
		{82, "JPEG engine 0 error", Passes},
		{83, "video decoder 1 error", Passes},
		{84, "video decoder 2 error", Passes},
		{85, "copy engine 9 error", Passes},
		{86, "optical flow engine exception", Passes},
		{88, "video decoder 3 error", Passes},
		{89, "video decoder 4 error", Passes},
		{92, "high rate of single bit ECC errors", Passes},
		{93, "InfoROM wear limit exceeded", Passes},
		{94, "contained memory error", Passes},
		{95, "uncontained memory error", NeedsReset},
		{109, "context switch timeout", NeedsReset},
		{110, "security fault", NeedsReset},
		{119, "GSP RPC timeout", NeedsReset},
		{120, "GSP error", NeedsReset},
		{121, "corrected errors on the C2C link", Passes},
		{136, "link training failed", NeedsReset},
		{137, "NVLink privilege error", Passes},
		{139, "optical flow engine 1 error", Passes},
		{140, "unrecovered ECC error", NeedsReset},
		{141, "CUDA fast path error", Passes},
		{143, "GPU initialization error", NeedsReset},
		{144, "NVLink SAW error", DriverDecides},
		{145, "NVLink RLW error", DriverDecides},
		{146, "NVLink TLW error", DriverDecides},
		{147, "NVLink TREX error", DriverDecides},
		{148, "NVLink NVLPW_CTRL error", DriverDecides},
		{149, "NVLink NETIR error", DriverDecides},
		{150, "NVLink MSE error", DriverDecides},
		{151, "key rotation error", NeedsReset},
		{154, "recovery action changed", DriverDecides},
		{155, "NVLink error defined by software", NeedsReset},
		{156, "resource retired", NeedsReset},
		{157, "resource retirement failed", Passes},
		{158, "GPU fatal timeout", NeedsReset},
		{160, "channel retired", Passes},
		{161, "channel retirement failed", Passes},
		{167, "PCIe fatal timeout", NeedsReset},
		{168, "errors in the write protected region", NeedsReset},
		{169, "internal microcontroller halt", NeedsReset},
		{171, "uncorrectable DRAM error", NeedsReset},
		{172, "uncorrectable SRAM error", NeedsReset},
	}
}
