// Command mutate checks whether the tests of a package detect faults in it. It changes one
// thing at a time: it negates a condition, replaces < by <=, + by - or && by ||, drops a
// statement, or returns zero values. A fault that fails no test of the package survives:
// no test states the behaviour of that line, or the line has no effect.
//
// All faults of a package are compiled once, into one test program in which an environment
// variable selects one. Sources are replaced by go test -overlay: no file of the module is
// written. As root, the file system is read-only for the tests, except a temporary folder.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// helpersSource declares the functions that mutated code calls.
//
//go:embed helpers.go.txt
var helpersSource string

func main() {
	count := flag.Int("n", 40, "mutations to try in each package, 0 for all")
	seed := flag.Uint64("seed", 1, "selects the mutations")
	name := flag.String("file", "", "try mutations only in files with this in their names")
	flag.Parse()
	if err := checkPackages(os.Stdout, *count, *seed, *name, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// checkPackages prints for each package how many of count mutations its tests detect, and
// those that they do not detect.
func checkPackages(out io.Writer, count int, seed uint64, name string, patterns []string) error {
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	packages, load, err := listPackages(patterns)
	if err != nil {
		return err
	}
	for _, p := range packages {
		all, err := p.findMutations(load)
		if err != nil {
			return err
		}
		if name != "" {
			all = slices.DeleteFunc(all, func(m mutation) bool { return !strings.Contains(filepath.Base(m.at.Filename), name) })
		}
		chosen := sample(all, count, seed)
		if len(chosen) == 0 {
			continue
		}
		dir, err := os.MkdirTemp(work, p.Name)
		if err != nil {
			return err
		}
		for _, folder := range []string{work, dir} { // tests that act as other users use temporary files below
			if err := os.Chmod(folder, 0o755); err != nil {
				return err
			}
		}
		t, err := p.buildTests(dir, chosen)
		if err != nil {
			return err
		}
		survivors, err := t.findSurvivors(chosen)
		if err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		killed := len(chosen) - len(survivors)
		fmt.Fprintf(out, "%s: %d of %d killed (%.0f %%), of %d possible mutations; the tests take %.1f s\n",
			p.ImportPath, killed, len(chosen), 100*float64(killed)/float64(len(chosen)), len(all), t.full.Seconds())
		for _, s := range survivors {
			fmt.Fprintln(out, "  "+s)
		}
	}
	return nil
}

// sample returns count mutations in their order, or all if count is 0.
func sample(all []mutation, count int, seed uint64) []mutation {
	if count == 0 || count >= len(all) {
		return all
	}
	order := rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:count]
	slices.Sort(order)
	var chosen []mutation
	for _, i := range order {
		chosen = append(chosen, all[i])
	}
	return chosen
}

// goPackage contains the output of go list for a package.
type goPackage struct {
	ImportPath, Dir, Name, Export string
	GoFiles                       []string
	DepOnly                       bool

	texts map[string][]byte // of GoFiles, by path
}

// listPackages returns the packages of the patterns, and an importer of what they import.
func listPackages(patterns []string) ([]goPackage, types.Importer, error) {
	list := exec.Command("go", append([]string{"list", "-deps", "-export", "-json=ImportPath,Dir,Name,Export,GoFiles,DepOnly"}, patterns...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", err)
	}
	var packages []goPackage
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, err
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			packages = append(packages, p)
		}
	}
	load := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return packages, load, nil
}

// findMutations lists the mutations of all files of the package.
func (p *goPackage) findMutations(load types.Importer) ([]mutation, error) {
	fset := token.NewFileSet()
	p.texts = map[string][]byte{}
	var files []*ast.File
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(fset, path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.texts[path] = text
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	pkg, err := (&types.Config{Importer: load}).Check(p.ImportPath, fset, files, info)
	if err != nil {
		return nil, err
	}
	var all []mutation
	for _, syntax := range files {
		file := fset.File(syntax.FileStart)
		all = append(all, findMutations(file, syntax, p.texts[file.Name()], info, pkg)...)
	}
	return all, nil
}

// testProgram is the compiled tests of a package with its mutations.
type testProgram struct {
	file, temporary, source string // the program, its folder for temporary files, the package's folder
	flags                   []string
	short, full             time.Duration // without a mutation; short is 0 if a short run takes nearly as long
}

// buildTests compiles the tests with all mutations, which have the numbers from 1 on.
func (p *goPackage) buildTests(dir string, chosen []mutation) (*testProgram, error) {
	replace := map[string]string{}
	write := func(path string, text []byte) error {
		file := filepath.Join(dir, filepath.Base(path))
		replace[path] = file
		return os.WriteFile(file, text, 0o644)
	}
	for path, text := range p.texts {
		var mutations []mutation
		var numbers []int
		for i, m := range chosen {
			if m.at.Filename == path {
				mutations, numbers = append(mutations, m), append(numbers, i+1)
			}
		}
		if err := write(path, applyMutations(text, mutations, numbers)); err != nil {
			return nil, err
		}
	}
	if err := write(filepath.Join(p.Dir, "zz_mutant.go"), []byte(strings.Replace(helpersSource, "PACKAGE", p.Name, 1))); err != nil {
		return nil, err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o644); err != nil {
		return nil, err
	}
	t := &testProgram{file: filepath.Join(dir, "tests"), temporary: filepath.Join(dir, "tmp"), source: p.Dir, flags: []string{"-test.failfast"}}
	build := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlayFile, "-o", t.file, p.ImportPath)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the tests of %s: %w\n%s", p.ImportPath, err, out)
	}
	if _, err := os.Stat(t.file); err != nil {
		return nil, fmt.Errorf("%s has no tests", p.ImportPath)
	}
	return t, os.Mkdir(t.temporary, 0o755)
}

// findSurvivors runs the tests once for each mutation, and describes those without a
// failed test.
func (t *testProgram) findSurvivors(chosen []mutation) ([]string, error) {
	reached, err := t.measure()
	if err != nil {
		return nil, err
	}
	var survivors []string
	for i, m := range chosen {
		why := ""
		if !reached[i+1] {
			why = " (no test reaches it)"
		} else if passes, err := t.passesWith(i + 1); err != nil {
			return nil, err
		} else if !passes {
			continue
		}
		survivors = append(survivors, fmt.Sprintf("%s:%d: %s%s", filepath.Base(m.at.Filename), m.at.Line, m.change, why))
	}
	return survivors, nil
}

// measure runs the tests without a mutation. It returns the numbers of the mutations that
// the tests reach.
func (t *testProgram) measure() (map[int]bool, error) {
	usage, _ := exec.Command(t.file, "-help").CombinedOutput()
	if bytes.Contains(usage, []byte("-rapid.")) { // equal cases in each run; do not minimize or store failed ones
		t.flags = append(t.flags, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=0s")
	}
	record := filepath.Join(t.temporary, "reached")
	if err := os.WriteFile(record, nil, 0o644); err != nil {
		return nil, err
	}
	begin := time.Now()
	if out, err := t.run(time.Hour, 0, "MUTANT_REACHED="+record); err != nil {
		return nil, fmt.Errorf("the tests fail without a mutation: %w\n%s", err, out)
	}
	t.full = time.Since(begin)
	begin = time.Now()
	if _, err := t.run(time.Hour, 0, "", "-test.short"); err == nil && 2*time.Since(begin) < t.full {
		t.short = time.Since(begin)
	}
	text, err := os.ReadFile(record)
	if err != nil {
		return nil, err
	}
	reached := map[int]bool{}
	for line := range strings.FieldsSeq(string(text)) {
		n, err := strconv.Atoi(line)
		if err != nil {
			return nil, err
		}
		reached[n] = true
	}
	return reached, nil
}

// passesWith reports whether all tests pass with the mutation of that number. Tests that
// take ten times the usual time and two seconds fail.
func (t *testProgram) passesWith(number int) (bool, error) {
	if t.short != 0 {
		if _, err := t.run(2*time.Second+10*t.short, number, "", "-test.short"); err != nil {
			return false, ignoreExit(err)
		}
	}
	_, err := t.run(2*time.Second+10*t.full, number, "")
	return err == nil, ignoreExit(err)
}

// ignoreExit returns nil for the end of a program that started.
func ignoreExit(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// protect makes the root file system and the file system of the current folder read-only
// for a program, except its temporary folder.
const protect = `mount --bind "$0" "$0" && mount --bind "$PWD" "$PWD" && cd "$PWD" && mount -o remount,bind,ro "$PWD" && mount -o remount,bind,ro / && exec "$@"`

// run runs the tests in the package's folder with a mutation.
func (t *testProgram) run(limit time.Duration, number int, environment string, flags ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	command := append(append([]string{t.file}, t.flags...), flags...)
	if os.Getuid() == 0 {
		command = append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", protect, t.temporary}, command...)
	}
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir = t.source
	c.Env = append(os.Environ(), "TMPDIR="+t.temporary, "MUTANT="+strconv.Itoa(number), environment)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	return out, err
}
