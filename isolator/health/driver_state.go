package health

import (
	"fmt"

	"mesos-gpu/gpu"
)

// recoveryActions are the names of NVML's nvmlDeviceGpuRecoveryAction_t. Until the action is "none", new
// contexts on the device fail, or its reset would end them.
var recoveryActions = []string{"none", "GPU reset", "node reboot", "drain P2P", "drain and reset"}

func recoveryActionName(action float64) string {
	if i := int(action); i >= 0 && i < len(recoveryActions) {
		return recoveryActions[i]
	}
	return fmt.Sprintf("number %.0f", action)
}

// fabricCompleted is NVML's nvmlGpuFabricState_t of a GPU that the fabric manager has registered. Lower
// states are "not started" and "in progress".
const fabricCompleted = 3

var fabricStates = map[int]string{1: "not started", 2: "in progress"}

// driverFault returns why the device cannot serve tasks by what the driver reports in a sample, "" if it
// can. A value that the driver does not report is no fault.
func (p FaultPolicy) driverFault(sample gpu.Sample) string {
	if action := sample.Values[gpu.RecoveryAction]; action != 0 {
		return "the driver's recovery action is " + recoveryActionName(action)
	}
	if sample.Values[gpu.RowsFailed] > 0 {
		return "a memory row could not be remapped: the GPU must be replaced"
	}
	state, reported := sample.Values[gpu.FabricState]
	switch {
	case !reported || p.IgnoreFabric:
		return ""
	case state < fabricCompleted:
		return fmt.Sprintf("its registration with the NVLink fabric is %s: CUDA fails with error 802; see nvidia-fabricmanager", fabricStates[int(state)])
	case sample.Values[gpu.FabricStatus] != 0:
		return fmt.Sprintf("its registration with the NVLink fabric failed with NVML error %.0f: CUDA fails with error 802; see nvidia-fabricmanager",
			sample.Values[gpu.FabricStatus])
	}
	return ""
}
