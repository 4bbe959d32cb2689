package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	// required finds a module in a go.mod, and whether it is indirect; modulePath finds the
	// path of a module in a document.
	required   = regexp.MustCompile(`(?m)^(?:require )?\t?(\S+) v\d\S+( // indirect)?$`)
	modulePath = regexp.MustCompile("`((?:[a-z0-9-]+\\.)+[a-z]+/[^`\\s]+)`")
)

// TestDependenciesAreExplained checks that CONTRIBUTING.md names each module that the code
// imports, and no other.
func TestDependenciesAreExplained(t *testing.T) {
	root := filepath.Join("..", "..")
	named := map[string]bool{}
	for _, m := range modulePath.FindAllStringSubmatch(documents(t)[filepath.Join(root, "CONTRIBUTING.md")], -1) {
		named[m[1]] = true
	}
	there := map[string]bool{}
	for _, file := range []string{"go.mod", filepath.Join("deploy", "package", "nfpm", "go.mod"), filepath.Join("deploy", "package", "sbom", "go.mod")} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range required.FindAllStringSubmatch(string(text), -1) {
			there[m[1]] = true
			if m[2] == "" && !named[m[1]] {
				t.Errorf("CONTRIBUTING.md does not say what %s of %s is for", m[1], file)
			}
		}
	}
	for name := range named {
		if !there[name] {
			t.Errorf("CONTRIBUTING.md names %s, which nothing requires", name)
		}
	}
	if len(named) < 20 {
		t.Errorf("found only %d modules: the pattern is broken", len(named))
	}
}
