package job

import "strings"

// MachineFaultLabel marks a status of a task that did not start because of its machine. The value is one of the constants
// below. The executor sets it, and the scheduler charges the job no retry.
const MachineFaultLabel = "mesos-gpu.machine_fault"

const (
	// DeviceHeld is the MachineFaultLabel of a task whose device another container holds.
	DeviceHeld = "device_held"
	// NoDriver is that of a task whose image requests the GPU driver, of which the machine
	// has no usable volume.
	NoDriver = "no_driver"
	// NoEngine is that of a docker task on a machine whose Docker engine does not answer.
	NoEngine = "no_engine"
	// NoExecutor is that of a task whose executor has not registered with its agent in time, by the agent's status: the
	// machine is overloaded, or its programs do not start.
	NoExecutor = "no_executor"
)

// machineFaultMark marks the message of a status that has no labels: a container that the module refused has no executor
// which could add one.
const machineFaultMark = " [" + MachineFaultLabel + "="

// MarkMachineFault adds the value of MachineFaultLabel to a message.
func MarkMachineFault(message, fault string) string { return message + machineFaultMark + fault + "]" }

// CutMachineFault returns a message without the mark of MarkMachineFault, and the fault; "" if it has none.
func CutMachineFault(message string) (rest, fault string) {
	before, after, found := strings.Cut(message, machineFaultMark)
	fault, end, closed := strings.Cut(after, "]")
	if !found || !closed {
		return message, ""
	}
	return before + end, fault
}
