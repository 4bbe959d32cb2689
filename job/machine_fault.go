package job

// MachineFaultLabel marks a status of a task that did not start because of its machine. The value is one of the constants
// below. The executor sets it, and the scheduler charges the job no retry.
const MachineFaultLabel = "mesos-gpu.machine_fault"

// DeviceHeld is the MachineFaultLabel of a task whose device another container holds.
const DeviceHeld = "device_held"
