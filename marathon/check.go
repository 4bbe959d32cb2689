package marathon

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// check holds a definition against the table. It returns the definition
// without what is wrong in it, and with the defaults.
type check struct {
	found violations
}

// object checks an object's members in the order of their names.
func (c *check) object(n *node, v map[string]any, at string, refused bool) map[string]any {
	clean := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if v[name] == nil {
			continue // null is as good as absent
		}
		below := at + "/" + name
		child := n.members[name]
		if child == nil {
			child = n.rest
		}
		if child == nil {
			c.found.unknown(below, n, name)
			continue
		}
		if value, ok := c.value(child, v[name], below, refused); ok {
			clean[name] = value
		}
	}
	c.complete(n, clean, v, at)
	return clean
}

// complete adds defaults, and misses what has none.
func (c *check) complete(n *node, clean, given map[string]any, at string) {
	for _, name := range slices.Sorted(maps.Keys(n.members)) {
		f := n.members[name].field
		if given[name] != nil {
			continue
		}
		if f.Required {
			c.found.schema(at+"/"+name, "it is needed")
		}
		if v := f.standard(); v != nil {
			clean[name] = v
		}
	}
}

// value checks one value. Not ok is what must not be looked at further.
func (c *check) value(n *node, v any, at string, refused bool) (any, bool) {
	f := n.field
	before := len(c.found.list)
	clean, ok := c.typed(n, v, at, refused || f.Standing == Refused)
	if !ok || f.Standing != Refused || refused || f.asksForNothing(clean) {
		return clean, ok
	}
	if len(c.found.list) == before { // else it is wrong besides
		c.found.refuse(at, f.Why)
	}
	return clean, true // the rules still see it
}

// asksForNothing reports whether a refused field's value is harmless.
func (f Field) asksForNothing(v any) bool {
	switch v := v.(type) {
	case bool:
		if !v {
			return true
		}
	case []any:
		if len(v) == 0 {
			return true
		}
	case map[string]any:
		return len(v) == 0
	case string:
		if slices.Contains(f.Accepts, v) {
			return true
		}
	}
	return f.Default != "" && text(v) == text(f.standard())
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func (c *check) typed(n *node, v any, at string, refused bool) (any, bool) {
	f := n.field
	if f.Type&Any != 0 {
		return v, true
	}
	switch v := v.(type) {
	case string:
		if f.Type&String != 0 {
			return c.str(f, v, at)
		}
	case bool:
		if f.Type&Boolean != 0 {
			return v, true
		}
	case json.Number:
		if f.Type&(Integer|Long|Number) != 0 {
			return c.number(f, v, at)
		}
	case []any:
		if f.Type&Array != 0 {
			return c.array(n, v, at, refused)
		}
	case map[string]any:
		if f.Type&Object != 0 {
			return c.object(n, v, at, refused), true
		}
	}
	c.found.schema(at, "%s is wanted here", article(f.Type.String()))
	return nil, false
}

// nothing stands for an element that is wrong.
func (n *node) nothing() any {
	if n.field.Type&Object != 0 {
		return map[string]any{}
	}
	return nil
}

func article(noun string) string {
	if strings.ContainsRune("aeio", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

func (c *check) str(f Field, v, at string) (any, bool) {
	if len(f.Enum) > 0 {
		i := slices.IndexFunc(f.Enum, func(e string) bool { return strings.EqualFold(e, v) })
		if i >= 0 {
			return f.Enum[i], true
		}
		if others := f.Type &^ String; others != 0 {
			c.found.schema(at, "%q is neither %s nor %s", v, strings.Join(f.Enum, ", "), article(others.String()))
		} else {
			c.found.schema(at, "%q is none of %s", v, strings.Join(f.Enum, ", "))
		}
		return nil, false
	}
	length := len([]rune(v))
	switch {
	case length < f.MinLen:
		c.found.schema(at, "it is empty")
	case f.MaxLen > 0 && length > f.MaxLen:
		c.found.schema(at, "it has %d characters, more than %d", length, f.MaxLen)
	case f.Pattern != nil && !f.Pattern.MatchString(v):
		c.found.schema(at, "%q does not match %s", v, f.Pattern)
	default:
		return v, true
	}
	return nil, false
}

// number writes whole numbers without fractions and exponents.
func (c *check) number(f Field, v json.Number, at string) (any, bool) {
	x, err := strconv.ParseFloat(v.String(), 64)
	if err != nil {
		c.found.schema(at, "%s is too large", v)
		return nil, false
	}
	if f.Type&Number == 0 {
		whole, ok := integer(v, x, f.Type)
		if !ok {
			c.found.schema(at, "%s is not a whole number of %d bits", v, bits(f.Type))
			return nil, false
		}
		v = whole
	}
	switch {
	case f.Min != nil && x < *f.Min:
		c.found.schema(at, "%s is less than %s", v, number(*f.Min))
	case f.Max != nil && x > *f.Max:
		c.found.schema(at, "%s is more than %s", v, number(*f.Max))
	default:
		return v, true
	}
	return nil, false
}

func bits(t Type) int {
	if t&Long != 0 {
		return 64
	}
	return 32
}

// exact bounds the whole numbers that a float64 tells apart.
const exact = 1 << 53

func integer(v json.Number, x float64, t Type) (json.Number, bool) {
	n, err := strconv.ParseInt(v.String(), 10, bits(t))
	if err != nil {
		if x != math.Trunc(x) || math.Abs(x) > exact {
			return "", false
		}
		n = int64(x)
		if t&Long == 0 && (n > math.MaxInt32 || n < math.MinInt32) {
			return "", false
		}
	}
	return json.Number(strconv.FormatInt(n, 10)), true
}

func (c *check) array(n *node, v []any, at string, refused bool) (any, bool) {
	clean := []any{}
	for i, element := range v {
		value, ok := c.value(n.each, element, index(at, i), refused)
		if !ok {
			value = n.each.nothing() // the places of the others stay
		}
		clean = append(clean, value)
	}
	if len(v) < n.field.MinLen {
		c.found.schema(at, "it is empty")
		return nil, false
	}
	return clean, true
}
