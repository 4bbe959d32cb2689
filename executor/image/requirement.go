package image

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Requirement is one variable or label that asks something of the host.
type Requirement struct {
	// From is its name.
	From string
	// Any is what it asks for.
	Any Alternatives
}

// Alternatives hold where one of them does, each of which holds where all its
// conditions do. None at all hold.
type Alternatives [][]Condition

// Condition compares a property of the host.
type Condition struct {
	Property Property
	Operator Operator
	// Value is a version, or a brand such as "tesla".
	Value string
}

// Property is what conditions are about.
type Property string

const (
	CUDA   Property = "cuda"   // the newest CUDA that the driver serves
	Driver Property = "driver" // the driver's version
	Arch   Property = "arch"   // a GPU's compute capability
	Brand  Property = "brand"  // a GPU's brand, in NVML's words
)

// Operator is how a condition compares.
type Operator string

const (
	Equal        Operator = "="
	NotEqual     Operator = "!="
	Less         Operator = "<"
	LessEqual    Operator = "<="
	Greater      Operator = ">"
	GreaterEqual Operator = ">="
)

// operatorRunes are those that operators are made of.
const operatorRunes = "<>=!"

// ParseAlternatives reads the value of an NVIDIA_REQUIRE_ variable: blanks
// part alternatives, commas the conditions of each. A condition about an
// unknown property is left out, and with its last condition the alternative:
// an image may name what only newer hosts know. The error names the condition
// that cannot be understood.
func ParseAlternatives(text string) (Alternatives, error) {
	var list Alternatives
	for term := range strings.FieldsSeq(text) {
		var conditions []Condition
		for factor := range strings.SplitSeq(term, ",") {
			if factor == "" {
				continue
			}
			c, known, err := parseCondition(factor)
			if err != nil {
				return nil, err
			}
			if known {
				conditions = append(conditions, c)
			}
		}
		if len(conditions) > 0 {
			list = append(list, conditions)
		}
	}
	return list, nil
}

// parseCondition reads "cuda>=12.2". Names have no case.
func parseCondition(text string) (c Condition, known bool, err error) {
	end := strings.IndexAny(text, operatorRunes)
	if end <= 0 {
		return c, false, fmt.Errorf("condition %q is not a property, an operator and a value such as cuda>=12.2", text)
	}
	c.Property = Property(strings.ToLower(text[:end]))
	if !slices.Contains([]Property{CUDA, Driver, Arch, Brand}, c.Property) {
		return c, false, nil
	}
	c.Value = strings.TrimLeft(text[end:], operatorRunes)
	c.Operator = Operator(strings.TrimSuffix(text[end:], c.Value))
	if err := c.validate(); err != nil {
		return c, false, fmt.Errorf("condition %q: %w", text, err)
	}
	return c, true, nil
}

func (c Condition) validate() error {
	operators := []Operator{Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual}
	if c.Property == Brand { // brands have no order
		operators = operators[:2]
	}
	if !slices.Contains(operators, c.Operator) {
		return fmt.Errorf("%s is compared by one of %s, not by %s", c.Property, join(operators, " "), c.Operator)
	}
	if c.Value == "" {
		return fmt.Errorf("no value for %s", c.Property)
	}
	if c.Property == Brand {
		return nil
	}
	_, err := parseVersion(c.Value)
	return err
}

func (c Condition) String() string { return string(c.Property) + string(c.Operator) + c.Value }

func (as Alternatives) String() string {
	terms := make([]string, len(as))
	for i, a := range as {
		terms[i] = join(a, ",")
	}
	return strings.Join(terms, " ")
}

func join[T any](list []T, separator string) string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = fmt.Sprint(item)
	}
	return strings.Join(texts, separator)
}

// requirements lists what must hold. The label is heard where no
// NVIDIA_REQUIRE_CUDA says more exactly which drivers will do: an image with
// NVIDIA's compatibility libraries runs on drivers older than its CUDA.
func requirements(labels map[string]string, vars variables) ([]Requirement, error) {
	if off, err := strconv.ParseBool(vars[disableRequire]); err == nil && off {
		return nil, nil
	}
	var list []Requirement
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !strings.HasPrefix(name, requirePrefix) || strings.HasPrefix(name, requireJetpack) {
			continue
		}
		alternatives, err := ParseAlternatives(vars[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(alternatives) > 0 {
			list = append(list, Requirement{From: name, Any: alternatives})
		}
	}
	if vars[requireCUDA] != "" {
		return list, nil
	}
	for _, own := range [...]struct{ from, version string }{{cudaVersion, vars[cudaVersion]}, {cudaLabel, labels[cudaLabel]}} {
		if own.version == "" {
			continue
		}
		v, err := majorMinor(own.version)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", own.from, err)
		}
		list = append(list, Requirement{From: own.from, Any: Alternatives{{{CUDA, GreaterEqual, v}}}})
	}
	return list, nil
}
