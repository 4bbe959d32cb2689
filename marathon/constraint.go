package marathon

import (
	"regexp"
	"strings"

	"mesos-gpu/job"
)

// literalValue matches values that IS can compare: Mesos's texts and numbers.
var literalValue = regexp.MustCompile(`^[a-zA-Z0-9_/.-]*$`)

// checkConstraint returns what is wrong with a constraint, or "".
func checkConstraint(words []string) string {
	if len(words) < 2 || len(words) > 3 {
		return "a constraint is [field, operator] or [field, operator, value]"
	}
	operator := job.ConstraintOperator(strings.ToUpper(words[1]))
	if len(words) == 3 {
		switch operator {
		case job.Like, job.Unlike:
			if reason := findJavaSyntax(words[2]); reason != "" {
				return reason
			}
		case job.Is:
			if !literalValue.MatchString(words[2]) {
				return "IS compares with letters, digits and _ / . - alone"
			}
		case job.Unique:
			return "UNIQUE takes no value"
		}
	}
	if _, err := job.NewConstraint(words...); err != nil {
		return err.Error()
	}
	return ""
}
