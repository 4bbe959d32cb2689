package gpu

// ContainerDevices are the devices that one container may use, and the task
// that the container belongs to.
type ContainerDevices struct {
	// Container is Mesos's container id. The id of a nested container follows
	// those of its parents, separated by dots.
	Container string `json:"container"`
	Framework string `json:"framework,omitempty"`
	Executor  string `json:"executor,omitempty"`
	Task      string `json:"task,omitempty"`
	// Job is the value of the task's label for its job.
	Job     string   `json:"job,omitempty"`
	Devices []string `json:"devices"`
	// Shares describe those of Devices that other containers may use too.
	Shares []DeviceShare `json:"shares,omitempty"`
}
