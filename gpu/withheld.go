package gpu

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// WithheldResource is the Mesos set resource in which an agent lists the devices
// that it does not offer, each as WithheldDevice.SetItem. It is reserved for
// WithheldRole, so that no framework is offered it and no quota counts it. It is
// visible in the master's list of agents.
const (
	WithheldResource = "gpu_withheld"
	WithheldRole     = "gpu-withheld"
)

// WithheldCause is why a device is withheld.
type WithheldCause string

const (
	// WithheldUnhealthy devices have failed, or are recovering.
	WithheldUnhealthy WithheldCause = "sick"
	// WithheldCordoned devices are cordoned by an operator, whatever their health.
	WithheldCordoned WithheldCause = "cordoned"
	// WithheldHeld devices are healthy, and in a container that is not one of the agent's tasks.
	WithheldHeld WithheldCause = "held"
)

// WithheldDevice is a device that its agent does not offer. Note is the observed
// fault, the operator's reason or the holder. It may be empty.
type WithheldDevice struct {
	UUID  string
	Cause WithheldCause
	Note  string
}

// maxNote bounds a note in bytes: every list of agents contains all notes.
const maxNote = 200

// AsWithheld returns the device with that UUID as withheld. It returns false if a
// device in this condition is offered.
func (c DeviceCondition) AsWithheld(uuid string) (w WithheldDevice, is bool) {
	switch {
	case c.IsOffered():
		return WithheldDevice{}, false
	case c.Cordoned:
		return WithheldDevice{uuid, WithheldCordoned, boundNote(c.Cordon)}, true
	}
	switch {
	case c.Health == Failed || c.Health == Recovering:
		return WithheldDevice{uuid, WithheldUnhealthy, boundNote(c.Reason)}, true
	case c.NoDriver != "":
		return WithheldDevice{uuid, WithheldUnhealthy, boundNote(c.NoDriver)}, true
	}
	return WithheldDevice{uuid, WithheldHeld, boundNote(c.Holder)}, true
}

// SetItem returns the item of the resource: UUID, cause and note, separated by
// spaces.
func (w WithheldDevice) SetItem() string {
	return strings.TrimSpace(w.UUID + " " + string(w.Cause) + " " + boundNote(w.Note))
}

// ParseWithheld reads an item. ok is false if the item has no UUID or an unknown
// cause.
func ParseWithheld(item string) (w WithheldDevice, ok bool) {
	uuid, rest, _ := strings.Cut(item, " ")
	cause, note, _ := strings.Cut(rest, " ")
	w = WithheldDevice{uuid, WithheldCause(cause), boundNote(note)}
	return w, uuid != "" && (w.Cause == WithheldUnhealthy || w.Cause == WithheldCordoned || w.Cause == WithheldHeld)
}

// boundNote makes one line of text with at most maxNote bytes.
func boundNote(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	const cut = "…"
	if text = strings.TrimSpace(text); len(text) <= maxNote {
		return text
	}
	end := maxNote - len(cut)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimSpace(text[:end]) + cut
}
