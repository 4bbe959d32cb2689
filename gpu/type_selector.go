package gpu

import (
	"regexp"
	"slices"
	"strings"
)

// TypeSelector selects GPU types. A device matches if Include is empty or contains
// its type, and Exclude does not contain it. A name matches the product name or the
// short type of a device, in any case.
type TypeSelector struct {
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// Same requires one type for all devices of all tasks of a gang, whichever of the acceptable types has room for it.
	Same bool `json:"same,omitempty"`
	// Rules must accept the type as well. The scheduler derives them from the constraints of a job, so they are not
	// stored.
	Rules []TypeRule `json:"-"`
}

// TypeRule accepts GPU types by a name or by a pattern. A rule with neither accepts none.
type TypeRule struct {
	// Text describes the rule. Rules with equal texts accept the same types.
	Text string
	// Type is the accepted type, compared as the names of a TypeSelector.
	Type string
	// Pattern matches the product name or the short type of accepted devices. Negated accepts the others instead, also
	// devices of unknown type.
	Pattern *regexp.Regexp
	Negated bool
}

// accepts reports whether a device of that model satisfies the rule. The model is "" if it is unknown.
func (r *TypeRule) accepts(model string) bool {
	switch {
	case r.Pattern == nil:
		return r.Type != "" && sameType(r.Type, model)
	case model == "":
		return r.Negated
	default:
		return (r.Pattern.MatchString(model) || r.Pattern.MatchString(TypeOf(model))) != r.Negated
	}
}

// AcceptsAny reports whether every device matches.
func (t TypeSelector) AcceptsAny() bool {
	return len(t.Include) == 0 && len(t.Exclude) == 0 && len(t.Rules) == 0
}

// Match reports whether a device of that model matches, by its product name or its
// short type.
func (t TypeSelector) Match(model string) bool {
	names := func(name string) bool { return sameType(name, model) }
	if slices.ContainsFunc(t.Exclude, names) || !t.rulesAccept(model) {
		return false
	}
	return len(t.Include) == 0 || slices.ContainsFunc(t.Include, names)
}

// Named returns the names of which each matching device has one: Include, or else the types of rules. It is empty if the
// selector requires no name.
func (t TypeSelector) Named() []string {
	if len(t.Include) > 0 {
		return t.Include
	}
	var names []string
	for i := range t.Rules {
		if t.Rules[i].Type != "" {
			names = append(names, t.Rules[i].Type)
		}
	}
	return names
}

// MatchUnknown reports whether a device of unknown type matches.
func (t TypeSelector) MatchUnknown() bool {
	return len(t.Include) == 0 && len(t.Exclude) == 0 && t.rulesAccept("")
}

func (t TypeSelector) rulesAccept(model string) bool {
	for i := range t.Rules {
		if !t.Rules[i].accepts(model) {
			return false
		}
	}
	return true
}

// String returns, for example, "V100 or A100, not K80", "any type", or "V100 or A100, all of the same type".
func (t TypeSelector) String() string {
	var parts []string
	if len(t.Include) > 0 {
		parts = append(parts, strings.Join(t.Include, " or "))
	}
	if len(t.Exclude) > 0 {
		parts = append(parts, "not "+strings.Join(t.Exclude, " or "))
	}
	for i := range t.Rules {
		parts = append(parts, t.Rules[i].Text)
	}
	if t.Same {
		parts = append(parts, "all of the same type")
	}
	if len(parts) == 0 {
		return "any type"
	}
	return strings.Join(parts, ", ")
}

// NounPhrase names n such devices: "V100 or A100", "GPUs", "GPU other than K80".
func (t TypeSelector) NounPhrase(n int) string {
	if len(t.Include) > 0 {
		return t.String()
	}
	s := Plural(n, "GPU")
	if len(t.Exclude) > 0 {
		s += " other than " + strings.Join(t.Exclude, " or ")
	}
	return s + t.rulesText()
}

// rulesText formats the rules as in "GPU with gpu_type LIKE A.*".
func (t TypeSelector) rulesText() string {
	text, join := "", " with "
	for i := range t.Rules {
		text, join = text+join+t.Rules[i].Text, " and "
	}
	return text
}

func sameType(name, model string) bool {
	return strings.EqualFold(name, model) || strings.EqualFold(stripSpaces(TypeOf(name)), stripSpaces(TypeOf(model)))
}

// stripSpaces makes "RTX 3090" and "RTX3090" equal.
func stripSpaces(s string) string { return strings.ReplaceAll(s, " ", "") }

var (
	vendorWords = []string{"nvidia", "tesla", "quadro", "geforce"}
	// seriesWords mean nothing without the word after them.
	seriesWords = []string{"rtx", "gtx", "titan", "grid", "pro"}
	// suffixWords belong to the model before them.
	suffixWords = []string{"ti", "super", "ada"}
)

// isOneOf reports whether word is in the list, in upper or lower case.
func isOneOf(list []string, word string) bool {
	return slices.ContainsFunc(list, func(known string) bool { return strings.EqualFold(known, word) })
}

// TypeOf returns the short name of a product, which users ask for:
//
//	Tesla V100-SXM2-16GB       V100
//	NVIDIA A100 80GB PCIe      A100
//	NVIDIA GeForce RTX 3090 Ti RTX 3090 Ti
//	NVIDIA RTX A6000           RTX A6000
//
// It returns a name that is already short unchanged.
func TypeOf(model string) string {
	words := strings.Fields(model)
	for len(words) > 1 && isOneOf(vendorWords, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return ""
	}
	head, _, _ := strings.Cut(words[0], "-")
	kept := []string{head}
	rest := words[1:]
	for len(rest) > 0 && isOneOf(seriesWords, kept[len(kept)-1]) {
		next, _, _ := strings.Cut(rest[0], "-")
		kept = append(kept, next)
		rest = rest[1:]
	}
	for len(rest) > 0 && isOneOf(suffixWords, rest[0]) {
		kept = append(kept, rest[0])
		rest = rest[1:]
	}
	return strings.Join(kept, " ")
}

// knownTypes lists the data-centre and workstation types that NVIDIA sells or sold.
// They distinguish a request for hardware that the cluster does not have yet from
// a misspelt one.
var knownTypes = []string{
	"K20", "K40", "K80", "M10", "M40", "M60", "P4", "P6", "P40", "P100", "V100", "T4", "T10", "A2", "A10", "A10G", "A16", "A30", "A40",
	"A100", "A800", "L2", "L4", "L20", "L40", "L40S", "H20", "H100", "H200", "H800", "GH200", "B100", "B200", "B300", "GB200", "GB300", "GB10",
	"RTX 2080", "RTX 2080 Ti", "RTX 3060", "RTX 3070", "RTX 3080", "RTX 3080 Ti", "RTX 3090", "RTX 3090 Ti", "RTX 4070", "RTX 4080", "RTX 4090",
	"RTX 5080", "RTX 5090", "RTX 4000", "RTX 5000", "RTX 6000", "RTX 8000", "RTX A2000", "RTX A4000", "RTX A4500", "RTX A5000", "RTX A6000",
	"RTX 4000 Ada", "RTX 5000 Ada", "RTX 6000 Ada", "GTX 1080", "GTX 1080 Ti", "TITAN V", "TITAN Xp", "TITAN RTX",
}

// IsKnownType reports whether name is a GPU type that NVIDIA makes or made.
func IsKnownType(name string) bool {
	return slices.ContainsFunc(knownTypes, func(c string) bool { return sameType(name, c) })
}
