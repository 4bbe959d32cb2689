package image

import (
	"errors"
	"fmt"
	"strings"

	"mesos-gpu/gpu"
)

// HostDriver describes a machine's driver and GPUs. Empty and malformed
// versions are unknown, and every condition about an unknown property holds:
// the driver itself will reject what it cannot run.
type HostDriver struct {
	// Driver is the kernel driver's version ("535.104.05"). CUDA is the newest
	// CUDA version that the driver supports ("12.2").
	Driver, CUDA string
	// GPUs are the container's. A requirement must hold for each of them.
	GPUs []HostGPU
}

// HostGPU describes one device.
type HostGPU struct {
	// Name is used in messages only.
	Name string
	// Arch is the compute capability ("7.0"), Brand is NVML's brand name
	// ("tesla").
	Arch, Brand string
}

// IncompatibleError means that an image cannot run on a host. It may run on
// another host.
type IncompatibleError struct {
	// Cause is the part of the host that does not match.
	Cause MismatchCause
	// RequiredBy is the variable or label with the requirement, Required the
	// requirement, and Found what the host has.
	RequiredBy, Required, Found string
	// TooNew is set if no newer driver satisfies the requirement either.
	TooNew bool
}

// MismatchCause is the part of a host that an image is incompatible with.
type MismatchCause string

const (
	// DriverMismatch: the image runs on no host with this driver, whatever its
	// GPUs.
	DriverMismatch MismatchCause = "driver"
	// GPUMismatch: the image may run on a host with other GPUs and this
	// driver.
	GPUMismatch MismatchCause = "gpu"
	// AnyHostMismatch: what the image requires cannot be read, on any host.
	AnyHostMismatch MismatchCause = "any host"
)

// UnreadableError means that the requirements of an image cannot be read. It
// runs on no host.
type UnreadableError struct{ Err error }

func (e *UnreadableError) Error() string {
	return AnyHostMismatch.messagePrefix() + ": " + e.Err.Error()
}

func (e *UnreadableError) Unwrap() error { return e.Err }

func (e *IncompatibleError) Error() string {
	remedy := "update the agent's driver, or use an image for an older one"
	switch {
	case e.TooNew:
		remedy = "a newer driver does not help: use an image for this one"
	case e.Cause == GPUMismatch:
		remedy = "ask for another type of GPU, or use an image for this one"
	}
	return fmt.Sprintf("%s: it wants %s (%s), the agent has %s: %s", e.Cause.messagePrefix(), e.Required, e.RequiredBy, e.Found, remedy)
}

func (c MismatchCause) messagePrefix() string {
	if c == AnyHostMismatch {
		return "image is unfit for all agents"
	}
	return "image is unfit for the agent's " + string(c)
}

// MismatchCauseOf returns the cause of an error that means that an image cannot
// run on a host; "" for other errors.
func MismatchCauseOf(err error) MismatchCause {
	if own := (*IncompatibleError)(nil); errors.As(err, &own) {
		return own.Cause
	}
	if unreadable := (*UnreadableError)(nil); errors.As(err, &unreadable) {
		return AnyHostMismatch
	}
	if remote := (*remoteMismatchError)(nil); errors.As(err, &remote) {
		return remote.cause
	}
	return ""
}

// remoteMismatchError is an agent's answer about an image that it has checked
// itself.
type remoteMismatchError struct {
	error
	cause MismatchCause
}

func (e *remoteMismatchError) Unwrap() error { return e.error }

// ParseAgentError gives an agent's answer about an incompatible image a type
// that MismatchCauseOf recognizes, and returns other errors unchanged. Mesos
// passes the error of a launch on as text: there is no field for its cause.
func ParseAgentError(answer error) error {
	for _, f := range []MismatchCause{DriverMismatch, GPUMismatch, AnyHostMismatch} {
		if answer != nil && strings.Contains(answer.Error(), f.messagePrefix()+": ") {
			return &remoteMismatchError{answer, f}
		}
	}
	return answer
}

// CheckHost returns nil if the image can run on the host, else an
// *IncompatibleError about the first requirement that does not hold.
func (d DriverRequest) CheckHost(h HostDriver) error {
	gpus := h.GPUs
	if len(gpus) == 0 {
		gpus = []HostGPU{{}}
	}
	for _, r := range d.Requirements {
		for _, g := range gpus {
			if !r.Alternatives.holdFor(h, g) {
				e := &IncompatibleError{Cause: r.mismatchCause(h), RequiredBy: r.Source, Required: r.Alternatives.describeFirst(), Found: h.describeWith(g)}
				newest := HostDriver{Driver: newestVersion, CUDA: newestVersion}
				e.TooNew = e.Cause == DriverMismatch && !r.Alternatives.holdFor(newest, HostGPU{})
				return e
			}
		}
	}
	return nil
}

// newestVersion is newer than all versions.
const newestVersion = "4294967295"

// mismatchCause is the driver if the requirement would not hold for any GPU.
func (r Requirement) mismatchCause(h HostDriver) MismatchCause {
	if r.Alternatives.holdFor(h, HostGPU{}) {
		return GPUMismatch
	}
	return DriverMismatch
}

func (as RequirementAlternatives) holdFor(h HostDriver, g HostGPU) bool {
	for _, conditions := range as {
		if conditionsHold(conditions, h, g) {
			return true
		}
	}
	return len(as) == 0
}

func conditionsHold(conditions []HostCondition, h HostDriver, g HostGPU) bool {
	for _, c := range conditions {
		if !c.holdsFor(h, g) {
			return false
		}
	}
	return true
}

func (c HostCondition) holdsFor(h HostDriver, g HostGPU) bool {
	switch c.Property {
	case CUDA:
		return c.holdsForVersion(h.CUDA)
	case Driver:
		return c.holdsForVersion(h.Driver)
	case Arch:
		return c.holdsForVersion(g.Arch)
	default:
		return g.Brand == "" || strings.EqualFold(g.Brand, c.Value) == (c.Operator == Equal)
	}
}

// holdsForVersion compares a version of the host.
func (c HostCondition) holdsForVersion(text string) bool {
	has, err := parseVersion(text)
	if err != nil {
		return true
	}
	wants, err := parseVersion(c.Value)
	if err != nil {
		return true // ParseAlternatives rejects malformed versions
	}
	order := has.compareTo(wants)
	switch c.Operator {
	case Equal:
		return order == 0
	case NotEqual:
		return order != 0
	case Less:
		return order < 0
	case LessEqual:
		return order <= 0
	case Greater:
		return order > 0
	default:
		return order >= 0
	}
}

// maxDescriptionBytes bounds an image's text in a message.
const maxDescriptionBytes = 200

// describeFirst returns the first alternative, which is for the image's own
// CUDA version. NVIDIA's images have twenty more for old drivers.
func (as RequirementAlternatives) describeFirst() string {
	text := as[:1].String()
	if len(text) > maxDescriptionBytes {
		text = strings.ToValidUTF8(text[:maxDescriptionBytes], "") + "…"
	}
	if n := len(as) - 1; n > 0 {
		text += fmt.Sprintf(" or %d %s", n, gpu.Plural(n, "alternative"))
	}
	return text
}

// describeWith returns "driver 535.104.05 with CUDA 12.2, GPU-5e7f of arch
// 7.0, brand tesla", without the unknown parts.
func (h HostDriver) describeWith(g HostGPU) string {
	text := "driver " + orUnknown(h.Driver) + " with CUDA " + orUnknown(h.CUDA)
	var facts []string
	if g.Arch != "" {
		facts = append(facts, "arch "+g.Arch)
	}
	if g.Brand != "" {
		facts = append(facts, "brand "+g.Brand)
	}
	if len(facts) == 0 {
		return text
	}
	name := g.Name
	if name == "" {
		name = "a GPU"
	}
	return text + ", " + name + " of " + strings.Join(facts, ", ")
}

func orUnknown(version string) string {
	if version == "" {
		return "(unknown)"
	}
	return version
}
