package simulate

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/sim"
	"mesos-gpu/internal/cli"
)

// smallTrace writes a cluster of 8 GPUs and its tasks.
func smallTrace(t *testing.T) (agents, tasks string) {
	t.Helper()
	dir := t.TempDir()
	agents, tasks = filepath.Join(dir, "agents.csv"), filepath.Join(dir, "tasks.csv")
	writeText(t, agents, "sn,cpu_milli,memory_mib,gpu,model\nn1,32000,65536,4,T4\nn2,32000,65536,4,A10\n")
	writeText(t, tasks, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1000,1024,1,1000,\nb,1000,1024,1,500,T4\n")
	return agents, tasks
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runCommandString runs the command and returns its exit status.
func runCommandString(line ...string) (stdout, stderr string, code int) {
	return runCommand(context.Background(), line...)
}

func runCommand(ctx context.Context, line ...string) (stdout, stderr string, code int) {
	var out, errs strings.Builder
	root := &cobra.Command{Use: "mesos-gpu", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Command(&cli.App{ProcessIO: cli.ProcessIO{
		Stdin:  strings.NewReader(""),
		Stdout: &out,
		Stderr: &errs,
		Getenv: func(string) string { return "" },
	}}))
	root.SetArgs(line)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return out.String(), errs.String(), 0
	case cli.IsUsage(err):
		code = 2
	default:
		code = 1
	}
	return out.String(), errs.String() + err.Error(), code
}

func TestSimulateJSON(t *testing.T) {
	agents, tasks := smallTrace(t)
	out, stderr, code := runCommandString("simulate", "--agents", agents, "--tasks", tasks, "--policy", "random", "--seeds", "42-51", "-o", "json")
	if code != 0 {
		t.Fatal(stderr)
	}
	var got sim.PolicyResult
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if got.Policy != "random" || got.Agents != 2 || got.GPUs != 8 || got.Tasks != 2 || len(got.Seeds) != 10 || got.Seeds[9] != 51 || got.DecisionsPerSecond <= 0 {
		t.Errorf("got %+v", got)
	}
	if c := got.Allocation["50"]; c.Mean != 50 {
		t.Errorf("all that asks for half finds a place, but %+v are allocated", c)
	}
}

func TestSimulateTableAndPlot(t *testing.T) {
	agents, tasks := smallTrace(t)
	plot := filepath.Join(t.TempDir(), "plot.svg")
	out, stderr, code := runCommandString("simulate", "--agents", agents, "--tasks", tasks, "--policy", "fgd,bestfit", "--policy", "binpack", "--plot", plot)
	if code != 0 || !strings.HasPrefix(out, "2 agents, 8 GPUs, 2 tasks, seeds 42-42: ") {
		t.Errorf("status %d, %s, printed %s", code, stderr, out)
	}
	for _, policy := range []string{"\nfgd ", "\nbestfit ", "\nbinpack ", "\n(bound) "} {
		if strings.Count(out, policy) != 1 {
			t.Errorf("want one row of %q in\n%s", policy, out)
		}
	}
	text, err := os.ReadFile(plot)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "<polyline"); lines != 4 {
		t.Errorf("the plot has %d lines, want those of 3 policies and the bound", lines)
	}
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestInvalidSimulateFlags(t *testing.T) {
	agents, tasks := smallTrace(t)
	bad := filepath.Join(t.TempDir(), "bad.csv")
	writeText(t, bad, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1000,1024,1,1000\nb,x,1,1,1000\n")
	for _, c := range []struct {
		args []string
		want string
		code int
	}{
		{[]string{"--tasks", tasks}, "give --agents FILE and --tasks FILE to simulate", 2},
		{[]string{"--agents", agents, "--tasks", tasks, "--policy", "best"}, `policy "best" is not one of headroom, binpack, spread, fgd`, 2},
		{[]string{"--agents", agents, "--tasks", tasks, "--seeds", "9-1"}, `seeds "9-1" are not 1 to 10000`, 2},
		{[]string{"--agents", agents, "--tasks", tasks, "--seeds", "0-10000"}, `seeds "0-10000" are not 1 to 10000`, 2},
		{[]string{"--agents", agents, "--tasks", tasks, "--queue", "-1"}, `--queue -1 is not 0 to 10000`, 2},
		{[]string{"--agents", agents, "--tasks", tasks, "--seed", "x"}, `seeds "x": use a number`, 2},
		{[]string{"--agents", agents, "--tasks", tasks, "--arrival", "never"}, `--arrival "never" is not one of fgd`, 2},
		{[]string{"--agents", agents, "--tasks", bad}, bad + `:3:3: column cpu_milli: "x" is not a whole number`, 1},
		{[]string{"--agents", agents, "--tasks", "missing.csv"}, "missing.csv", 1},
		{[]string{"--agents", agents, "--tasks", tasks, "--plot", "/missing/plot.svg"}, "/missing/plot.svg", 1},
	} {
		_, stderr, code := runCommandString(append([]string{"simulate"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: status %d, %s; want %d, %s", c.args, code, stderr, c.code, c.want)
		}
	}
}
