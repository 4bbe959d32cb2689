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

// Cause is why a device is withheld.
type Cause string

const (
	// Sick devices have failed, or have not been well for long enough.
	Sick Cause = "sick"
	// Cordoned devices are kept back by an operator, sick or not.
	Cordoned Cause = "cordoned"
)

// Withheld is a device that is on its agent and not offered. Note is what was
// seen of a sick one, or why an operator keeps it back; it may be empty.
type Withheld struct {
	UUID  string
	Cause Cause
	Note  string
}

// maxNote bounds a note in bytes: every list of agents has them all.
const maxNote = 200

// Withheld tells whether a device in that condition is, and why.
func (c Condition) Withheld(uuid string) (w Withheld, is bool) {
	switch {
	case c.Offered():
		return Withheld{}, false
	case c.Cordoned:
		return Withheld{uuid, Cordoned, short(c.Cordon)}, true
	}
	return Withheld{uuid, Sick, short(c.Reason)}, true
}

// Item is one of the set's: the device, the cause and the note, with spaces
// between.
func (w Withheld) Item() string {
	return strings.TrimSpace(w.UUID + " " + string(w.Cause) + " " + short(w.Note))
}

// ParseWithheld reads an item. It is false of one that says nothing known.
func ParseWithheld(item string) (w Withheld, ok bool) {
	uuid, rest, _ := strings.Cut(item, " ")
	cause, note, _ := strings.Cut(rest, " ")
	w = Withheld{uuid, Cause(cause), short(note)}
	return w, uuid != "" && (w.Cause == Sick || w.Cause == Cordoned)
}

// short makes one bounded line of text.
func short(text string) string {
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
