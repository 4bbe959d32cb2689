package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// qualified finds `folder/package.Name` and `package.Type.Method`.
var qualified = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.([A-Za-z]+(?:\\.[A-Za-z]+)?)`")

// TestDocumentedIdentifiersExist checks that each function and type that a document
// names exists.
func TestDocumentedIdentifiersExist(t *testing.T) {
	found, files := 0, documents(t)
	for file, text := range files {
		for _, m := range qualified.FindAllStringSubmatch(text, -1) {
			dir := filepath.Join("..", "..", m[1])
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				continue // a file, or an image's label
			}
			found++
			if !declared(t, dir)[m[2]] {
				t.Errorf("%s names %s.%s, which does not exist", filepath.Base(file), m[1], m[2])
			}
		}
	}
	if found < 20 {
		t.Errorf("found only %d names in %d documents: the pattern is broken", found, len(files))
	}
}

// fileName finds names and patterns of Go files, with or without their folders.
var fileName = regexp.MustCompile(`[a-z0-9_*/]+\.go\b`)

// TestDocumentedFilesExist checks that each Go file that the guide to the code names exists in
// some folder.
func TestDocumentedFilesExist(t *testing.T) {
	files := parseFiles(t, func(path string) bool { return strings.HasSuffix(path, ".go") })
	for file, text := range documents(t) {
		if filepath.Base(file) != "reading-the-code.md" {
			continue
		}
		names := fileName.FindAllString(text, -1)
		if len(names) < 20 {
			t.Errorf("found only %d files in %s: the pattern is broken", len(names), file)
		}
		for _, name := range names {
			if !slices.ContainsFunc(files, func(f source) bool {
				parts := strings.Split(filepath.ToSlash(f.name), "/")
				depth := min(strings.Count(name, "/")+1, len(parts))
				ok, err := path.Match(name, strings.Join(parts[len(parts)-depth:], "/"))
				return ok && err == nil
			}) {
				t.Errorf("%s names %s, which does not exist", filepath.Base(file), name)
			}
		}
	}
}

// named finds `TestName`, `BenchmarkName` and `FuzzName`.
var named = regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Za-z0-9_]+)`")

// TestDocumentedTestsExist checks that each test, benchmark and fuzz target that a
// document cites exists, and that the evidence page alone cites them in docs.
func TestDocumentedTestsExist(t *testing.T) {
	there := map[string]bool{}
	for _, f := range parseFiles(t, func(path string) bool { return strings.HasSuffix(path, "_test.go") }) {
		for _, m := range testFunction.FindAllStringSubmatch(f.text, -1) {
			there[m[1]] = true
		}
	}
	found, files := 0, documents(t)
	for file, text := range files {
		inDocs := strings.Contains(filepath.ToSlash(file), "/docs/") && filepath.Base(file) != "evidence.md"
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			found++
			if inDocs {
				t.Errorf("%s names %s, which belongs in docs/internals/evidence.md", file, m[1])
			}
			if !there[m[1]] {
				t.Errorf("%s names %s, which does not exist", filepath.Base(file), m[1])
			}
		}
	}
	if found < 60 {
		t.Errorf("found only %d tests in %d documents: the pattern is broken", found, len(files))
	}
}

// codeBlock finds a code block: its info string and its text.
var codeBlock = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```")

// TestGuideCommandsAreMarked checks that each command of the tutorial and the guides either is
// run by the end-to-end tests, which run the lines that begin with "$ ", or gives the reason why
// it cannot run.
func TestGuideCommandsAreMarked(t *testing.T) {
	run, marked := 0, 0
	for file, text := range documents(t) {
		if folder := filepath.Base(filepath.Dir(file)); folder != "guides" && folder != "tutorial" {
			continue
		}
		for _, m := range codeBlock.FindAllStringSubmatch(text, -1) {
			info, reason, noRun := strings.Cut(m[1], "no-run")
			switch {
			case noRun && (info != "console " || len(reason) < len(": a reason") || !strings.HasPrefix(reason, ": ")):
				t.Errorf("%s: a block is marked %q, want console no-run: REASON", file, m[1])
			case noRun:
				marked++
			case strings.HasPrefix(m[2], "$ "):
				run++
			case strings.Contains("\n"+m[2], "\nmesos-gpu ") || strings.Contains("\n"+m[2], "\nbin/mesos-gpu ") || strings.Contains(m[2], "\n$ "):
				t.Errorf("%s: a block has commands and does not begin with $:\n%s", file, m[2])
			}
		}
	}
	if run < 15 || marked < 5 {
		t.Errorf("found %d blocks that run and %d that do not: the pattern is broken", run, marked)
	}
}

// testFunction finds the declaration of a test, a benchmark or a fuzz target.
var testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)[A-Za-z0-9_]+)\(`)

// declared lists a package's functions, types and methods.
func declared(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			declare(names, d)
		}
	}
	return names
}

func declare(names map[string]bool, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		names[name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if ts, ok := s.(*ast.TypeSpec); ok {
				names[ts.Name.Name] = true
			}
		}
	}
}

func receiver(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
