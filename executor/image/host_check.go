package image

import (
	"fmt"
	"strings"

	"mesos-gpu/gpu"
)

// HostDriver is what is known of the machine. What is empty, or no version, is not
// known, and a condition about it holds: the driver itself will have the last
// word.
type HostDriver struct {
	// Driver is the kernel driver's version ("535.104.05"), CUDA the newest
	// runtime that it serves ("12.2").
	Driver, CUDA string
	// GPUs are those of the container. Requirements hold for each.
	GPUs []HostGPU
}

// HostGPU is what is known of a device.
type HostGPU struct {
	// Name is for people.
	Name string
	// Arch is the compute capability ("7.0"), Brand NVML's word ("tesla").
	Arch, Brand string
}

// IncompatibleError is the error of an image that cannot run on a host. Another host may
// do.
type IncompatibleError struct {
	// Cause is whose fault it is.
	Cause MismatchCause
	// RequiredBy is the variable or label that asks, Wants what it asks for, Has
	// what the host has.
	RequiredBy, Required, Found string
}

// MismatchCause is the part of a host that an image does not get on with.
type MismatchCause string

const (
	// DriverMismatch: no host with this driver will do, whatever its GPUs.
	DriverMismatch MismatchCause = "driver"
	// GPUMismatch: a host with other GPUs and this driver might do.
	GPUMismatch MismatchCause = "gpu"
)

func (u *IncompatibleError) Error() string {
	remedy := "update the agent's driver, or use an image for an older one"
	if u.Cause == GPUMismatch {
		remedy = "ask for another type of GPU, or use an image for this one"
	}
	return fmt.Sprintf("%s: it wants %s (%s), the agent has %s: %s", u.Cause.messagePrefix(), u.Required, u.RequiredBy, u.Found, remedy)
}

func (f MismatchCause) messagePrefix() string { return "image is unfit for the agent's " + string(f) }

// FindMismatch finds an Unfit in a message, "" where there is none: an agent that
// checks images itself answers its executors with text alone.
func FindMismatch(message string) MismatchCause {
	for _, f := range []MismatchCause{DriverMismatch, GPUMismatch} {
		if strings.Contains(message, f.messagePrefix()+": ") {
			return f
		}
	}
	return ""
}

// CheckHost returns nil where the image fits the host, else an *Unfit about the
// first requirement that does not hold.
func (a DriverRequest) CheckHost(h HostDriver) error {
	gpus := h.GPUs
	if len(gpus) == 0 {
		gpus = []HostGPU{{}}
	}
	for _, r := range a.Requirements {
		for _, g := range gpus {
			if !r.Alternatives.holdFor(h, g) {
				return &IncompatibleError{Cause: r.mismatchCause(h), RequiredBy: r.Source, Required: r.Alternatives.describeFirst(), Found: h.describeWith(g)}
			}
		}
	}
	return nil
}

// mismatchCause blames the driver for what would not hold of any HostGPU either.
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
		return true // ParseAlternatives lets none through
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

// maxDescriptionBytes bounds what an image may put into a message.
const maxDescriptionBytes = 200

// describeFirst is the first alternative, which is the image's own; NVIDIA's images
// have twenty more for old drivers.
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

// describeWith reads "driver 535.104.05 with CUDA 12.2, HostGPU-5e7f of arch 7.0,
// brand tesla", as far as it is known.
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
