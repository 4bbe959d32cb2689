package checklist

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// behaviourCount is the number of behaviours in docs/internals/evidence.md.
const behaviourCount = 47

var (
	testLine = regexp.MustCompile(`(?m)^func (TestMesos(\d\d)_\w+)\(`)
	row      = regexp.MustCompile(`(?m)^\| (\d+) \| .+?( \(not on Apache Mesos\))? \|$`)
)

// TestEveryBehaviourHasTestAndTableRow compares the tests of this folder, for both builds,
// with the table in the documentation.
func TestEveryBehaviourHasTestAndTableRow(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tests, onMesos := map[int]string{}, map[int]bool{}
	for _, file := range files {
		text := readText(t, file)
		for _, m := range testLine.FindAllStringSubmatch(text, -1) {
			n := parseNumber(t, m[2])
			if tests[n] != "" {
				t.Errorf("%s and %s have one number", tests[n], m[1])
			}
			tests[n], onMesos[n] = m[1], !strings.HasPrefix(text, "//go:build !mesos")
		}
	}
	rows := row.FindAllStringSubmatch(readText(t, "../../docs/internals/evidence.md"), -1)
	if len(rows) != behaviourCount || len(tests) != behaviourCount {
		t.Errorf("%d rows and %d tests, want %d", len(rows), len(tests), behaviourCount)
	}
	for i, r := range rows {
		switch n := parseNumber(t, r[1]); {
		case n != i+1:
			t.Errorf("row %d has the number %d", i+1, n)
		case tests[n] == "":
			t.Errorf("row %d has no test", n)
		case onMesos[n] != (r[2] == ""):
			t.Errorf("row %d: %q; the test runs on Apache Mesos: %t", n, r[0], onMesos[n])
		}
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parseNumber(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
