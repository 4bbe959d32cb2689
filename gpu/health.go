package gpu

import "time"

// Health says whether a device may be given to tasks.
type Health string

const (
	// Healthy devices are offered.
	Healthy Health = "healthy"
	// Suspect devices are offered still: something was seen that may pass.
	Suspect Health = "suspect"
	// Failed devices are not offered.
	Failed Health = "failed"
	// Recovering devices show no fault any more, and are offered once they
	// have not for a while.
	Recovering Health = "recovering"
)

// DeviceCondition is what is known of one device's health.
type DeviceCondition struct {
	Health Health `json:"health"`
	// Reason says what was seen, with its numbers; empty while healthy.
	Reason string `json:"reason,omitempty"`
	// Since is when Health last changed.
	Since time.Time `json:"since,omitzero"`
	// Cordoned devices are kept out of the offers by an operator, for the
	// reason in Cordon.
	Cordoned bool   `json:"cordoned,omitempty"`
	Cordon   string `json:"cordon,omitempty"`
}

// IsOffered reports whether tasks may get the device.
func (c DeviceCondition) IsOffered() bool {
	return !c.Cordoned && c.Health != Failed && c.Health != Recovering
}
