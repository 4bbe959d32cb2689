package gpu

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// WithheldResource is the set by which an agent tells which of its devices it
// does not offer, a Withheld an item. It is reserved for WithheldRole: no
// framework is offered it, and no quota counts it. It stands in the master's
// list of agents, for those who may see that role.
const (
	WithheldResource = "gpu_withheld"
	WithheldRole     = "gpu-withheld"
)

// WithheldCause is why a device is withheld.
type WithheldCause string

const (
	// WithheldUnhealthy devices have failed, or have not been well for long enough.
	WithheldUnhealthy WithheldCause = "sick"
	// WithheldCordoned devices are kept back by an operator, sick or not.
	WithheldCordoned WithheldCause = "cordoned"
)

// WithheldDevice is a device that is on its agent and not offered. Note is what was
// seen of a sick one, or why an operator keeps it back; it may be empty.
type WithheldDevice struct {
	UUID  string
	Cause WithheldCause
	Note  string
}

// maxNote bounds a note in bytes: every list of agents has them all.
const maxNote = 200

// AsWithheld tells whether a device in that condition is, and why.
func (c DeviceCondition) AsWithheld(uuid string) (w WithheldDevice, is bool) {
	switch {
	case c.IsOffered():
		return WithheldDevice{}, false
	case c.Cordoned:
		return WithheldDevice{uuid, WithheldCordoned, boundNote(c.Cordon)}, true
	}
	return WithheldDevice{uuid, WithheldUnhealthy, boundNote(c.Reason)}, true
}

// SetItem is one of the set's: the device, the cause and the note, with spaces
// between.
func (w WithheldDevice) SetItem() string {
	return strings.TrimSpace(w.UUID + " " + string(w.Cause) + " " + boundNote(w.Note))
}

// ParseWithheld reads an item. It is false of one that says nothing known.
func ParseWithheld(item string) (w WithheldDevice, ok bool) {
	uuid, rest, _ := strings.Cut(item, " ")
	cause, note, _ := strings.Cut(rest, " ")
	w = WithheldDevice{uuid, WithheldCause(cause), boundNote(note)}
	return w, uuid != "" && (w.Cause == WithheldUnhealthy || w.Cause == WithheldCordoned)
}

// boundNote makes one bounded line of text.
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
