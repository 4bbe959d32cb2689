// Package archtest tests the architecture: which package may import which, that
// documents name identifiers and tests that exist, that their links resolve, that
// each dependency is explained, and that lists of constants are complete. It contains
// no other code.
package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "mesos-gpu"

// pure packages are functions of their arguments: the simulator, the fuzzers
// and production run the same code.
var pure = []string{
	"gpu", "job", "executor/image", "framework/access", "framework/notification", "framework/sched",
	"framework/sched/admission", "framework/sched/budget", "framework/sched/entitlement", "framework/sched/fit", "framework/sched/fit/hardware",
	"framework/sched/fit/index", "framework/sched/quota", "framework/sched/queue", "framework/sched/eviction", "framework/sched/placement",
	"framework/sched/pending", "framework/sched/prediction", "framework/sched/forecast", "framework/cron",
	"framework/autoscale", "framework/sim/replay", "internal/backoff", "internal/minimesos/events",
	"internal/minimesos/offers", "internal/minimesos/resource", "internal/minimesos/updates", "internal/simplex",
	"isolator/rules", "isolator/layout", "isolator/allocation", "isolator/health", "isolator/stock", "marathon",
	"marathon/translate", "marathon/deploy",
}

// impure are the packages of the standard library that perform I/O or logging.
var impure = []string{"os", "net", "context", "log", "syscall", "os/exec", "net/http", "log/slog", "path/filepath", "io/ioutil"}

// importRules forbid the package trees in from to import the trees in to, except
// for the listed exceptions.
var importRules = []struct {
	from, to []string
	why      string
	except   map[string]string // "from → to": reason
}{
	{
		from: []string{"gpu"}, to: []string{"job", "framework", "isolator", "volumemgr", "executor", "marathon", "internal", "cmd"},
		why: "gpu is the base that every package imports",
	},
	{
		from: []string{"job"}, to: []string{"framework", "isolator", "volumemgr", "executor", "marathon", "internal", "cmd"},
		why: "jobs depend on devices only",
	},
	{
		from: []string{"framework"}, to: []string{"isolator", "volumemgr", "executor", "marathon", "internal/local", "internal/cli", "cmd"},
		why: "the framework reaches agents and executors only through Mesos and the wire format of job.LaunchData",
	},
	{
		from: []string{"framework/sched/admission"}, to: []string{"framework/sched"},
		why: "what a role permits does not depend on what is scheduled",
	},
	{
		from: []string{"framework/api", "framework/client"}, to: []string{
			"framework/sched", "framework/access", "framework/apiserver", "framework/leader", "framework/readmodel",
			"framework/journal", "framework/metrics", "internal",
		},
		why: "programs of others import the client, without the scheduler",
	},
	{
		from: []string{
			"framework/access", "framework/accounting", "framework/artifacts", "framework/clusterview",
			"framework/journal", "framework/leader", "framework/master", "framework/notifier", "framework/readmodel",
			"framework/request", "framework/standby", "framework/taskoutput", "framework/usage", "framework/usagehistory",
			"framework/workdirstore",
		},
		to:  []string{"framework/apiserver"},
		why: "storage and the leader do not depend on the server: package request has what both use",
	},
	{
		from: []string{
			"framework/accounting", "framework/artifacts", "framework/clusterview", "framework/journal",
			"framework/leader", "framework/master", "framework/readmodel", "framework/request", "framework/standby",
			"framework/usage", "framework/usagehistory",
		},
		to:  []string{"framework/internal/apihttp"},
		why: "the requester is an argument, and is not read from a request's context",
	},
	{
		from: []string{"framework/sched/fit"}, to: []string{"framework/sched/quota", "framework/sched/queue", "framework/sched/placement", "framework/sched/pending"},
		why: "fit selects agents independently of the queue",
	},
	{
		from: []string{"framework/sched/quota"}, to: []string{"framework/sched/queue", "framework/sched/placement", "framework/sched/pending"},
		why: "quotas count what roles hold, independently of the placement",
	},
	{
		from: []string{"framework/sched/queue"}, to: []string{"framework/sched/placement", "framework/sched/pending"},
		why: "the order of jobs does not depend on where they run",
	},
	{
		from: []string{"framework/sched/placement"}, to: []string{"framework/sched/pending"},
		why: "a plan is made first and explained later",
	},
	{
		from: []string{"executor"}, to: []string{"framework", "isolator", "volumemgr", "marathon", "internal/local", "internal/cli", "cmd"},
		why: "the executor serves any framework on any agent",
		except: map[string]string{
			"executor → volumemgr":        "the executor fills the volume on agents that run no daemon",
			"executor/docker → volumemgr": "the executor fills the volume on agents that run no daemon",
		},
	},
	{
		from: []string{"isolator"}, to: []string{"framework", "volumemgr", "executor", "marathon", "internal/local", "internal/cli", "cmd"},
		why: "the agent side serves any framework",
	},
	{
		from: []string{"marathon"}, to: []string{"framework", "isolator", "volumemgr", "executor", "internal/local", "internal/cli", "cmd"},
		why: "apps become jobs; running them is not their concern",
	},
	{
		from: []string{"volumemgr"}, to: []string{"job", "framework", "isolator", "executor", "marathon", "internal/local", "internal/cli", "cmd"},
		why: "a volume depends on driver files only",
	},
	{
		from: []string{"internal/minimesos", "internal/mesosapi"},
		to:   []string{"framework", "isolator", "volumemgr", "executor", "marathon", "internal/local", "internal/cli", "cmd"},
		why:  "the embedded master, the masters of tests and the replay of traces share it",
	},
	{
		from: []string{"internal/term"}, to: []string{"framework", "isolator", "volumemgr", "executor", "marathon", "internal/cli", "cmd"},
		why: "tables have rows and columns and no knowledge of the domain",
	},
	{
		from: []string{
			"gpu", "job", "framework", "isolator", "volumemgr", "executor", "marathon", "cmd", "internal/cli",
			"internal/local", "internal/minimesos", "internal/mesosapi", "internal/term",
		},
		to:  []string{"internal/testing"},
		why: "support of tests is not part of the product",
	},
	{
		from: []string{"internal/cli/jobs", "internal/cli/cluster", "internal/cli/simulate", "internal/cli/volumes"},
		to:   []string{"internal/cli/agent", "internal/cli/daemons", "cmd"},
		why:  "client commands do not depend on how daemons are started",
	},
}

// exclusiveImports lists packages that only some trees may import.
var exclusiveImports = map[string]struct {
	trees []string
	why   string
}{
	"github.com/NVIDIA/go-nvml/pkg/nvml":                    {[]string{"isolator/nvml"}, "one package loads the driver's library"},
	"github.com/robfig/cron/v3":                             {[]string{"job"}, "one type computes due times"},
	"github.com/spf13/cobra":                                {[]string{"cmd", "internal/cli"}, "flags end where configuration begins"},
	"go.etcd.io/bbolt":                                      {[]string{"framework/journal", "framework/accounting"}, "one package reads and writes each file"},
	"github.com/opencontainers/runtime-spec/specs-go":       {[]string{"internal/local"}, "only the embedded agent runs containers itself"},
	"github.com/cilium/ebpf":                                {[]string{"isolator/cgroup"}, "one package loads device programs"},
	"github.com/docker/go-plugins-helpers/volume":           {[]string{"volumemgr/plugin"}, "one package serves the engine's plugin API"},
	"github.com/coreos/go-oidc/v3/oidc":                     {[]string{"framework/access/gate"}, "one package queries issuers"},
	"github.com/go-git/go-git/v5/plumbing/format/gitignore": {[]string{"framework/workdir"}, "one package excludes files"},
	"github.com/hashicorp/yamux":                            {[]string{"internal/portrelay"}, "one package multiplexes streams"},
	"github.com/minio/minio-go/v7":                          {[]string{"framework/artifacts"}, "one package stores artifacts"},
	"golang.org/x/crypto/bcrypt":                            {[]string{"framework/access"}, "one package hashes secrets"},
	"github.com/prometheus/client_golang/prometheus": {[]string{"isolator/metrics", "framework/metrics"},
		"other packages count events and do not name series"},
}

func TestImports(t *testing.T) {
	for _, f := range sources(t) {
		for _, path := range f.imports {
			if reason := forbidden(f.pkg, path); reason != "" {
				t.Errorf("%s imports %s: %s", f.name, path, reason)
			}
		}
	}
}

func forbidden(pkg, path string) string {
	for _, p := range pure {
		if pkg != p {
			continue
		}
		for _, bad := range impure {
			if path == bad {
				return "package " + p + " is pure: no I/O, no clock, no log"
			}
		}
		if strings.Contains(path, "logrus") {
			return "pure packages never log"
		}
	}
	if o, ok := exclusiveImports[path]; ok && !slices.ContainsFunc(o.trees, func(tree string) bool { return within(pkg, tree) }) {
		return "only " + strings.Join(o.trees, " and ") + " may: " + o.why
	}
	to, ours := strings.CutPrefix(path, module+"/")
	if !ours {
		return ""
	}
	for _, w := range importRules {
		for _, from := range w.from {
			for _, target := range w.to {
				if within(pkg, from) && within(to, target) && w.except[pkg+" → "+to] == "" {
					return w.why
				}
			}
		}
	}
	return ""
}

func within(pkg, tree string) bool { return pkg == tree || strings.HasPrefix(pkg, tree+"/") }

// Pure packages must not read the clock either; an import cannot show that.
func TestPurePackagesReadNoClock(t *testing.T) {
	for _, f := range sources(t) {
		for _, p := range pure {
			if f.pkg == p && (strings.Contains(f.text, "time.Now(") || strings.Contains(f.text, "time.Since(") || strings.Contains(f.text, "rand.Int")) {
				t.Errorf("%s reads the clock or unseeded chance", f.name)
			}
		}
	}
}

// Every package says in one paragraph what it decides and what it never does.
func TestEveryPackageHasItsParagraph(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range sources(t) {
		documented[f.pkg] = documented[f.pkg] || f.doc
	}
	for pkg, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

// Files stay readable in one sitting.
func TestFilesAreShort(t *testing.T) {
	for _, f := range sources(t) {
		if n := strings.Count(f.text, "\n"); n > 600 {
			t.Errorf("%s has %d lines, more than 600: split it", f.name, n)
		}
	}
}

type source struct {
	name, pkg, text string
	imports         []string
	doc             bool
}

// sources are the project's Go files, tests excluded.
func sources(t *testing.T) []source {
	t.Helper()
	return parseFiles(t, func(path string) bool { return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") })
}

// files are the project's Go files that are wanted.
func parseFiles(t *testing.T, wanted func(path string) bool) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	var files []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() != ".." && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if !wanted(path) {
			return nil
		}
		f, err := parse(root, path)
		files = append(files, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("found only %d files below %s", len(files), root)
	}
	return files
}

func parse(root, path string) (source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		return source{}, err
	}
	f := source{name: name, pkg: filepath.ToSlash(filepath.Dir(name)), text: string(text), doc: parsed.Doc != nil}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, err
		}
		f.imports = append(f.imports, imported)
	}
	return f, nil
}
