package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Constraint restricts the agents of a job's tasks, in Marathon's terms
// (https://mesosphere.github.io/marathon/docs/constraints.html).
type Constraint struct {
	// Field is "@hostname" (or "hostname"), "@region", "@zone", "@driver" (the
	// version of the GPU driver), "@gpus" (how many GPUs are free on the agent),
	// ReservationField, or the name of an agent attribute.
	Field string `json:"field"`
	// Operator compares the value of the field with Value, or with those of the job's other tasks.
	Operator ConstraintOperator `json:"operator"`
	// Value is the operator's operand: a regular expression for LIKE and UNLIKE,
	// a number for MAX_PER and GROUP_BY, a value for IS. It is optional for
	// CLUSTER and GROUP_BY.
	Value string `json:"value,omitempty"`
}

// ReservationField compares the reservations of the resources that an agent offers:
// all Unreserved, all Reserved for the role, or SomeReserved.
const (
	ReservationField = "@reservation"
	Unreserved       = "unreserved"
	Reserved         = "reserved"
	SomeReserved     = "both"
)

// ConstraintOperator is one of Marathon's constraint operators.
type ConstraintOperator string

const (
	// Unique allows one task of the job on each value.
	Unique ConstraintOperator = "UNIQUE"
	// Cluster places all tasks on one value: the given one, or the first task's.
	Cluster ConstraintOperator = "CLUSTER"
	// GroupBy spreads the tasks evenly over the values, and over at least as
	// many values as the given number.
	GroupBy ConstraintOperator = "GROUP_BY"
	// MaxPer allows at most the given number of tasks of the job on each value.
	MaxPer ConstraintOperator = "MAX_PER"
	// Is requires exactly the given value.
	Is ConstraintOperator = "IS"
	// Like and Unlike require that the whole value matches the expression, or
	// that it does not. An agent without the field satisfies only Unlike.
	Like   ConstraintOperator = "LIKE"
	Unlike ConstraintOperator = "UNLIKE"
)

// ConstraintOperators lists all operators.
func ConstraintOperators() []ConstraintOperator {
	return []ConstraintOperator{Unique, Cluster, GroupBy, MaxPer, Is, Like, Unlike}
}

func (c Constraint) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Field, c.Operator, c.Value))
}

// Validate returns an error that describes the correct form of the constraint.
func (c Constraint) Validate() error {
	if c.Field == "" {
		return fmt.Errorf("constraint %q names no field: write hostname, @region, @zone or an agent attribute", c.brief())
	}
	if err := c.checkLength(); err != nil {
		return err
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

// checkNumber returns an error unless the value is a number of tasks, if one is needed.
func (c Constraint) checkNumber(needed bool) error {
	if !needed {
		return nil
	}
	if n, err := strconv.Atoi(c.Value); err != nil || n < 1 || n > MaxTasks {
		return fmt.Errorf("constraint %q: %s needs a whole number from 1 to %d", c, c.Operator, MaxTasks)
	}
	return nil
}

// NumberValue returns the operand of MAX_PER and GROUP_BY, or 0 without one.
func (c Constraint) NumberValue() int {
	n, _ := strconv.Atoi(c.Value) // Validate has checked it
	return n
}

// ParseConstraint parses "FIELD OPERATOR [VALUE]", with the operator in any case.
func ParseConstraint(text string) (Constraint, error) {
	words := strings.SplitN(strings.TrimSpace(text), " ", 3)
	return NewConstraint(words...)
}

// NewConstraint returns the constraint of two or three words, if it is valid.
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

// DependsOnPeers reports whether an agent satisfies the constraint depending on where
// the job's other tasks are.
func (c Constraint) DependsOnPeers() bool {
	return slices.Contains([]ConstraintOperator{Unique, GroupBy, MaxPer}, c.Operator) || c.Operator == Cluster && c.Value == ""
}
