package image

import (
	"fmt"
	"strings"

	"mesos-gpu/gpu"
)

// Host is what is known of the machine. What is empty, or no version, is not
// known, and a condition about it holds: the driver itself will have the last
// word.
type Host struct {
	// Driver is the kernel driver's version ("535.104.05"), CUDA the newest
	// runtime that it serves ("12.2").
	Driver, CUDA string
	// GPUs are those of the container. Requirements hold for each.
	GPUs []GPU
}

// GPU is what is known of a device.
type GPU struct {
	// Name is for people.
	Name string
	// Arch is the compute capability ("7.0"), Brand NVML's word ("tesla").
	Arch, Brand string
}

// Unfit is the error of an image that cannot run on a host. Another host may
// do.
type Unfit struct {
	// By is whose fault it is.
	By Fault
	// From is the variable or label that asks, Wants what it asks for, Has
	// what the host has.
	From, Wants, Has string
}

// Fault is the part of a host that an image does not get on with.
type Fault string

const (
	// ByDriver: no host with this driver will do, whatever its GPUs.
	ByDriver Fault = "driver"
	// ByGPU: a host with other GPUs and this driver might do.
	ByGPU Fault = "gpu"
)

func (u *Unfit) Error() string {
	remedy := "update the agent's driver, or use an image for an older one"
	if u.By == ByGPU {
		remedy = "ask for another type of GPU, or use an image for this one"
	}
	return fmt.Sprintf("%s: it wants %s (%s), the agent has %s: %s", u.By.phrase(), u.Wants, u.From, u.Has, remedy)
}

func (f Fault) phrase() string { return "image is unfit for the agent's " + string(f) }

// FaultIn finds an Unfit in a message, "" where there is none: an agent that
// checks images itself answers its executors with text alone.
func FaultIn(message string) Fault {
	for _, f := range []Fault{ByDriver, ByGPU} {
		if strings.Contains(message, f.phrase()+": ") {
			return f
		}
	}
	return ""
}

// Check returns nil where the image fits the host, else an *Unfit about the
// first requirement that does not hold.
func (a Ask) Check(h Host) error {
	gpus := h.GPUs
	if len(gpus) == 0 {
		gpus = []GPU{{}}
	}
	for _, r := range a.Requirements {
		for _, g := range gpus {
			if !r.Any.hold(h, g) {
				return &Unfit{By: r.fault(h), From: r.From, Wants: r.Any.wants(), Has: h.describe(g)}
			}
		}
	}
	return nil
}

// fault blames the driver for what would not hold of any GPU either.
func (r Requirement) fault(h Host) Fault {
	if r.Any.hold(h, GPU{}) {
		return ByGPU
	}
	return ByDriver
}

func (as Alternatives) hold(h Host, g GPU) bool {
	for _, conditions := range as {
		if conditionsHold(conditions, h, g) {
			return true
		}
	}
	return len(as) == 0
}

func conditionsHold(conditions []Condition, h Host, g GPU) bool {
	for _, c := range conditions {
		if !c.holds(h, g) {
			return false
		}
	}
	return true
}

func (c Condition) holds(h Host, g GPU) bool {
	switch c.Property {
	case CUDA:
		return c.holdsOf(h.CUDA)
	case Driver:
		return c.holdsOf(h.Driver)
	case Arch:
		return c.holdsOf(g.Arch)
	default:
		return g.Brand == "" || strings.EqualFold(g.Brand, c.Value) == (c.Operator == Equal)
	}
}

// holdsOf compares a version of the host.
func (c Condition) holdsOf(text string) bool {
	has, err := parseVersion(text)
	if err != nil {
		return true
	}
	wants, err := parseVersion(c.Value)
	if err != nil {
		return true // ParseAlternatives lets none through
	}
	order := has.compare(wants)
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

// maxWants bounds what an image may put into a message.
const maxWants = 200

// wants is the first alternative, which is the image's own; NVIDIA's images
// have twenty more for old drivers.
func (as Alternatives) wants() string {
	text := as[:1].String()
	if len(text) > maxWants {
		text = strings.ToValidUTF8(text[:maxWants], "") + "…"
	}
	if n := len(as) - 1; n > 0 {
		text += fmt.Sprintf(" or %d %s", n, gpu.Plural(n, "alternative"))
	}
	return text
}

// describe reads "driver 535.104.05 with CUDA 12.2, GPU-5e7f of arch 7.0,
// brand tesla", as far as it is known.
func (h Host) describe(g GPU) string {
	text := "driver " + known(h.Driver) + " with CUDA " + known(h.CUDA)
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

func known(version string) string {
	if version == "" {
		return "(unknown)"
	}
	return version
}
