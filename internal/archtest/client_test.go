package archtest

import (
	"bytes"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// clientPackages are the packages that programs outside this module import to use the API.
var clientPackages = []string{module + "/framework/client", module + "/framework/api", module + "/framework/workdir", module + "/job", module + "/job/jobfile", module + "/gpu"}

// TestClientExposesNoInternalTypes checks that programs of other modules can name every
// type that the client's packages export, also in fields, parameters and results.
func TestClientExposesNoInternalTypes(t *testing.T) {
	c := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, clientPackages...)...)
	c.Stderr = t.Output()
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range bytes.Lines(out) {
		path, file, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		exports[path] = file
	}
	load := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	w := typeWalk{seen: map[types.Type]bool{}, found: map[string]string{}}
	for _, path := range clientPackages {
		p, err := load.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range p.Scope().Names() {
			if o := p.Scope().Lookup(name); o.Exported() {
				w.visit(path+"."+name, o.Type())
			}
		}
	}
	for name, via := range w.found {
		t.Errorf("%s uses %s, which other modules cannot import", via, name)
	}
	if len(w.seen) < 100 {
		t.Errorf("visited only %d types", len(w.seen))
	}
}

// clientModules are the trees of other modules that framework/client may import, directly or not.
var clientModules = []string{
	"github.com/coder/websocket", // connections to tasks
	"github.com/hashicorp/yamux", // the ports of a task over one connection
	"github.com/docker/go-units", // sizes in job.Spec
	"github.com/robfig/cron/v3",  // schedules in job.Spec
}

// TestClientDependsOnLittle checks that a program that submits a job compiles little besides the standard library.
func TestClientDependsOnLittle(t *testing.T) {
	c := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+"/framework/client")
	c.Stderr = t.Output()
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	paths := strings.Fields(string(out))
	for _, path := range paths {
		if !within(path, module) && !slices.ContainsFunc(clientModules, func(tree string) bool { return within(path, tree) }) {
			t.Errorf("framework/client depends on %s: programs of others import the client", path)
		}
	}
	if n := len(paths); n < 5 || n > 14 {
		t.Errorf("framework/client depends on %d packages outside the standard library, want at most 14: %s", n, paths)
	}
}

// typeWalk visits the types that a program can reach from exported identifiers.
type typeWalk struct {
	seen  map[types.Type]bool
	found map[string]string // internal types, and the identifier that leads to each
}

func (w *typeWalk) visit(via string, t types.Type) {
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		w.visit(via, types.Unalias(t))
	case *types.Named:
		if p := t.Obj().Pkg(); p != nil && strings.HasPrefix(p.Path(), module+"/") {
			w.visitNamed(via, t)
		}
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				w.visit(via+"."+f.Name(), f.Type())
			}
		}
	case *types.Signature:
		w.visit(via, t.Params())
		w.visit(via, t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			w.visit(via, v.Type())
		}
	case *types.Interface:
		for m := range t.Methods() {
			w.visit(via+"."+m.Name(), m.Type())
		}
	case *types.Map:
		w.visit(via, t.Key())
		w.visit(via, t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays and channels
		w.visit(via, t.Elem())
	}
}

func (w *typeWalk) visitNamed(via string, t *types.Named) {
	if name := t.Obj().Pkg().Path() + "." + t.Obj().Name(); strings.Contains(name, "/internal/") {
		w.found[name] = via
		return
	}
	for arg := range t.TypeArgs().Types() {
		w.visit(via, arg)
	}
	for m := range t.Methods() {
		if m.Exported() {
			w.visit(via+"."+m.Name(), m.Type())
		}
	}
	w.visit(via, t.Underlying())
}
