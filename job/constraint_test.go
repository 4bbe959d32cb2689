package job

import (
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
