package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// qualified finds `folder/package.Name` and `package.Type.Method`.
var qualified = regexp.MustCompile("`([a-z][a-z0-9/]*)\\.([A-Za-z]+(?:\\.[A-Za-z]+)?)`")

// The documents name functions and types; each must exist.
func TestDocumentsNameWhatExists(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range qualified.FindAllStringSubmatch(string(text), -1) {
			dir := filepath.Join("..", "..", m[1])
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				continue // a file, or an image's label
			}
			found++
			if !declared(t, dir)[m[2]] {
				t.Errorf("%s names %s.%s, which is not there", filepath.Base(file), m[1], m[2])
			}
		}
	}
	if found < 20 {
		t.Errorf("found only %d names in %d documents: the pattern is broken", found, len(files))
	}
}

// named finds `TestName`.
var named = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")

// The documents name tests as evidence; each must exist.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	there := map[string]bool{}
	for _, f := range files(t, func(path string) bool { return strings.HasSuffix(path, "_test.go") }) {
		for _, m := range testFunction.FindAllStringSubmatch(f.text, -1) {
			there[m[1]] = true
		}
	}
	documents, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range documents {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			if !there[m[1]] {
				t.Errorf("%s names %s, which is not there", filepath.Base(file), m[1])
			}
		}
	}
	if found < 10 {
		t.Errorf("found only %d tests in %d documents: the pattern is broken", found, len(documents))
	}
}

// testFunction finds the declaration of a test.
var testFunction = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)

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
