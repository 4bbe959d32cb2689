package jobfile

// valueSchema is the JSON Schema of a value. Readers do not distinguish 7 from "7", so
// the schemas accept both. In JSON Schema a keyword restricts only values of its own
// type.
type valueSchema map[string]any

// Patterns of texts.
const (
	versionPattern  = `^[0-9]{1,6}(\.[0-9]{1,6}){0,3}$`
	decimalPattern  = `([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?`
	durationPattern = `^([+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d))+)|` +
		`[0-9]+:[0-5][0-9]:[0-5][0-9]|[0-9]+-[0-9]{1,2}(:[0-5]?[0-9]){0,2})$`
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

// enumSchema describes one of the words.
func enumSchema[T ~string](words ...T) valueSchema { return valueSchema{"enum": words} }

// flagSchema describes true or false.
func flagSchema() valueSchema { return valueSchema{"type": "boolean"} }

// integerSchema describes a whole number from least to most. As text only its form is checked.
func integerSchema(least, most int) valueSchema {
	return valueSchema{"type": []string{"integer", "string"}, "minimum": least, "maximum": most, "pattern": `^[+-]?[0-9]+$`}
}

// numberSchema describes a number above 0, which readNumber accepts.
func numberSchema() valueSchema {
	return valueSchema{"type": []string{"number", "string"}, "exclusiveMinimum": 0, "pattern": `^\+?` + decimalPattern + `$`}
}

// sizeSchema describes a size that ParseSize accepts.
func sizeSchema() valueSchema {
	return valueSchema{"type": []string{"number", "string"}, "exclusiveMinimum": 0, "pattern": "^" + sizePattern + "$"}
}

// durationSchema describes a duration. Only 0 may have no unit.
func durationSchema() valueSchema {
	return valueSchema{"type": []string{"string", "integer"}, "minimum": 0, "maximum": 0, "pattern": durationPattern}
}

// eitherSchema describes a value that at least one of the schemas accepts.
func eitherSchema(schemas ...valueSchema) valueSchema { return valueSchema{"anyOf": schemas} }

// listSchema describes a list of at least so many items.
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

// wordsSchema describes a word or a list of words, as readWords accepts them.
func wordsSchema() valueSchema { return eitherSchema(wordSchema(""), listSchema(1, wordSchema(""))) }

// constraintsSchema describes a list of constraints, each as one text with spaces or as a list of two or three words.
func constraintsSchema() valueSchema {
	words := listSchema(2, wordSchema(""))
	words["maxItems"] = 3
	return listSchema(0, eitherSchema(wordSchema(" "), words))
}

// commandSchema describes one line, or a list of arguments of which the values may be empty.
func commandSchema() valueSchema { return eitherSchema(wordSchema(""), listSchema(1, anyWordSchema())) }
