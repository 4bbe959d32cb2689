package jobfile

import (
	"maps"
	"slices"
)

// shape is a JSON Schema of one value. Readers take scalars by their letters,
// so that 7 and "7" are the same to them, and to the shapes too: a keyword of
// JSON Schema holds for values of its own type alone.
type shape map[string]any

// Forms of what people write.
const (
	version    = `^[0-9]{1,6}(\.[0-9]{1,6}){0,3}$`
	decimals   = `([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?`
	times      = `^[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	amount     = ` *\+?` + decimals + ` *(KiB|MiB|GiB|TiB|MB|GB|TB)? *`
	percent    = `[+]?0*([1-9][0-9]?|100) *%`
	portText   = `^([0-9]+:)?[0-9]+(/(tcp|udp))?$`
	ulimit     = `^(unlimited|-?[0-9]+)(:(unlimited|-?[0-9]+))?$`
	secretName = `^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`
	variable   = `^[A-Za-z_][A-Za-z0-9_]{0,62}$`
)

// scalar is one value of any type that has letters.
func scalar() []string { return []string{"string", "number", "boolean"} }

// wordShape is a scalar that is not empty; text of it matches the pattern, unless
// that is empty.
func wordShape(pattern string) shape {
	s := shape{"type": scalar(), "minLength": 1}
	if pattern != "" {
		s["pattern"] = pattern
	}
	return s
}

// anyWordShape may be empty.
func anyWordShape() shape { return shape{"type": append(scalar(), "null")} }

func oneOf[T ~string](words ...T) shape { return shape{"enum": words} }

func flagShape() shape { return shape{"type": "boolean"} }

func integer(least, most int) shape {
	return shape{"type": []string{"integer", "string"}, "minimum": least, "maximum": most, "pattern": `^[+-]?[0-9]+$`}
}

func numberShape() shape {
	return shape{"type": []string{"number", "string"}, "exclusiveMinimum": 0, "pattern": `^\+?` + decimals + `$`}
}

func sizeShape() shape {
	return shape{"type": []string{"number", "string"}, "exclusiveMinimum": 0, "pattern": "^" + amount + "$"}
}

// durationShape: 0 alone has no unit.
func durationShape() shape {
	return shape{"type": []string{"string", "integer"}, "minimum": 0, "maximum": 0, "pattern": times}
}

func either(shapes ...shape) shape { return shape{"anyOf": shapes} }

func sequence(least int, items shape) shape {
	s := shape{"type": "array", "items": items}
	if least > 0 {
		s["minItems"] = least
	}
	return s
}

// object has these keys and no others, and needs some.
func object(properties map[string]shape, needs ...string) shape {
	s := shape{"type": "object", "properties": properties, "additionalProperties": false}
	if len(needs) > 0 {
		s["required"] = needs
	}
	return s
}

// named is an object with keys of people's own.
func named(values shape) shape {
	return shape{"type": "object", "additionalProperties": values}
}

// parts are the keys inside of a value of the shape, sorted.
func (s shape) parts() []string {
	if properties, ok := s["properties"].(map[string]shape); ok {
		return slices.Sorted(maps.Keys(properties))
	}
	if items, ok := s["items"].(shape); ok {
		return items.parts()
	}
	if choices, ok := s["anyOf"].([]shape); ok {
		for _, choice := range choices {
			if names := choice.parts(); names != nil {
				return names
			}
		}
	}
	return nil
}
