package job

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Constraint says which agents will do for a job's tasks, in Marathon's terms
// (https://mesosphere.github.io/marathon/docs/constraints.html).
type Constraint struct {
	// Field is "@hostname" (or "hostname"), "@region", "@zone", "@driver" (the
	// GPU driver's version), "@gpus" (how many the agent has free),
	// ReservationField or the name of an agent attribute.
	Field    string             `json:"field"`
	Operator ConstraintOperator `json:"operator"`
	// Value is what the operator needs: a regular expression for LIKE and
	// UNLIKE, a number for MAX_PER and GROUP_BY, a value for IS; CLUSTER and
	// GROUP_BY may go without.
	Value string `json:"value,omitempty"`
}

// ReservationField is what the agent's offers hold: Unreserved or Reserved
// resources alone, or SomeReserved, which is both.
const (
	ReservationField = "@reservation"
	Unreserved       = "unreserved"
	Reserved         = "reserved"
	SomeReserved     = "both"
)

// ConstraintOperator is one of Marathon's constraint operators.
type ConstraintOperator string

const (
	// Unique: no two tasks of the job on one value.
	Unique ConstraintOperator = "UNIQUE"
	// Cluster: all tasks on one value, the given one or the first task's.
	Cluster ConstraintOperator = "CLUSTER"
	// GroupBy: tasks spread evenly over the values, over at least the given
	// number of them.
	GroupBy ConstraintOperator = "GROUP_BY"
	// MaxPer: at most so many tasks of the job on one value.
	MaxPer ConstraintOperator = "MAX_PER"
	// Is: the value exactly.
	Is ConstraintOperator = "IS"
	// Like and Unlike: the whole value matches the expression, or does not.
	// An agent without the field satisfies Unlike alone.
	Like   ConstraintOperator = "LIKE"
	Unlike ConstraintOperator = "UNLIKE"
)

// ConstraintOperators lists them all.
func ConstraintOperators() []ConstraintOperator {
	return []ConstraintOperator{Unique, Cluster, GroupBy, MaxPer, Is, Like, Unlike}
}

func (c Constraint) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Field, c.Operator, c.Value))
}

// Validate says what is wrong with the constraint.
func (c Constraint) Validate() error {
	if c.Field == "" {
		return fmt.Errorf("constraint %q names no field: write hostname, @region, @zone or an agent attribute", c)
	}
	switch c.Operator {
	case Unique:
		if c.Value != "" {
			return fmt.Errorf("constraint %q: UNIQUE takes no value", c)
		}
	case MaxPer:
		return c.checkNumber(true)
	case GroupBy:
		return c.checkNumber(c.Value != "")
	case Is:
		if c.Value == "" {
			return fmt.Errorf("constraint %q: IS needs a value", c)
		}
	case Like, Unlike:
		if c.Value == "" {
			return fmt.Errorf("constraint %q: %s needs a regular expression", c, c.Operator)
		}
		if _, err := c.CompilePattern(); err != nil {
			return err
		}
	case Cluster:
	default:
		return fmt.Errorf("constraint %q: the operators are %v", c, ConstraintOperators())
	}
	return nil
}

func (c Constraint) checkNumber(needed bool) error {
	if !needed {
		return nil
	}
	if n, err := strconv.Atoi(c.Value); err != nil || n < 1 || n > MaxTasks {
		return fmt.Errorf("constraint %q: %s needs a whole number from 1 to %d", c, c.Operator, MaxTasks)
	}
	return nil
}

// NumberValue is the number that MAX_PER and GROUP_BY carry; 0 where there is none.
func (c Constraint) NumberValue() int {
	n, _ := strconv.Atoi(c.Value) // Validate looked at it
	return n
}

// CompilePattern is the expression of LIKE and UNLIKE, in RE2's syntax, anchored at
// both ends.
func (c Constraint) CompilePattern() (*regexp.Regexp, error) {
	re, err := regexp.Compile("^(?:" + c.Value + ")$")
	if err != nil {
		return nil, fmt.Errorf("constraint %q: %w", c, err)
	}
	return re, nil
}

// ParseConstraint reads "FIELD OPERATOR [VALUE]", the operator in any case.
func ParseConstraint(text string) (Constraint, error) {
	words := strings.SplitN(strings.TrimSpace(text), " ", 3)
	return NewConstraint(words...)
}

// NewConstraint makes a constraint of two or three words.
func NewConstraint(words ...string) (Constraint, error) {
	if len(words) < 2 || len(words) > 3 {
		return Constraint{}, fmt.Errorf("constraint %q: write FIELD OPERATOR [VALUE], for example: hostname UNIQUE", strings.Join(words, " "))
	}
	c := Constraint{Field: words[0], Operator: ConstraintOperator(strings.ToUpper(words[1]))}
	if len(words) == 3 {
		c.Value = strings.TrimSpace(words[2])
	}
	return c, c.Validate()
}

// DependsOnPeers reports whether what satisfies the constraint depends on where the
// job's other tasks are.
func (c Constraint) DependsOnPeers() bool {
	return slices.Contains([]ConstraintOperator{Unique, GroupBy, MaxPer}, c.Operator) || c.Operator == Cluster && c.Value == ""
}
