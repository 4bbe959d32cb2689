package job

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"mesos-gpu/gpu"
)

// Bounds of the regular expressions of constraints. The scheduler matches them with fields of all agents, so their
// size bounds the time that a placement cycle needs for one job.
const (
	// maxConstraintBytes bounds the field and the value of a constraint.
	maxConstraintBytes = 1 << 10
	// MaxPatternSteps bounds the sum of the steps of a job's expressions: see Pattern.
	MaxPatternSteps = 1000
)

// Pattern is the expression of a LIKE or UNLIKE constraint.
type Pattern struct {
	*regexp.Regexp
	// Steps is the approximate number of instructions of the compiled expression. It is 0 for plain text.
	Steps int
}

// CompilePattern compiles the expression of LIKE and UNLIKE. It has RE2's syntax and is anchored at both ends. It fails
// before it compiles an expression that exceeds the bounds.
func (c Constraint) CompilePattern() (Pattern, error) {
	if err := c.checkLength(); err != nil {
		return Pattern{}, err
	}
	tree, err := syntax.Parse(c.Value, syntax.Perl)
	if err != nil {
		return Pattern{}, fmt.Errorf("constraint %q: %w", c, err)
	}
	steps := countSteps(tree)
	if steps > MaxPatternSteps {
		return Pattern{}, fmt.Errorf("constraint %q: its expression has %d steps with all repetitions, more than %d: write a simpler one",
			c.brief(), steps, MaxPatternSteps)
	}
	re, err := regexp.Compile("^(?:" + c.Value + ")$")
	if err != nil {
		return Pattern{}, fmt.Errorf("constraint %q: %w", c, err)
	}
	return Pattern{re, steps}, nil
}

// checkLength returns an error if the field or the value is too long.
func (c Constraint) checkLength() error {
	for _, part := range [][2]string{{"field", c.Field}, {"value", c.Value}} {
		if n := len(part[1]); n > maxConstraintBytes {
			return fmt.Errorf("constraint %q: its %s has %d bytes, more than %d: write a shorter one", c.brief(), part[0], n, maxConstraintBytes)
		}
	}
	return nil
}

// brief returns the constraint with its texts shortened, for messages about long ones.
func (c Constraint) brief() string {
	const most = 40
	for _, text := range []*string{&c.Field, &c.Value} {
		if len(*text) > most {
			*text = (*text)[:most] + "..."
		}
	}
	return c.String()
}

// CheckPatternSteps returns an error if expressions with these steps are together too large for one job.
func CheckPatternSteps(steps int) error {
	if steps > MaxPatternSteps {
		return fmt.Errorf("the expressions of LIKE and UNLIKE have %d steps together, more than %d: write simpler ones", steps, MaxPatternSteps)
	}
	return nil
}

// countSteps returns how many instructions the expression compiles to, approximately. Plain text as a whole has none.
func countSteps(tree *syntax.Regexp) int {
	if tree.Op == syntax.OpEmptyMatch || tree.Op == syntax.OpLiteral && tree.Flags&syntax.FoldCase == 0 {
		return 0
	}
	return countInstructions(tree)
}

// runesPerStep is how many bounds of character ranges count as one step.
const runesPerStep = 32

// countInstructions is countSteps of an expression that is not plain text as a whole. It visits the parsed expression,
// whose repetitions are not expanded, so that it is cheap for every input.
func countInstructions(tree *syntax.Regexp) int {
	n := 1
	switch tree.Op {
	case syntax.OpLiteral:
		return len(tree.Rune)
	case syntax.OpCharClass:
		return 1 + len(tree.Rune)/runesPerStep
	case syntax.OpRepeat:
		// x{2,5} compiles to xx(x(x(x)?)?)?, and x{2,} to xxx*.
		copies := max(tree.Min, tree.Max, 1)
		return copies * (countInstructions(tree.Sub[0]) + 1)
	case syntax.OpCapture:
		n = 2
	case syntax.OpConcat, syntax.OpAlternate:
		n = len(tree.Sub) - 1
	}
	for _, sub := range tree.Sub {
		n += countInstructions(sub)
	}
	return n
}

// GPUTypeField is the agents' attribute with the types of their GPUs.
const GPUTypeField = "gpu_type"

// SelectsGPUTypes reports whether the constraint, in a job with GPUs, restricts the GPUs of a task rather than its
// agent: an agent may have GPUs of several types.
func (c Constraint) SelectsGPUTypes() bool { return c.Field == GPUTypeField && !c.DependsOnPeers() }

// GPUTypeRules returns what the constraints of a job with GPUs require of the types of its GPUs. A constraint that
// Validate rejects, as a job of an earlier release may have, accepts no type.
func (s *Spec) GPUTypeRules() []gpu.TypeRule {
	if s.Request.GPUs == 0 {
		return nil
	}
	var rules []gpu.TypeRule
	for _, c := range s.Constraints {
		if !c.SelectsGPUTypes() {
			continue
		}
		rule := gpu.TypeRule{Text: c.String(), Negated: c.Operator == Unlike}
		switch c.Operator {
		case Like, Unlike:
			pattern, err := c.CompilePattern()
			if err != nil {
				rule = gpu.TypeRule{Text: err.Error()}
			}
			rule.Pattern = pattern.Regexp
		default:
			rule.Type = c.Value
		}
		rules = append(rules, rule)
	}
	return rules
}
