package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/sim"
	"mesos-gpu/internal/cli"
)

// Command returns the command that evaluates placement policies.
func Command(app *cli.App) *cobra.Command {
	a := &simulateCommands{app}
	return a.simulateCommand()
}

// Limits of long computations.
const (
	maxSeeds          = 10_000
	maxSimulatedQueue = 10_000
)

type simulateFlags struct {
	agents, tasks string
	policies      []string
	seed, seeds   string
	arrival       string
	plot          string
	queue         int
	timed         timedFlags
}

func (a *simulateCommands) simulateCommand() *cobra.Command {
	var f simulateFlags
	c := &cobra.Command{
		Use: "simulate", Short: "Compare placement policies on a recorded cluster", Args: cli.RequireArgs(),
		Long: `Place recorded tasks on a recorded cluster with each policy, and print the share of its GPUs that each policy allocates.
With --arrival timed, replay a record under a virtual clock and print how long jobs waited.

Files are CSV, plain or gzip, in the form of Alibaba's openb traces. With --arrival timed they may also be Philly's or Helios's (a list of virtual clusters and
a list of jobs), and --tasks may be a job file or a copy of the scheduler's journal.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.timed.rejectForeign(c.Flags(), f.arrival); err != nil {
				return &cli.UsageError{Err: err}
			}
			return a.runSimulation(c.Context(), &f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.agents, "agents", "",
		"CSV file of agents with sn, cpu_milli, memory_mib, gpu, model and, if any, rdma; for jobs of Philly or Helios: vc, node num")
	flags.StringVar(&f.tasks, "tasks", "",
		"tasks: a CSV file with name, cpu_milli, memory_mib, num_gpu, gpu_milli and, if any, gpu_spec; timed: "+
			"also jobs of Philly, Helios or PAI, instances of DLRM services, a job file, a journal")
	flags.StringSliceVar(&f.policies, "policy", []string{sim.PolicyNames()[0]}, "policies to compare, of "+strings.Join(sim.PolicyNames(), ", "))
	flags.StringVar(&f.seeds, "seeds", "", "random seeds, FROM-TO")
	flags.StringVar(&f.seed, "seed", "42", "one random seed, if --seeds is not set")
	flags.StringVar(&f.arrival, "arrival", "fgd",
		"how tasks arrive: fgd: shuffled and one by one until they request 130 % of the GPUs, and never end; timed: "+
			"at their recorded times, and they end after their run time (docs/guides/simulate.md)")
	flags.IntVar(&f.queue, "queue", 0,
		"fgd: how many tasks may wait; the policy places the one with the best score first, and the oldest after twice as many decisions")
	flags.StringVar(&f.plot, "plot", "",
		"write a plot to this SVG file: GPUs in use by arrival; timed: wait times of jobs, with --fairness their finish-time fairness")
	f.timed.register(flags)
	for flag, values := range map[string][]string{
		"policy":    sim.PolicyNames(),
		"arrival":   {"fgd", "timed"},
		"order":     {"fifo", "shortest"},
		"reclaim":   {"deserved", "entitled"},
		"run-times": {"given", "predicted", "exact"},
		"clusters":  {clustersPooled, clustersShared, clustersOwn},
	} {
		cli.CompleteFixed(c, flag, values)
	}
	a.AddOutputFlag(c)
	c.Flags().BoolFunc("json", "as -o json", func(string) error { return cli.OutputFormat{A: a.App}.Set(cli.FormatJSON) })
	return c
}

func (a *simulateCommands) runSimulation(ctx context.Context, f *simulateFlags) error {
	if f.arrival == "timed" {
		return a.simulateTimed(ctx, f)
	}
	sweep, err := f.newSweep()
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	if sweep.Trace, err = loadTrace(f.agents, f.tasks); err != nil {
		if form := detectForm(f.tasks); form != "" {
			err = fmt.Errorf("%s is %s: replay it with --arrival timed", f.tasks, form)
		}
		return err
	}
	part, done := a.StartCountBar("simulating", "runs", int64(sweep.CountSteps()))
	sweep.StepDone = part
	results, err := sweep.Run(ctx)
	done()
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	if f.plot != "" {
		title := "GPUs in use by arrival: " + filepath.Base(f.tasks)
		if err := writePlot(f.plot, func(w io.Writer) error { return sim.PlotAllocation(w, title, results) }); err != nil {
			return err
		}
	}
	switch {
	case a.ForPrograms && len(results) == 1:
		return a.PrintJSON(results[0])
	case a.ForPrograms:
		return a.PrintJSON(results)
	default:
		return a.printAllocations(results)
	}
}

// newSweep validates the flags before it reads any file.
func (f *simulateFlags) newSweep() (*sim.PolicySweep, error) {
	s := &sim.PolicySweep{Policies: f.policies, Queue: f.queue, Workers: runtime.GOMAXPROCS(0)}
	if f.agents == "" || f.tasks == "" {
		return nil, errors.New("give --agents FILE and --tasks FILE to simulate")
	}
	if f.arrival != "fgd" {
		return nil, fmt.Errorf("--arrival %q is not one of fgd, timed", f.arrival)
	}
	if f.queue < 0 || f.queue > maxSimulatedQueue {
		return nil, fmt.Errorf("--queue %d is not 0 to %d", f.queue, maxSimulatedQueue)
	}
	if len(f.policies) == 0 {
		return nil, errors.New("--policy names none")
	}
	for _, name := range f.policies {
		if err := sim.ValidatePolicyName(name); err != nil {
			return nil, err
		}
	}
	var err error
	s.Seeds, err = parseSeeds(cmp.Or(f.seeds, f.seed))
	return s, err
}

// parseSeeds parses a seed or a range, such as "42" or "42-51".
func parseSeeds(text string) ([]int64, error) {
	first, last, several := strings.Cut(text, "-")
	if !several {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("seeds %q: use a number from 0 to %d, or FROM-TO", text, 1<<31-1)
	}
	to, err := strconv.ParseUint(last, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("seeds %q: use a number from 0 to %d, or FROM-TO", text, 1<<31-1)
	}
	if to < from || to-from >= maxSeeds {
		return nil, fmt.Errorf("seeds %q are not 1 to %d", text, maxSeeds)
	}
	var list []int64
	for s := from; s <= to; s++ {
		list = append(list, int64(s))
	}
	return list, nil
}

func loadTrace(agents, tasks string) (*sim.ClusterTrace, error) {
	cluster, err := readFile(agents, sim.ReadAgents)
	if err != nil {
		return nil, err
	}
	work, err := readFile(tasks, sim.ReadTasks)
	if err != nil {
		return nil, err
	}
	return sim.NewTrace(cluster, work)
}

func readFile[T any](path string, read func(r io.Reader, name string) (T, error)) (content T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return content, err
	}
	defer f.Close()
	return read(f, path)
}

// writePlot creates a file with the content that fill writes.
func writePlot(path string, fill func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(f), f.Close()); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	return nil
}

// printAllocations prints one row for each policy.
func (a *simulateCommands) printAllocations(results []sim.PolicyResult) error {
	r := &results[0]
	fmt.Fprintf(a.Stdout, "%d agents, %d GPUs, %d tasks, seeds %d-%d: GPUs in use, in %% of all, by %% asked for\n\n",
		r.Agents, r.GPUs, r.Tasks, r.Seeds[0], r.Seeds[len(r.Seeds)-1])
	head := []string{"POLICY"}
	for _, arrival := range sim.ArrivalPercents() {
		head = append(head, fmt.Sprintf("%d", arrival))
	}
	head = append(head, "UNPLACED", "FRAGMENTED", "DECISIONS/S")
	rows := len(results)
	if r.Bound != nil {
		rows++
	}
	return a.PrintRows(strings.Join(head, "\t"), rows, func(i int) string {
		if i == len(results) {
			return formatBound(r)
		}
		row := []string{results[i].Policy}
		for _, arrival := range sim.ArrivalPercents() {
			c, ok := results[i].AllocationAt(arrival)
			row = append(row, formatCell(c, ok))
		}
		return strings.Join(append(row, fmt.Sprintf("%.0f", results[i].Unplaced.Mean),
			fmt.Sprintf("%.2f", results[i].Fragmentation.Mean),
			fmt.Sprintf("%.0f", results[i].DecisionsPerSecond)), "\t")
	}, slices.Concat([]string{"DECISIONS/S", "FRAGMENTED"}, head[1:len(sim.ArrivalPercents())])...)
}

// formatBound formats the upper bound for any policy.
func formatBound(r *sim.PolicyResult) string {
	row := []string{"(bound)"}
	for _, arrival := range sim.ArrivalPercents() {
		c, ok := r.Bound[strconv.Itoa(arrival)]
		row = append(row, formatCell(c, ok))
	}
	return strings.Join(append(row, "", "", ""), "\t")
}

func formatCell(c sim.MeanSD, ok bool) string {
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f)", c.Mean, c.SD)
}
