package image

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Requirement is one variable or label that requires something of the host.
type Requirement struct {
	// Source is its name.
	Source string
	// Alternatives contains the conditions, one of which must hold.
	Alternatives RequirementAlternatives
}

// RequirementAlternatives holds if one of the alternatives does. An
// alternative holds if all of its conditions do. An empty list holds.
type RequirementAlternatives [][]HostCondition

// HostCondition compares one property of the host.
type HostCondition struct {
	Property HostProperty
	Operator ComparisonOperator
	// Value is a version, or a brand such as "tesla".
	Value string
}

// HostProperty is the subject of a condition.
type HostProperty string

const (
	CUDA   HostProperty = "cuda"   // the newest CUDA version that the driver supports
	Driver HostProperty = "driver" // the driver's version
	Arch   HostProperty = "arch"   // a GPU's compute capability
	Brand  HostProperty = "brand"  // a GPU's brand name in NVML
)

// ComparisonOperator is how a condition compares.
type ComparisonOperator string

const (
	Equal        ComparisonOperator = "="
	NotEqual     ComparisonOperator = "!="
	Less         ComparisonOperator = "<"
	LessEqual    ComparisonOperator = "<="
	Greater      ComparisonOperator = ">"
	GreaterEqual ComparisonOperator = ">="
)

// operatorRunes are all characters of the operators.
const operatorRunes = "<>=!"

// ParseAlternatives parses the value of an NVIDIA_REQUIRE_ variable. Blanks
// separate alternatives, commas the conditions of each. Conditions about
// unknown properties are ignored, and an alternative without a known condition
// is ignored too: an image may name properties that only newer hosts know. The
// error names the malformed condition.
func ParseAlternatives(text string) (RequirementAlternatives, error) {
	var list RequirementAlternatives
	for term := range strings.FieldsSeq(text) {
		var conditions []HostCondition
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

// parseCondition parses a condition such as "cuda>=12.2". Property names are
// case-insensitive.
func parseCondition(text string) (c HostCondition, known bool, err error) {
	end := strings.IndexAny(text, operatorRunes)
	if end <= 0 {
		return c, false, fmt.Errorf("condition %q is not a property, an operator and a value such as cuda>=12.2", text)
	}
	c.Property = HostProperty(strings.ToLower(text[:end]))
	if !slices.Contains([]HostProperty{CUDA, Driver, Arch, Brand}, c.Property) {
		return c, false, nil
	}
	c.Value = strings.TrimLeft(text[end:], operatorRunes)
	c.Operator = ComparisonOperator(strings.TrimSuffix(text[end:], c.Value))
	if err := c.validate(); err != nil {
		return c, false, fmt.Errorf("condition %q: %w", text, err)
	}
	return c, true, nil
}

func (c HostCondition) validate() error {
	operators := []ComparisonOperator{Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual}
	if c.Property == Brand { // brands have no order
		operators = operators[:2]
	}
	if !slices.Contains(operators, c.Operator) {
		return fmt.Errorf("%s is compared by one of %s, not by %s", c.Property, joinTexts(operators, " "), c.Operator)
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

func (c HostCondition) String() string { return string(c.Property) + string(c.Operator) + c.Value }

func (as RequirementAlternatives) String() string {
	terms := make([]string, len(as))
	for i, a := range as {
		terms[i] = joinTexts(a, ",")
	}
	return strings.Join(terms, " ")
}

func joinTexts[T any](list []T, separator string) string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = fmt.Sprint(item)
	}
	return strings.Join(texts, separator)
}

// disableAdvice ends the error about a requirement that cannot be read.
const disableAdvice = "; " + envDisableRequire + "=true in the job's environment starts the image without its requirements"

// listRequirements returns the requirements of an image. The label is used
// only without NVIDIA_REQUIRE_CUDA, which is more precise: an image with
// NVIDIA's compatibility libraries runs on drivers older than its CUDA
// version.
func listRequirements(labels map[string]string, vars imageVariables) ([]Requirement, error) {
	if off, err := strconv.ParseBool(vars[envDisableRequire]); err == nil && off {
		return nil, nil
	}
	var list []Requirement
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !strings.HasPrefix(name, envRequirePrefix) || strings.HasPrefix(name, envRequireJetpack) {
			continue
		}
		alternatives, err := ParseAlternatives(vars[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w%s", name, err, disableAdvice)
		}
		if len(alternatives) > 0 {
			list = append(list, Requirement{Source: name, Alternatives: alternatives})
		}
	}
	if vars[envRequireCUDA] != "" {
		return list, nil
	}
	for _, own := range [...]struct{ from, version string }{{envCUDAVersion, vars[envCUDAVersion]}, {cudaLabel, labels[cudaLabel]}} {
		if own.version == "" {
			continue
		}
		v, err := majorMinor(own.version)
		if err != nil {
			return nil, fmt.Errorf("%s: %w%s", own.from, err, disableAdvice)
		}
		list = append(list, Requirement{Source: own.from, Alternatives: RequirementAlternatives{{{CUDA, GreaterEqual, v}}}})
	}
	return list, nil
}
