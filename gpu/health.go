package gpu

import "time"

// Health is the state of a device. It decides whether tasks may get the device.
type Health string

const (
	// Healthy devices are offered.
	Healthy Health = "healthy"
	// Suspect devices are offered: a fault was seen that may be temporary.
	Suspect Health = "suspect"
	// Failed devices are not offered.
	Failed Health = "failed"
	// Recovering devices show no fault any more. They are offered again after
	// they have shown none for some time.
	Recovering Health = "recovering"
)

// DeviceCondition is the health of one device, and whether an operator has
// cordoned it.
type DeviceCondition struct {
	Health Health `json:"health"`
	// Reason is the observed fault with its numbers. It is empty while healthy.
	Reason string `json:"reason,omitempty"`
	// Since is when Health last changed.
	Since time.Time `json:"since,omitzero"`
	// Cordoned devices are not offered because an operator has excluded them. Cordon is the operator's reason.
	Cordoned bool   `json:"cordoned,omitempty"`
	Cordon   string `json:"cordon,omitempty"`
	// Holder describes a container that holds the device and is not one of the agent's tasks. It
	// is empty without one. The device is not offered until that container has ended.
	Holder string `json:"holder,omitempty"`
	// NoDriver is why the machine has no usable driver files, empty if it has. Its devices are
	// not offered until it has; tasks that run already have the files.
	NoDriver string `json:"no_driver,omitempty"`
}

// OfferedHealth is the health for new tasks: Failed on a machine without usable driver files.
func (c DeviceCondition) OfferedHealth() Health {
	if c.NoDriver != "" {
		return Failed
	}
	return c.Health
}

// IsOffered reports whether tasks may get the device.
func (c DeviceCondition) IsOffered() bool {
	return !c.Cordoned && c.Holder == "" && c.NoDriver == "" && c.Health != Failed && c.Health != Recovering
}
