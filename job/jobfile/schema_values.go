package jobfile

// valueSchema is the JSON Schema of a value. Readers do not distinguish 7 from "7", so
// the schemas accept both. In JSON Schema a keyword restricts only values of its own
// type.
type valueSchema map[string]any

// Patterns of texts.
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

// scalarTypes are the types whose values have a text form.
func scalarTypes() []string { return []string{"string", "number", "boolean"} }

// wordSchema describes a scalar that is not empty. If it is text it matches the
// pattern, unless the pattern is empty.
func wordSchema(pattern string) valueSchema {
	s := valueSchema{"type": scalarTypes(), "minLength": 1}
	if pattern != "" {
		s["pattern"] = pattern
	}
	return s
}

// anyWordSchema describes a scalar that may be empty.
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

// durationSchema describes a duration. Only 0 may have no unit.
func durationSchema() valueSchema {
	return valueSchema{"type": []string{"string", "integer"}, "minimum": 0, "maximum": 0, "pattern": durationPattern}
}

func eitherSchema(schemas ...valueSchema) valueSchema { return valueSchema{"anyOf": schemas} }

func listSchema(least int, items valueSchema) valueSchema {
	s := valueSchema{"type": "array", "items": items}
	if least > 0 {
		s["minItems"] = least
	}
	return s
}

// objectSchema describes a mapping with these keys and no others.
func objectSchema(properties map[string]valueSchema, needs ...string) valueSchema {
	s := valueSchema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(needs) > 0 {
		s["required"] = needs
	}
	return s
}

// mapSchema describes a mapping with keys that the user chooses.
func mapSchema(values valueSchema) valueSchema {
	return valueSchema{"type": "object", "additionalProperties": values}
}

func wordsSchema() valueSchema { return eitherSchema(wordSchema(""), listSchema(1, wordSchema(""))) }

func constraintsSchema() valueSchema {
	words := listSchema(2, wordSchema(""))
	words["maxItems"] = 3
	return listSchema(0, eitherSchema(wordSchema(" "), words))
}

func commandSchema() valueSchema { return eitherSchema(wordSchema(""), listSchema(1, anyWordSchema())) }
