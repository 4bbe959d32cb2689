package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// partialLists are the functions that return some constants of a type on purpose, and why.
var partialLists = map[string]string{
	"job.DefaultNotificationEvents": "these are the events of a rule that names none",
	"internal/outputindex.Streams":  "streamCount is their number",
}

// TestListsOfConstantsAreComplete checks functions such as job.States, which return constants of one type: tests, checks and
// documentation use their results as all values of the type.
func TestListsOfConstantsAreComplete(t *testing.T) {
	packages := map[string][]*ast.File{}
	for _, f := range sources(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), f.name, f.text, 0)
		if err != nil {
			t.Fatal(err)
		}
		packages[f.pkg] = append(packages[f.pkg], parsed)
	}
	lists, excepted := 0, 0
	for pkg, files := range packages {
		constants := map[string]map[string]bool{} // by the name of their type
		for _, f := range files {
			collectConstants(constants, f)
		}
		for _, f := range files {
			for _, d := range f.Decls {
				name, typ, listed := constantList(d)
				if len(listed) == 0 || !containsAll(constants[typ], listed) {
					continue
				}
				lists++
				if partialLists[pkg+"."+name] != "" {
					excepted++
					continue
				}
				for c := range constants[typ] {
					if !listed[c] {
						t.Errorf("%s.%s lacks the constant %s", filepath.ToSlash(pkg), name, c)
					}
				}
			}
		}
	}
	if lists < 6 || excepted != len(partialLists) {
		t.Errorf("found %d lists and %d of %d exceptions", lists, excepted, len(partialLists))
	}
}

// collectConstants adds the constants of a file that have a type, also those that repeat it with iota.
func collectConstants(constants map[string]map[string]bool, f *ast.File) {
	for _, d := range f.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		typ := ""
		for _, spec := range group.Specs {
			v := spec.(*ast.ValueSpec)
			if len(v.Values) > 0 {
				typ = ""
			}
			if name, ok := v.Type.(*ast.Ident); ok {
				typ = name.Name
			}
			for _, name := range v.Names {
				if typ != "" && name.Name != "_" {
					if constants[typ] == nil {
						constants[typ] = map[string]bool{}
					}
					constants[typ][name.Name] = true
				}
			}
		}
	}
}

// constantList returns the names in the list that a function without parameters returns, and the type of its elements. The
// list is empty for other functions.
func constantList(d ast.Decl) (function, typ string, names map[string]bool) {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Body == nil || len(f.Body.List) != 1 || f.Type.Params.NumFields() > 0 {
		return "", "", nil
	}
	result, ok := f.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(result.Results) != 1 {
		return "", "", nil
	}
	list, ok := result.Results[0].(*ast.CompositeLit)
	if !ok {
		return "", "", nil
	}
	slice, ok := list.Type.(*ast.ArrayType)
	if !ok {
		return "", "", nil
	}
	element, ok := slice.Elt.(*ast.Ident)
	if !ok {
		return "", "", nil
	}
	names = map[string]bool{}
	for _, e := range list.Elts {
		name, ok := e.(*ast.Ident)
		if !ok {
			return "", "", nil
		}
		names[name.Name] = true
	}
	return f.Name.Name, element.Name, names
}

// containsAll reports whether all names are in the set.
func containsAll(set, names map[string]bool) bool {
	for name := range names {
		if !set[name] {
			return false
		}
	}
	return true
}
