package job

import (
	"regexp/syntax"
	"strings"
	"testing"
)

func TestParseConstraint(t *testing.T) {
	for text, want := range map[string]Constraint{
		"hostname UNIQUE":          {"hostname", Unique, ""},
		"rack group_by 2":          {"rack", GroupBy, "2"},
		"@zone GROUP_BY":           {"@zone", GroupBy, ""},
		"gpu_type LIKE (V|A)100.*": {"gpu_type", Like, "(V|A)100.*"},
		"note IS two words":        {"note", Is, "two words"},
		"rack Cluster":             {"rack", Cluster, ""},
	} {
		if got, err := ParseConstraint(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"hostname":            "write FIELD OPERATOR",
		"hostname ALONE":      "the operators are",
		"hostname UNIQUE x":   "takes no value",
		"rack MAX_PER":        "whole number",
		"rack MAX_PER 0":      "whole number",
		"rack GROUP_BY many":  "whole number",
		"rack LIKE":           "needs a regular expression",
		"rack LIKE (":         "missing closing",
		"rack UNLIKE a(?!b)c": "invalid or unsupported",
		"rack IS":             "needs a value",
	} {
		if _, err := ParseConstraint(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestConstraintPattern checks that the expression matches the whole value.
func TestConstraintPattern(t *testing.T) {
	re, err := Constraint{Field: "x", Operator: Like, Value: "a|bc"}.CompilePattern()
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]bool{"a": true, "bc": true, "abc": false, "bcd": false} {
		if got := re.MatchString(value); got != want {
			t.Errorf("%q: %t, want %t", value, got, want)
		}
	}
}

func TestConstraintDependsOnPeers(t *testing.T) {
	for text, want := range map[string]bool{
		"a UNIQUE": true, "a MAX_PER 2": true, "a GROUP_BY": true, "a CLUSTER": true,
		"a CLUSTER b": false, "a IS b": false, "a LIKE b": false, "a UNLIKE b": false,
	} {
		c, err := ParseConstraint(text)
		if err != nil || c.DependsOnPeers() != want {
			t.Errorf("%s: %t (%v), want %t", text, c.DependsOnPeers(), err, want)
		}
	}
}

// TestPatternsAreBounded checks that an expression which takes long to compile or to match is refused, with both
// numbers, before it is compiled.
func TestPatternsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		value, want string
	}{
		"long":                  {strings.Repeat("a", 1025), "its value has 1025 bytes, more than 1024"},
		"repeated class":        {strings.Repeat("[a-z0-9.]{1000}", 60), "steps with all repetitions, more than 1000"},
		"nested repetition":     {"((a|b){30}){30}", "more than 1000"},
		"optional parts":        {strings.Repeat(".?", 511), "steps with all repetitions, more than 1000"},
		"large character class": {strings.Repeat(`\pL`, 100), "more than 1000"},
	} {
		for _, op := range []ConstraintOperator{Like, Unlike} {
			err := Constraint{Field: "hostname", Operator: op, Value: c.value}.Validate()
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 300 {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
		}
	}
	for _, value := range []string{
		`gpu-(node|host)[0-9]{1,3}\.example\.com`, strings.Repeat("node-17.example.com|", 51) + "x", strings.Repeat("a", 1024), "[a-z]{300}",
	} {
		if err := (Constraint{Field: "hostname", Operator: Like, Value: value}).Validate(); err != nil {
			t.Errorf("%.40q is refused: %v", value, err)
		}
	}
}

// TestStepsCoverTheProgram checks that the estimate, which is computed without compiling, is not below the size of the
// program by more than a few instructions.
func TestStepsCoverTheProgram(t *testing.T) {
	for _, value := range []string{"a|b|c.*", "x{3,7}y{2,}", "(ab){0,20}", "((a?){3,5}b){4}", "(?i)host[0-9]+", `\bx\b`, "a*?b+?", "(|a)*"} {
		tree, err := syntax.Parse(value, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if got, least := countSteps(tree), len(program.Inst)-3; got < least {
			t.Errorf("%s: %d steps, its program has %d instructions", value, got, least)
		}
	}
}

func TestPatternsOfOneJobAreBoundedTogether(t *testing.T) {
	s := Spec{Name: "j", Command: []string{"true"}}
	for range 4 {
		s.Constraints = append(s.Constraints, Constraint{Field: "hostname", Operator: Unlike, Value: "[a-z]{150}"})
	}
	err := s.Complete()
	if err == nil || !strings.Contains(err.Error(), "steps together, more than 1000") {
		t.Errorf("got %v", err)
	}
	s.Constraints = s.Constraints[:3]
	if err := s.Complete(); err != nil {
		t.Errorf("three are refused: %v", err)
	}
}
