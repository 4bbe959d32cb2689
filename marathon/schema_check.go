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

// schemaChecker checks a definition against the table of fields. It returns a copy
// without invalid values and with defaults.
type schemaChecker struct {
	violations violationList
	// strict makes unknown fields violations.
	strict bool
}

// checkObject checks an object's fields in the order of their names.
func (c *schemaChecker) checkObject(n *schemaNode, v map[string]any, at string, refused bool) map[string]any {
	clean := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if v[name] == nil {
			continue // null is the same as absent
		}
		below := at + "/" + name
		child := n.members[name]
		if child == nil {
			child = n.rest
		}
		if child == nil {
			c.addUnknownField(below, n, name)
			continue
		}
		if value, ok := c.checkValue(child, v[name], below, refused); ok {
			clean[name] = value
		}
	}
	c.addDefaults(n, clean, v, at)
	return clean
}

func (c *schemaChecker) addUnknownField(path string, n *schemaNode, name string) {
	const what = "there is no such field"
	if c.strict {
		c.violations.addViolation(fromTable, path, "%s%s", what, suggestField(n, name))
		return
	}
	c.violations.addWarning(path, what+suggestField(n, name))
}

// addDefaults adds defaults, and reports required fields that are absent.
func (c *schemaChecker) addDefaults(n *schemaNode, clean, given map[string]any, at string) {
	for _, name := range slices.Sorted(maps.Keys(n.members)) {
		f := n.members[name].field
		if given[name] != nil {
			continue
		}
		if f.Required {
			c.violations.addSchemaError(at+"/"+name, "it is needed")
		}
		if v := f.defaultValue(); v != nil {
			clean[name] = v
		}
	}
}

// checkValue checks one value. It returns false if the value must not be used.
func (c *schemaChecker) checkValue(n *schemaNode, v any, at string, refused bool) (any, bool) {
	f := n.field
	before := len(c.violations.list)
	clean, ok := c.checkType(n, v, at, refused || f.Support == Refused)
	if !ok || f.Support != Refused || refused || f.asksForNothing(clean) {
		return clean, ok
	}
	if len(c.violations.list) == before { // otherwise a mistake in it was reported
		c.violations.addUnsupported(at, f.Why)
	}
	return clean, true // later rules refer to it
}

// asksForNothing reports whether the value of a refused field has no effect.
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
	return f.Default != "" && jsonText(v) == jsonText(f.defaultValue())
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func (c *schemaChecker) checkType(n *schemaNode, v any, at string, refused bool) (any, bool) {
	f := n.field
	if f.Type&Any != 0 {
		return v, true
	}
	switch v := v.(type) {
	case string:
		if f.Type&String != 0 {
			return c.checkString(f, v, at)
		}
	case bool:
		if f.Type&Boolean != 0 {
			return v, true
		}
	case json.Number:
		if f.Type&(Integer|Long|Number) != 0 {
			return c.checkNumber(f, v, at)
		}
	case []any:
		if f.Type&Array != 0 {
			return c.checkArray(n, v, at, refused)
		}
	case map[string]any:
		if f.Type&Object != 0 {
			return c.checkObject(n, v, at, refused), true
		}
	}
	c.violations.addSchemaError(at, "%s is wanted here", withArticle(f.Type.String()))
	return nil, false
}

// zeroValue replaces an invalid element.
func (n *schemaNode) zeroValue() any {
	if n.field.Type&Object != 0 {
		return map[string]any{}
	}
	return nil
}

func withArticle(noun string) string {
	if strings.ContainsRune("aeio", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

func (c *schemaChecker) checkString(f Field, v, at string) (any, bool) {
	if len(f.Enum) > 0 {
		i := slices.IndexFunc(f.Enum, func(e string) bool { return strings.EqualFold(e, v) })
		if i >= 0 {
			return f.Enum[i], true
		}
		if others := f.Type &^ String; others != 0 {
			c.violations.addSchemaError(at, "%q is neither %s nor %s", v, strings.Join(f.Enum, ", "), withArticle(others.String()))
		} else {
			c.violations.addSchemaError(at, "%q is not one of %s", v, strings.Join(f.Enum, ", "))
		}
		return nil, false
	}
	length := len([]rune(v))
	switch {
	case length < f.MinLen:
		c.violations.addSchemaError(at, "it is empty")
	case f.MaxLen > 0 && length > f.MaxLen:
		c.violations.addSchemaError(at, "it has %d characters, more than %d", length, f.MaxLen)
	case f.Pattern != nil && !f.Pattern.MatchString(v):
		c.violations.addSchemaError(at, "%q does not match %s", v, f.Pattern)
	default:
		return v, true
	}
	return nil, false
}

// checkNumber returns whole numbers without fraction and exponent.
func (c *schemaChecker) checkNumber(f Field, v json.Number, at string) (any, bool) {
	x, err := strconv.ParseFloat(v.String(), 64)
	if err != nil {
		c.violations.addSchemaError(at, "%s is too large", v)
		return nil, false
	}
	if f.Type&Number == 0 {
		whole, ok := parseInteger(v, x, f.Type)
		if !ok {
			c.violations.addSchemaError(at, "%s is not a whole number of %d bits", v, bitSize(f.Type))
			return nil, false
		}
		v = whole
	}
	switch {
	case f.Min != nil && x < *f.Min:
		c.violations.addSchemaError(at, "%s is less than %s", v, formatNumber(*f.Min))
	case f.Max != nil && x > *f.Max:
		c.violations.addSchemaError(at, "%s is more than %s", v, formatNumber(*f.Max))
	default:
		return v, true
	}
	return nil, false
}

func bitSize(t JSONType) int {
	if t&Long != 0 {
		return 64
	}
	return 32
}

// maxExactFloat bounds the whole numbers that a float64 represents exactly.
const maxExactFloat = 1 << 53

func parseInteger(v json.Number, x float64, t JSONType) (json.Number, bool) {
	n, err := strconv.ParseInt(v.String(), 10, bitSize(t))
	if err != nil {
		if x != math.Trunc(x) || math.Abs(x) > maxExactFloat {
			return "", false
		}
		n = int64(x)
		if t&Long == 0 && (n > math.MaxInt32 || n < math.MinInt32) {
			return "", false
		}
	}
	return json.Number(strconv.FormatInt(n, 10)), true
}

func (c *schemaChecker) checkArray(n *schemaNode, v []any, at string, refused bool) (any, bool) {
	clean := []any{}
	for i, element := range v {
		value, ok := c.checkValue(n.each, element, elementPath(at, i), refused)
		if !ok {
			value = n.each.zeroValue() // keeps the indexes of the other elements
		}
		clean = append(clean, value)
	}
	if len(v) < n.field.MinLen {
		c.violations.addSchemaError(at, "it is empty")
		return nil, false
	}
	return clean, true
}
