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
}

// IsOffered reports whether tasks may get the device.
func (c DeviceCondition) IsOffered() bool {
	return !c.Cordoned && c.Holder == "" && c.Health != Failed && c.Health != Recovering
}
