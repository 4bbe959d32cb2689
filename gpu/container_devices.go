package gpu

// ContainerDevices is a container that holds devices, and whose it is.
type ContainerDevices struct {
	// Container is Mesos's container id; a nested one's has its parents
	// before it, with dots between.
	Container string `json:"container"`
	Framework string `json:"framework,omitempty"`
	Executor  string `json:"executor,omitempty"`
	Task      string `json:"task,omitempty"`
	// Job is what the task calls its job, by the label of that name.
	Job     string   `json:"job,omitempty"`
	Devices []string `json:"devices"`
	// Shares are what it has of those devices that are shared.
	Shares []DeviceShare `json:"parts,omitempty"`
}
