package jobfile

import (
	"maps"
	"slices"
)

// valueSchema is a JSON Schema of one value. Readers take scalars by their letters,
// so that 7 and "7" are the same to them, and to the shapes too: a keyword of
// JSON Schema holds for values of its own type alone.
type valueSchema map[string]any

// Forms of what people write.
const (
	versionPattern  = `^[0-9]{1,6}(\.[0-9]{1,6}){0,3}$`
	decimalPattern  = `([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?`
	durationPattern = `^[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	sizePattern     = ` *\+?` + decimalPattern + ` *(KiB|MiB|GiB|TiB|MB|GB|TB)? *`
	percentPattern  = `[+]?0*([1-9][0-9]?|100) *%`
	portPattern     = `^([0-9]+:)?[0-9]+(/(tcp|udp))?$`
	ulimitPattern   = `^(unlimited|-?[0-9]+)(:(unlimited|-?[0-9]+))?$`
	secretPattern   = `^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$`
	variablePattern = `^[A-Za-z_][A-Za-z0-9_]{0,62}$`
)

// scalarTypes is one value of any type that has letters.
func scalarTypes() []string { return []string{"string", "number", "boolean"} }

// wordSchema is a scalar that is not empty; text of it matches the pattern, unless
// that is empty.
func wordSchema(pattern string) valueSchema {
	s := valueSchema{"type": scalarTypes(), "minLength": 1}
	if pattern != "" {
		s["pattern"] = pattern
	}
	return s
}

// anyWordSchema may be empty.
func anyWordSchema() valueSchema { return valueSchema{"type": append(scalarTypes(), "null")} }

func enumSchema[T ~string](words ...T) valueSchema { return valueSchema{"enum": words} }

func flagSchema() valueSchema { return valueSchema{"type": "boolean"} }

func integerSchema(least, most int) valueSchema {
	return valueSchema{"type": []string{"integer", "string"}, "minimum": least, "maximum": most, "pattern": `^[+-]?[0-9]+$`}
}

func numberSchema() valueSchema {
	return valueSchema{"type": []string{"number", "string"}, "exclusiveMinimum": 0, "pattern": `^\+?` + decimalPattern + `$`}
}

func sizeSchema() valueSchema {
	return valueSchema{"type": []string{"number", "string"}, "exclusiveMinimum": 0, "pattern": "^" + sizePattern + "$"}
}

// durationSchema: 0 alone has no unit.
func durationSchema() valueSchema {
	return valueSchema{"type": []string{"string", "integer"}, "minimum": 0, "maximum": 0, "pattern": durationPattern}
}

func eitherSchema(shapes ...valueSchema) valueSchema { return valueSchema{"anyOf": shapes} }

func listSchema(least int, items valueSchema) valueSchema {
	s := valueSchema{"type": "array", "items": items}
	if least > 0 {
		s["minItems"] = least
	}
	return s
}

// objectSchema has these keys and no others, and needs some.
func objectSchema(properties map[string]valueSchema, needs ...string) valueSchema {
	s := valueSchema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(needs) > 0 {
		s["required"] = needs
	}
	return s
}

// mapSchema is an object with keys of people's own.
func mapSchema(values valueSchema) valueSchema {
	return valueSchema{"type": "object", "additionalProperties": values}
}

// partNames are the keys inside of a value of the shape, sorted.
func (s valueSchema) partNames() []string {
	if properties, ok := s["properties"].(map[string]valueSchema); ok {
		return slices.Sorted(maps.Keys(properties))
	}
	if items, ok := s["items"].(valueSchema); ok {
		return items.partNames()
	}
	if choices, ok := s["anyOf"].([]valueSchema); ok {
		for _, choice := range choices {
			if names := choice.partNames(); names != nil {
				return names
			}
		}
	}
	return nil
}

func wordsSchema() valueSchema { return eitherSchema(wordSchema(""), listSchema(1, wordSchema(""))) }

func constraintsSchema() valueSchema {
	words := listSchema(2, wordSchema(""))
	words["maxItems"] = 3
	return listSchema(0, eitherSchema(wordSchema(" "), words))
}

func commandSchema() valueSchema { return eitherSchema(wordSchema(""), listSchema(1, anyWordSchema())) }
