package marathon

import (
	"fmt"
	"strings"
)

// findJavaSyntax returns the first construct that has a meaning in Java's expressions but
// not, or another one, in RE2. It ignores constructs that neither accepts. RE2 would read
// Java's nested character classes and && as plain characters and match the wrong agents.
func findJavaSyntax(expr string) string {
	for i := 0; i < len(expr); {
		rest := expr[i:]
		switch {
		case strings.HasPrefix(rest, `\Q`):
			end := strings.Index(rest, `\E`)
			if end < 0 {
				return ""
			}
			i += end + 2
			continue
		case rest[0] == '\\':
			if what := checkEscape(rest); what != "" {
				return unsupportedReason(what, firstBytes(rest, 3))
			}
			i += 2
			continue
		case rest[0] == '[':
			length, what := scanClass(rest)
			if what != "" {
				return unsupportedReason(what, rest[:length])
			}
			i += length
			continue
		}
		for _, f := range javaConstructs() {
			if strings.HasPrefix(rest, f.text) {
				return unsupportedReason(f.what, f.text)
			}
		}
		i++
	}
	return ""
}

func unsupportedReason(what, text string) string {
	return fmt.Sprintf("the expression has %s, %s, which only Java understands: attributes are matched by RE2", what, text)
}

func firstBytes(s string, n int) string { return s[:min(n, len(s))] }

type javaConstruct struct{ text, what string }

// javaConstructs are recognised by how they begin.
func javaConstructs() []javaConstruct {
	return []javaConstruct{
		{"(?=", "a lookahead"}, {"(?!", "a lookahead"}, {"(?<=", "a lookbehind"}, {"(?<!", "a lookbehind"}, {"(?>", "an atomic group"},
		{"*+", "a possessive quantifier"}, {"++", "a possessive quantifier"}, {"?+", "a possessive quantifier"}, {"}+", "a possessive quantifier"},
		{"(?U", "a flag"},
	}
}

// checkEscape returns what is wrong with an escape outside a character class, or "".
func checkEscape(s string) string {
	if len(s) < 2 {
		return ""
	}
	switch c := s[1]; {
	case c >= '1' && c <= '9' || c == 'k':
		return "a backreference"
	case c == 'G' || c == 'Z' || c == 'R' || c == 'X' || c == 'h' || c == 'H' || c == 'V' || c == 'v' || c == 'N':
		return "an escape"
	case c == '0' || c == 'u' || c == 'c' || c == 'e':
		return "a character by its number"
	case c == 'p' || c == 'P':
		return checkProperty(s[2:])
	}
	return ""
}

// checkProperty checks \p{…}. RE2 does not have Java's POSIX and java… names.
func checkProperty(s string) string {
	name, ok := strings.CutPrefix(s, "{")
	if !ok {
		return ""
	}
	name, _, _ = strings.Cut(name, "}")
	if strings.HasPrefix(name, "java") || strings.HasPrefix(name, "Is") || strings.HasPrefix(name, "In") ||
		strings.Contains(name, "=") || len(name) > 2 && isPosixClass(name) {
		return "a character property"
	}
	return ""
}

func isPosixClass(name string) bool {
	switch name {
	case "Lower", "Upper", "ASCII", "Alpha", "Digit", "Alnum", "Punct", "Graph", "Print", "Blank", "Cntrl", "XDigit", "Space":
		return true
	}
	return false
}

// scanClass reads one character class. It returns its length, or the length up to a
// construct that RE2 does not have, and that construct.
func scanClass(s string) (length int, what string) {
	i := 1
	if i < len(s) && s[i] == '^' {
		i++
	}
	for first := true; i < len(s); first = false {
		switch {
		case s[i] == ']' && !first:
			return i + 1, ""
		case s[i] == '[':
			return i + 1, "a class within a class"
		case strings.HasPrefix(s[i:], "&&"):
			return i + 2, "an intersection of classes"
		case s[i] == '\\':
			if what := checkEscape(s[i:]); what != "" {
				return min(i+2, len(s)), what
			}
			i++
		}
		i++
	}
	return len(s), ""
}
