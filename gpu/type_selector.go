package gpu

import (
	"regexp"
	"slices"
	"strings"
)

// TypeSelector selects GPU types by their names, which TypeName describes. A device matches if Include is empty or has a
// name that includes it, and Exclude has none.
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
	// Type is the name of accepted GPUs.
	Type string
	// Pattern matches the product name or the short type of accepted devices. Negated accepts the others instead, also
	// devices of unknown type.
	Pattern *regexp.Regexp
	Negated bool
}

// accepts reports whether a product satisfies the rule.
func (r *TypeRule) accepts(p Product) bool {
	switch {
	case r.Pattern == nil:
		return r.Type != "" && p.Model != "" && parseTypeName(r.Type).relate(p.typeName()) == includes
	case p.Model == "":
		return r.Negated
	default:
		return (r.Pattern.MatchString(p.Model) || r.Pattern.MatchString(p.Type())) != r.Negated
	}
}

// mayAccept reports whether the rule may accept a GPU that the name includes.
func (r *TypeRule) mayAccept(n *TypeName) bool {
	if r.Pattern == nil {
		return r.Type != "" && parseTypeName(r.Type).relate(n.withoutProduct()) != excludes
	}
	return (r.Pattern.MatchString(n.String()) || r.Pattern.MatchString(n.family)) != r.Negated
}

// namesMIG reports whether the rule is about MIG devices. A pattern is if it contains MIG or a part of a profile.
func (r *TypeRule) namesMIG() bool {
	if r.Pattern == nil {
		return NamesMIG(r.Type)
	}
	return !r.Negated && migInPattern.MatchString(r.Pattern.String())
}

// namesDisplayCard reports whether a name or a constraint is about display cards.
func (t *TypeSelector) namesDisplayCard() bool {
	is := func(name string) bool { return TypeOf(name) == displayCard }
	return slices.ContainsFunc(t.Include, is) || slices.ContainsFunc(t.Rules, func(r TypeRule) bool {
		return is(r.Type) || r.Pattern != nil && !r.Negated && strings.Contains(strings.ToLower(r.Pattern.String()), "display")
	})
}

// migInPattern finds "MIG" and "1g.", also with an escaped dot.
var migInPattern = regexp.MustCompile(`(?i)mig|[0-9]g\\?\.`)

// AcceptsAny reports whether every device matches.
func (t TypeSelector) AcceptsAny() bool {
	return len(t.Include) == 0 && len(t.Exclude) == 0 && len(t.Rules) == 0
}

// Match reports whether a device of that product matches. What is not known of the product does not match a name in
// Include that requires it, and matches one in Exclude.
func (t TypeSelector) Match(p Product) bool {
	if p.Model == "" {
		return t.MatchUnknown()
	}
	n := p.typeName()
	if slices.ContainsFunc(t.Exclude, func(name string) bool { return parseTypeName(name).relate(n) != excludes }) || !t.rulesAccept(p) {
		return false
	}
	return len(t.Include) == 0 || slices.ContainsFunc(t.Include, func(name string) bool { return parseTypeName(name).relate(n) == includes })
}

// MayMatch reports whether the selector may match a GPU that a name includes: that of a type or of a product.
func (t TypeSelector) MayMatch(name string) bool {
	n := parseTypeName(name)
	if len(t.Include) == 0 {
		return t.mayMatch(n)
	}
	return slices.ContainsFunc(t.Include, func(included string) bool {
		both, ok := n.intersect(parseTypeName(included))
		return ok && t.mayMatch(&both)
	})
}

// mayMatch is MayMatch without Include.
func (t *TypeSelector) mayMatch(n *TypeName) bool {
	for i := range t.Rules {
		if !t.Rules[i].mayAccept(n) {
			return false
		}
	}
	return !slices.ContainsFunc(t.Exclude, func(name string) bool { return parseTypeName(name).relate(n) == includes })
}

// OfType returns the selector of the matching products of one short type, which need not be of the same type then.
func (t TypeSelector) OfType(name string) TypeSelector {
	var include []string
	for _, included := range t.Include {
		if both, ok := parseTypeName(name).intersect(parseTypeName(included)); ok {
			if !both.isPrecise() {
				include = nil
				break
			}
			include = append(include, both.String())
		}
	}
	if t.Same, t.Include = false, include; include == nil {
		t.Include = []string{name}
	}
	return t
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
	return len(t.Include) == 0 && len(t.Exclude) == 0 && t.rulesAccept(Product{})
}

func (t *TypeSelector) rulesAccept(p Product) bool {
	for i := range t.Rules {
		if !t.Rules[i].accepts(p) {
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
