package marathon

import (
	"strings"
	"testing"
)

// For each construct of Java's expressions: those that RE2 has are accepted, the others are named.
func TestFindJavaSyntax(t *testing.T) {
	for _, expr := range []string{
		"V100|A100", `r[12]\.dc\d+`, "(?:a|b)+?", "(?i)gpu.*", "(?<name>a)", `\Qa+b(?=\E`, `\Q*+`, "[^a-z]", `[\]\[]`, "[]a]",
		`\p{L}\pN\p{Lu}`, `a{2,3}`, `\\1`, "a&&b", `[a&b]`, "", `\`, "[", `(`,
	} {
		if got := findJavaSyntax(expr); got != "" {
			t.Errorf("%s: %s", expr, got)
		}
	}
	for expr, want := range map[string]string{
		"a(?=b)": "lookahead", "(?!a)b": "lookahead", "(?<=a)b": "lookbehind", "(?<!a)b": "lookbehind", "(?>a)": "atomic",
		"a*+": "possessive", "a++b": "possessive", "a?+": "possessive", "a{2}+": "possessive",
		`(a)\1`: "backreference", `(?<n>a)\k<n>`: "backreference", "[a-c[x-z]]": "class within", "[a-z&&[^b]]": "intersection", `[\p{Alpha}]`: "property",
		`\p{Lower}`: "property", `\p{javaUpperCase}`: "property", `\p{IsAlphabetic}`: "property", `\P{InGreek}`: "property", `\p{sc=Latin}`: "property",
		`a\Z`: "escape", `\Ga`: "escape", `\R`: "escape", `\h+`: "escape", `\u0041`: "number", `\cA`: "number", "(?U)a": "flag",
	} {
		if got := findJavaSyntax(expr); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
}

// Constructs that only Java has are rejected before RE2 compiles the expression: RE2 would read these two as plain
// letters.
func TestConstraintsWithJavaSyntaxAreRejected(t *testing.T) {
	for _, expr := range []string{"[a-z&&[^b]]", "[a[bc]]"} {
		if got := checkConstraint([]string{"rack", "like", expr}); !strings.Contains(got, "only Java") {
			t.Errorf("%s: got %q", expr, got)
		}
	}
}
