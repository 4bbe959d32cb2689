package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sim"
	"mesos-gpu/framework/sim/replay"
	"mesos-gpu/job/jobfile"
)

// timedFlags are those of simulate --arrival timed.
type timedFlags struct {
	order, runTimes, clusters string
	strict                    bool
	patience, short           time.Duration
}

// The clusters of a record that has several.
const (
	pooled = "pooled" // all agents and one queue
	shared = "shared" // all agents, and a role for each, which take turns by share
	own    = "own"    // each by itself
)

func (f *timedFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.order, "order", "fifo", "timed: who goes first in a role: fifo or shortest")
	flags.DurationVar(&f.patience, "patience", sched.DefaultPatience, "timed: how long a job lets shorter ones go before")
	flags.BoolVar(&f.strict, "strict", false, "timed: nobody goes before a job that waits")
	flags.StringVar(&f.runTimes, "run-times", "given", "timed: what the scheduler is told of run times: given, predicted, exact")
	flags.StringVar(&f.clusters, "clusters", pooled, "timed: Philly's virtual clusters: pooled, shared (a role each), own (its agents each)")
	flags.DurationVar(&f.short, "preempt-for", 0, "timed: jobs said to end within it may preempt the others")
}

// foreign says which of the flags that are given are of another arrival.
func (f *timedFlags) foreign(given *pflag.FlagSet, arrival string) error {
	if arrival == "timed" {
		return nil
	}
	mine := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(timedFlags).register(mine)
	var err error
	mine.VisitAll(func(flag *pflag.Flag) {
		if err == nil && given.Changed(flag.Name) {
			err = fmt.Errorf("--%s is for --arrival timed", flag.Name)
		}
	})
	return err
}

// timedForm names the form of a file that only timed arrivals take; none where
// it may be CSV of tasks.
func timedForm(path string) string {
	head, err := begins(path)
	switch {
	case err != nil:
		return ""
	case bytes.HasPrefix(head, []byte("timestamp,")):
		return "a record of Philly"
	case isJournal(head):
		return "a journal"
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := jobfile.Read(f, path); err != nil {
		return ""
	}
	return "a job file"
}

// check says what is wrong with the flags.
func (f *timedFlags) check(all *simulateFlags) (seed int64, err error) {
	switch {
	case all.agents == "" || all.tasks == "":
		return 0, errors.New("--agents FILE and --tasks FILE say what to simulate")
	case all.seeds != "":
		return 0, errors.New("--arrival timed takes one --seed, not --seeds")
	case all.queue != 0:
		return 0, errors.New("--arrival timed takes no --queue: all that finds no place waits")
	case !slices.Contains([]string{"fifo", "shortest"}, f.order):
		return 0, fmt.Errorf("--order %q is none of fifo, shortest", f.order)
	case !slices.Contains([]string{"given", "predicted", "exact"}, f.runTimes):
		return 0, fmt.Errorf("--run-times %q is none of given, predicted, exact", f.runTimes)
	case !slices.Contains([]string{pooled, shared, own}, f.clusters):
		return 0, fmt.Errorf("--clusters %q is none of %s, %s, %s", f.clusters, pooled, shared, own)
	case f.patience < 0 || f.short < 0:
		return 0, errors.New("--patience and --preempt-for are not below zero")
	}
	for _, name := range all.policies {
		if err := sched.CheckPolicy(sched.Policy{Fit: fit.Policy{Name: name}}); err != nil {
			return 0, err
		}
	}
	one, err := seeds(all.seed)
	if err == nil && len(one) != 1 {
		err = fmt.Errorf("--seed %q is not one", all.seed)
	}
	if err != nil {
		return 0, err
	}
	return one[0], nil
}

func (f *timedFlags) role(name string) sched.Role {
	r := sched.Role{Name: name, Order: sched.Order(f.order), Strict: f.strict}
	if r.Order == sched.ShortestFirst {
		r.Patience = f.patience
	}
	return r
}

// timedCase is one cluster and its works.
type timedCase struct {
	agents []replay.Agent
	roles  []sched.Role
	works  []replay.Work
}

// timedRecord is all that is replayed, and what of the record is not.
type timedRecord struct {
	cases   []timedCase
	left    int
	because string
}

// timedReport is what -o json prints.
type timedReport struct {
	Policy   string `json:"policy"`
	Order    string `json:"order"`
	Strict   bool   `json:"strict"`
	RunTimes string `json:"run_times"`
	Clusters string `json:"clusters"`
	Seed     int64  `json:"seed"`
	// LeftOut counts what of the record could not be replayed.
	LeftOut        int    `json:"left_out"`
	LeftOutBecause string `json:"left_out_because,omitempty"`
	// BoundMean is a mean completion time that no schedule can beat, with the
	// same GPUs apart as they are here.
	BoundMean          float64 `json:"bound_mean_completion"`
	DecisionsPerSecond float64 `json:"decisions_per_second"`
	*replay.Result
}

// simulateTimed replays a record under a virtual clock, once for each policy.
func (a *app) simulateTimed(ctx context.Context, all *simulateFlags) error {
	f := &all.timed
	seed, err := f.check(all)
	if err != nil {
		return &usageError{err}
	}
	record, err := a.readRecord(ctx, all.agents, all.tasks, f)
	if err != nil {
		return err
	}
	jobs := int64(0)
	for i := range record.cases {
		jobs += int64(len(record.cases[i].works))
	}
	ended, done := a.countBar("replaying", "jobs", jobs*int64(len(all.policies)))
	var reports []*timedReport
	for _, policy := range all.policies {
		r, err := record.replay(ctx, policy, seed, f, ended)
		if err != nil {
			done()
			return fmt.Errorf("simulate: %w", err)
		}
		reports = append(reports, r)
	}
	done()
	if all.plot != "" {
		if err := plotWaits(all.plot, filepath.Base(all.tasks), reports); err != nil {
			return err
		}
	}
	return a.timedReports(reports)
}

// timedReports prints one report whole, and several side by side.
func (a *app) timedReports(reports []*timedReport) error {
	switch {
	case a.json && len(reports) == 1:
		return a.printJSON(reports[0])
	case a.json:
		return a.printJSON(reports)
	case len(reports) == 1:
		return a.timedTable(reports[0])
	}
	return a.table(strings.Replace(timedHead, "SECONDS", "POLICY", 1)+"\tIN USE\tPREEMPTIONS", len(reports), func(i int) string {
		r := reports[i]
		return timedRow(r.Policy, r.Jobs, r.Wait, r.Completion, r.Slowdown) + fmt.Sprintf("\t%.1f %%\t%d", r.Allocation, r.Preemptions)
	}, "P50", "PREEMPTIONS")
}

func plotWaits(path, title string, reports []*timedReport) error {
	var names []string
	var results []*replay.Result
	for _, r := range reports {
		names, results = append(names, r.Policy), append(results, r.Result)
	}
	return draw(path, func(w io.Writer) error { return replay.Plot(w, "Waiting: "+title, names, results) })
}

// replay has one policy run all cases.
func (record *timedRecord) replay(ctx context.Context, policy string, seed int64, f *timedFlags, ended func()) (*timedReport, error) {
	begun := time.Now()
	list, err := runCases(ctx, record.cases, policy, seed, f, ended)
	if err != nil {
		return nil, err
	}
	r := &timedReport{
		Policy: policy, Order: f.order, Strict: f.strict, RunTimes: f.runTimes, Clusters: f.clusters, Seed: seed,
		LeftOut: record.left, LeftOutBecause: record.because, Result: replay.Merge(list...),
	}
	r.DecisionsPerSecond = float64(r.Launches) / time.Since(begun).Seconds()
	for i := range record.cases {
		r.BoundMean += replay.Bound(slices.Values(record.cases[i].works), list[i].GPUs) * float64(list[i].Jobs) / float64(max(r.Jobs, 1))
	}
	return r, nil
}

// runCases uses all cores.
func runCases(ctx context.Context, cases []timedCase, policy string, seed int64, f *timedFlags, ended func()) ([]*replay.Result, error) {
	list, errs := make([]*replay.Result, len(cases)), make([]error, len(cases))
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i, c := range cases {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			cfg := replay.Config{Agents: c.agents, RunTimes: replay.RunTimes(f.runTimes), Short: f.short, Seed: seed, Stop: ctx.Err}
			cfg.Ended = func(*replay.Work, time.Duration, time.Duration) { ended() }
			cfg.Sched.Policy.Fit.Name, cfg.Sched.Policy.Roles = policy, c.roles
			list[i], errs[i] = replay.Run(cfg, slices.Values(c.works))
		})
	}
	all.Wait()
	return list, errors.Join(errs...)
}

// readRecord reads agents and works, each in one of the forms there are.
func (a *app) readRecord(ctx context.Context, agents, tasks string, f *timedFlags) (*timedRecord, error) {
	head, err := begins(tasks)
	switch {
	case err != nil:
		return nil, err
	case bytes.HasPrefix(head, []byte("timestamp,")):
		return a.readPhilly(agents, tasks, f)
	case f.clusters != pooled:
		return nil, &usageError{fmt.Errorf("--clusters %s is for records of Philly", f.clusters)}
	}
	list, err := readFile(agents, sim.ReadAgents)
	if err != nil {
		return nil, err
	}
	c := timedCase{agents: replay.FromAgents(list), roles: []sched.Role{f.role("")}}
	record := &timedRecord{}
	switch {
	case isJournal(head):
		record.left, record.because, err = c.fromJournal(ctx, tasks, f)
	case bytes.Contains(head, []byte("num_gpu")) || bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		err = c.fromTasks(tasks)
	default:
		err = c.fromJobFile(tasks)
	}
	record.cases = []timedCase{c}
	return record, err
}

func (c *timedCase) fromTasks(path string) error {
	tasks, err := readFile(path, sim.ReadTasks)
	if err != nil {
		return err
	}
	works, err := replay.FromTasks(tasks)
	if err != nil {
		return err
	}
	c.works = slices.Collect(works)
	return nil
}

// begins are a file's first bytes.
func begins(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<10))
}

// isJournal reports whether a file begins as bbolt's do: its magic number
// stands behind the header of the first page.
func isJournal(head []byte) bool {
	return len(head) > 20 && bytes.Equal(head[16:20], []byte{0xed, 0xda, 0x0c, 0xed})
}

// fromJournal replays what a journal remembers. The scheduler that writes it
// must not run: copy it from where it does.
func (c *timedCase) fromJournal(ctx context.Context, path string, f *timedFlags) (left int, because string, err error) {
	j, err := journal.Open(path)
	if err != nil {
		return 0, "", fmt.Errorf("open journal %s: %w", path, err)
	}
	all, err := j.Load(ctx)
	if err = errors.Join(err, j.Close()); err != nil {
		return 0, "", fmt.Errorf("read journal %s: %w", path, err)
	}
	works, left := replay.FromJobs(all.Jobs)
	c.roles, c.works = nil, works
	names := map[string]bool{}
	for i := range works {
		if name := works[i].Spec.Role; !names[name] {
			names[name] = true
			c.roles = append(c.roles, f.role(name))
		}
	}
	return left, "they have not ended, or never ran", nil
}

func (c *timedCase) fromJobFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	spec, err := jobfile.Read(f, path)
	if err != nil {
		return err
	}
	w, err := replay.FromSpec(spec)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	w.Spec.Role = ""
	c.works = []replay.Work{w}
	return nil
}

// readPhilly tells each row that cannot be read, and leaves out the jobs of
// virtual clusters that have no agents.
func (a *app) readPhilly(agents, tasks string, f *timedFlags) (*timedRecord, error) {
	clusters, err := readFile(agents, replay.ReadPhillyClusters)
	if err != nil {
		return nil, err
	}
	jobs, err := readFile(tasks, func(r io.Reader, name string) ([]replay.PhillyJob, error) {
		return replay.ReadPhilly(r, name, func(err error) { fmt.Fprintf(a.err, "left out: %v\n", err) })
	})
	if err != nil {
		return nil, err
	}
	record := &timedRecord{because: "their virtual cluster has no agents"}
	listed := map[string]bool{}
	all := timedCase{roles: []sched.Role{f.role("all")}}
	if f.clusters == shared {
		all.roles = nil
	}
	for _, vc := range clusters {
		listed[vc.Name] = true
		all.agents = append(all.agents, vc.NewAgents()...)
		switch f.clusters {
		case shared:
			all.roles = append(all.roles, f.role(vc.Name))
		case own:
			record.cases = append(record.cases, timedCase{
				agents: vc.NewAgents(), roles: []sched.Role{f.role(vc.Name)},
				works: slices.Collect(replay.PhillyWorks(jobs, func(j *replay.PhillyJob) (string, bool) { return vc.Name, j.Cluster == vc.Name })),
			})
		}
	}
	if f.clusters != own {
		all.works = slices.Collect(replay.PhillyWorks(jobs, func(j *replay.PhillyJob) (string, bool) {
			if f.clusters == shared {
				return j.Cluster, listed[j.Cluster]
			}
			return "all", listed[j.Cluster]
		}))
		record.cases = []timedCase{all}
	}
	for i := range jobs {
		if !listed[jobs[i].Cluster] {
			record.left++
		}
	}
	return record, nil
}

// timedTable prints the report for people, times in seconds.
func (a *app) timedTable(r *timedReport) error {
	fmt.Fprintf(a.out, "%d agents, %d GPUs, %d jobs in %s; %d left out, %d refused, %d never started\n", r.Agents, r.GPUs, r.Jobs, span(r.Span), r.LeftOut, r.Refused, r.Never)
	fmt.Fprintf(a.out, "GPUs in use %.1f %%, free while tasks waited %.1f %%, of the free ones on agents in use %.1f %%\n", r.Allocation, r.Idle, r.Broken)
	fmt.Fprintf(a.out, "mean completion %.0f s, no schedule below %.0f s; fairness of roles %.2f; %d preemptions lost %.0f GPU hours\n", r.Completion.Mean, r.BoundMean, r.Fairness, r.Preemptions, r.Lost/3600)
	if e := r.Error; e != nil {
		fmt.Fprintf(a.out, "%d predictions: half off by at most %.1f times, %.0f %% by at most 2\n", e.Jobs, e.Median, e.Within2)
	}
	fmt.Fprintf(a.out, "%d launches in %d cycles, %.0f decisions/s\n\n", r.Launches, r.Cycles, r.DecisionsPerSecond)
	rows := []string{timedRow("all", r.Jobs, r.Wait, r.Completion, r.Slowdown)}
	for _, name := range sortedKeys(r.Roles) {
		g := r.Roles[name]
		rows = append(rows, timedRow("role "+cmp.Or(name, "(default)"), g.Jobs, g.Wait, g.Completion, g.Slowdown))
	}
	for _, gpus := range sortedKeys(r.Sizes) {
		g := r.Sizes[gpus]
		rows = append(rows, timedRow(fmt.Sprintf("%d GPUs", gpus), g.Jobs, g.Wait, g.Completion, g.Slowdown))
	}
	if err := a.table(timedHead, len(rows), func(i int) string { return rows[i] }, "P50"); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	models := sortedKeys(r.Types)
	return a.table("TYPE\tGPUS\tIN USE", len(models), func(i int) string {
		return fmt.Sprintf("%s\t%d\t%.1f %%", models[i], r.Types[models[i]].GPUs, r.Types[models[i]].Allocation)
	})
}

const timedHead = "SECONDS\tJOBS\tWAIT MEAN\tP50\tP99\tCOMPLETION MEAN\tP50\tP99\tSLOWDOWN"

func timedRow(name string, jobs int, wait, complete, slow replay.Stats) string {
	return strings.Join([]string{name, fmt.Sprint(jobs), fmt.Sprintf("%.0f\t%.0f\t%.0f", wait.Mean, wait.P50, wait.P99), fmt.Sprintf("%.0f\t%.0f\t%.0f", complete.Mean, complete.P50, complete.P99), fmt.Sprintf("%.1f", slow.Mean)}, "\t")
}

func span(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
