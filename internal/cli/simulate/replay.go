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
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"mesos-gpu/framework"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sim/replay"
	"mesos-gpu/internal/cli"
)

// timedFlags are the flags of simulate --arrival timed.
type timedFlags struct {
	order, runTimes, clusters string
	reclaim                   string
	strict, fairness          bool
	patience, short           time.Duration
	minRunTime, saveTime      time.Duration
	preemptAfter              time.Duration
	estimateEvery             int
	// rolesFile has settings of roles, loaded are those.
	rolesFile string
	loaded    []queue.Role
	// jobs is the table of jobs that belongs to a table of tasks of PAI.
	jobs string
}

// How to simulate a trace of several clusters, the values of --clusters.
const (
	clustersPooled = "pooled" // all agents and one queue
	clustersShared = "shared" // all agents, and a role with a fair share for each cluster
	clustersOwn    = "own"    // each cluster with its own agents
)

func (f *timedFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.order, "order", "fifo", "timed: order of the jobs of a role: fifo or shortest")
	flags.DurationVar(&f.patience, "patience", queue.DefaultPatience, "timed: maximum time for which shorter jobs go first")
	flags.BoolVar(&f.strict, "strict", false, "timed: no job starts before an older waiting job")
	flags.StringVar(&f.runTimes, "run-times", "given", "timed: run times that the scheduler knows: given, predicted, exact")
	flags.StringVar(&f.clusters, "clusters", clustersPooled, "timed: virtual clusters of Philly or Helios: pooled, shared (one role each), own (separate agents)")
	flags.BoolVar(&f.fairness, "fairness", false,
		"timed: with --clusters shared, replay each virtual cluster alone on its agents too, and divide the completion times of jobs")
	flags.StringVar(&f.rolesFile, "roles", "",
		"timed: roles file of the scheduler with the settings of the record's roles; the file's settings replace --order, --patience and --strict for its roles")
	flags.StringVar(&f.jobs, "jobs", "",
		"timed: the pai_job_table.csv of a pai_task_table.csv, with times of submission and users; without it tasks arrive when they started")
	flags.IntVar(&f.estimateEvery, "estimate-every", 0, "timed: with predicted run times, estimate the start of every nth waiting job and compare; 0 for none")
	flags.DurationVar(&f.short, "preempt-for", 0, "timed: jobs with a shorter run time than this may preempt others")
	flags.DurationVar(&f.preemptAfter, "preempt-after", 0,
		"timed: how long after their submission these jobs preempt others at the earliest; warnings run within this time")
	flags.StringVar(&f.reclaim, "reclaim", string(placement.ReclaimDeserved), "timed: what roles take back from others: deserved, entitled")
	flags.DurationVar(&f.minRunTime, "min-run-time", 0, "timed: how long preemptible jobs run before they may be preempted")
	flags.DurationVar(&f.saveTime, "save-time", 0,
		"timed: preempted and reclaimed jobs are warned, save their state for this time, and continue from it; if not set, they start over")
}

// rejectForeign returns an error if a flag of timed arrivals is set for another arrival.
func (f *timedFlags) rejectForeign(given *pflag.FlagSet, arrival string) error {
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

// validate returns an error for invalid flags, and the seed otherwise.
func (f *timedFlags) validate(all *simulateFlags) (seed int64, err error) {
	switch {
	case all.agents == "" || all.tasks == "":
		return 0, errors.New("give --agents FILE and --tasks FILE to simulate")
	case all.seeds != "":
		return 0, errors.New("--arrival timed takes one --seed, not --seeds")
	case all.queue != 0:
		return 0, errors.New("--arrival timed takes no --queue: all that finds no place waits")
	case !slices.Contains([]string{"fifo", "shortest"}, f.order):
		return 0, fmt.Errorf("--order %q is not one of fifo, shortest", f.order)
	case !slices.Contains([]string{string(placement.ReclaimDeserved), string(placement.ReclaimEntitled)}, f.reclaim):
		return 0, fmt.Errorf("--reclaim %q is not one of deserved, entitled", f.reclaim)
	case !slices.Contains([]string{"given", "predicted", "exact"}, f.runTimes):
		return 0, fmt.Errorf("--run-times %q is not one of given, predicted, exact", f.runTimes)
	case !slices.Contains([]string{clustersPooled, clustersShared, clustersOwn}, f.clusters):
		return 0, fmt.Errorf("--clusters %q is not one of %s, %s, %s", f.clusters, clustersPooled, clustersShared, clustersOwn)
	case f.fairness && f.clusters != clustersShared:
		return 0, errors.New("--fairness needs --clusters shared")
	case f.patience < 0 || f.short < 0 || f.minRunTime < 0 || f.saveTime < 0 || f.preemptAfter < 0 || f.estimateEvery < 0:
		return 0, errors.New("--patience, --preempt-for, --preempt-after, --min-run-time, --save-time and --estimate-every are not below zero")
	case f.estimateEvery > 0 && f.runTimes != "predicted":
		return 0, errors.New("--estimate-every needs --run-times predicted")
	}
	for _, name := range all.policies {
		if err := (&placement.Policy{Fit: fit.PlacementPolicy{Name: name}}).Validate(); err != nil {
			return 0, err
		}
	}
	one, err := parseSeeds(all.seed)
	if err == nil && len(one) != 1 {
		err = fmt.Errorf("--seed %q is not one", all.seed)
	}
	if err != nil {
		return 0, err
	}
	return one[0], nil
}

// loadRoles reads the roles file, if there is one. What refuses submissions is left out: those of a record were accepted.
func (f *timedFlags) loadRoles() (err error) {
	if f.rolesFile == "" {
		return nil
	}
	if f.loaded, err = framework.LoadRoles(f.rolesFile); err != nil {
		return err
	}
	for i := range f.loaded {
		r := &f.loaded[i]
		r.WaitingJobs, r.EachUser.WaitingJobs = 0, 0
		for name, limits := range r.NamedUsers {
			limits.WaitingJobs = 0
			r.NamedUsers[name] = limits
		}
	}
	return nil
}

// withRolesAbove returns the roles and those of the roles file above them, whose limits apply too.
func (f *timedFlags) withRolesAbove(roles []queue.Role) []queue.Role {
	all := slices.Clip(roles)
	for _, r := range f.loaded {
		isKnown := slices.ContainsFunc(all, func(o queue.Role) bool { return o.Name == r.Name })
		if !isKnown && slices.ContainsFunc(roles, func(o queue.Role) bool { return strings.HasPrefix(o.Name, r.Name+"/") }) {
			all = append(all, r)
		}
	}
	return all
}

// newRole returns a role of the record with the settings of the roles file, or else of the flags.
func (f *timedFlags) newRole(name string) queue.Role {
	if i := slices.IndexFunc(f.loaded, func(r queue.Role) bool { return r.Name == name }); i >= 0 {
		return f.loaded[i]
	}
	r := queue.Role{Name: name, Order: queue.Order(f.order), Strict: f.strict}
	if r.Order == queue.ShortestFirst {
		r.Patience = f.patience
	}
	return r
}

// replayCase is one simulated cluster and its jobs.
type replayCase struct {
	agents []replay.ReplayAgent
	roles  []queue.Role
	jobs   []replay.JobRecord
}

// replayRecord is the part of a trace that is replayed, and the number of omitted jobs
// with the reason.
type replayRecord struct {
	cases []replayCase
	// own has a case for each virtual cluster alone, with --fairness.
	own           []replayCase
	leftOut       int
	leftOutReason string
}

// replayReport is the output of -o json.
type replayReport struct {
	Policy   string `json:"policy"`
	Order    string `json:"order"`
	Strict   bool   `json:"strict"`
	RunTimes string `json:"run_times"`
	Clusters string `json:"clusters"`
	Seed     int64  `json:"seed"`
	// LeftOut counts the jobs of the trace that cannot be replayed.
	LeftOut        int    `json:"left_out"`
	LeftOutBecause string `json:"left_out_because,omitempty"`
	// BoundMean is a lower bound of the mean completion time of any schedule in which
	// the clusters have the same GPUs, in seconds.
	BoundMean          float64 `json:"bound_mean_completion"`
	DecisionsPerSecond float64 `json:"decisions_per_second"`
	*replay.ReplayResult
}

// simulateTimed replays a trace with a virtual clock, once for each policy.
func (a *simulateCommands) simulateTimed(ctx context.Context, all *simulateFlags) error {
	f := &all.timed
	seed, err := f.validate(all)
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(replay.MemoryLimit))
	}
	record, err := a.loadRecord(ctx, all.agents, all.tasks, f)
	if err != nil {
		return err
	}
	jobs := int64(0)
	for _, c := range slices.Concat(record.cases, record.own) {
		jobs += int64(len(c.jobs))
	}
	ended, done := a.StartCountBar("replaying", "jobs", jobs*int64(len(all.policies)))
	var reports []*replayReport
	for _, policy := range all.policies {
		r, err := record.replayPolicy(ctx, policy, seed, f, ended)
		if err != nil {
			done()
			return fmt.Errorf("simulate: %w", err)
		}
		reports = append(reports, r)
	}
	done()
	if all.plot != "" {
		if err := writeTimedPlot(all.plot, filepath.Base(all.tasks), f.fairness, reports); err != nil {
			return err
		}
	}
	return a.printReports(reports)
}

// printReports prints a single report in full, and several as one table.
func (a *simulateCommands) printReports(reports []*replayReport) error {
	switch {
	case a.ForPrograms && len(reports) == 1:
		return a.PrintJSON(reports[0])
	case a.ForPrograms:
		return a.PrintJSON(reports)
	case len(reports) == 1:
		return a.printReport(reports[0])
	}
	return a.PrintRows(strings.Replace(reportHead, "SECONDS", "POLICY", 1)+"\tIN USE\tPREEMPTIONS", len(reports), func(i int) string {
		r := reports[i]
		return reportRow(r.Policy, r.Jobs, r.Wait, r.Completion, r.Slowdown) + fmt.Sprintf("\t%.1f %%\t%d", r.Allocation, r.Preemptions)
	}, "P50", "PREEMPTIONS")
}

// writeTimedPlot draws the finish-time fairness of jobs, or else their wait times, with a line for each report.
func writeTimedPlot(path, title string, fairness bool, reports []*replayReport) error {
	var names []string
	var results []*replay.ReplayResult
	for _, r := range reports {
		names, results = append(names, r.Policy), append(results, r.ReplayResult)
	}
	return writePlot(path, func(w io.Writer) error {
		if fairness {
			return replay.PlotFinishTimes(w, "Finish-time fairness: "+title, names, results)
		}
		return replay.PlotWaits(w, "Waiting: "+title, names, results)
	})
}

// replayPolicy replays all cases with one policy.
func (record *replayRecord) replayPolicy(ctx context.Context, policy string, seed int64, f *timedFlags, ended func()) (*replayReport, error) {
	begun := time.Now()
	own, err := replayOwnShares(ctx, record.own, policy, seed, f, ended)
	if err != nil {
		return nil, err
	}
	countEnded := func(*replay.JobRecord, time.Duration, time.Duration) { ended() }
	list, err := replayCases(ctx, record.cases, policy, seed, f, own, countEnded)
	if err != nil {
		return nil, err
	}
	r := &replayReport{
		Policy: policy, Order: f.order, Strict: f.strict, RunTimes: f.runTimes, Clusters: f.clusters, Seed: seed,
		LeftOut: record.leftOut, LeftOutBecause: record.leftOutReason, ReplayResult: replay.MergeResults(list...),
	}
	r.DecisionsPerSecond = float64(r.Launches) / time.Since(begun).Seconds()
	for i := range record.cases {
		r.BoundMean += replay.CompletionBound(slices.Values(record.cases[i].jobs), list[i].GPUs) * float64(list[i].Jobs) / float64(max(r.Jobs, 1))
	}
	return r, nil
}

// replayOwnShares replays each virtual cluster alone and returns the completion times of jobs by name.
func replayOwnShares(ctx context.Context, cases []replayCase, policy string, seed int64, f *timedFlags, ended func()) (map[string]time.Duration, error) {
	var mu sync.Mutex
	completions := map[string]time.Duration{}
	_, err := replayCases(ctx, cases, policy, seed, f, nil, func(w *replay.JobRecord, _, at time.Duration) {
		mu.Lock()
		completions[w.Spec.Name] = at - w.ArrivesAt
		mu.Unlock()
		ended()
	})
	return completions, err
}

// replayCases replays the cases in parallel, as many at a time as there are cores.
func replayCases(
	ctx context.Context, cases []replayCase, policy string, seed int64, f *timedFlags, own map[string]time.Duration,
	ended func(w *replay.JobRecord, started, ended time.Duration),
) ([]*replay.ReplayResult, error) {
	list, errs := make([]*replay.ReplayResult, len(cases)), make([]error, len(cases))
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i, c := range cases {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			cfg := replay.ReplaySettings{
				Agents:        c.agents,
				RunTimes:      replay.RunTimeSource(f.runTimes),
				Short:         f.short,
				MinRunTime:    f.minRunTime,
				SaveTime:      f.saveTime,
				PreemptAfter:  f.preemptAfter,
				EstimateEvery: f.estimateEvery,
				Seed:          seed,
				Stop:          ctx.Err,
			}
			cfg.OwnShare, cfg.JobEnded = own, ended
			cfg.Sched.Policy.Fit.Name, cfg.Sched.Policy.Roles = policy, f.withRolesAbove(c.roles)
			cfg.Sched.Policy.Reclaim = placement.ReclaimPolicy(f.reclaim)
			list[i], errs[i] = replay.RunReplay(cfg, slices.Values(c.jobs))
		})
	}
	all.Wait()
	return list, errors.Join(errs...)
}

// printReport prints a report as text, with times in seconds.
func (a *simulateCommands) printReport(r *replayReport) error {
	fmt.Fprintf(a.Stdout, "%d agents, %d GPUs, %d jobs in %s; %d left out, %d refused, %d never started\n", r.Agents,
		r.GPUs, r.Jobs, formatSpan(r.Span), r.LeftOut, r.Refused, r.Never)
	fmt.Fprintf(a.Stdout, "GPUs in use %.1f %%, free while tasks waited %.1f %%, of the free ones on agents in use %.1f %%\n", r.Allocation, r.Idle, r.Broken)
	fmt.Fprintf(a.Stdout,
		"mean completion %.0f s, no schedule below %.0f s; fairness of roles %.2f; %d preemptions lost %.0f GPU hours\n",
		r.Completion.Mean, r.BoundMean, r.Fairness, r.Preemptions, r.Lost/3600)
	if e := r.Error; e != nil {
		fmt.Fprintf(a.Stdout, "%d predictions: half off by at most %.1f times, %.0f %% by at most 2\n", e.Jobs, e.Median, e.Within2)
	}
	if e := r.Estimates; e != nil {
		fmt.Fprintf(a.Stdout,
			"%d estimates of starts: half off by at most %.0f s, 90 %% by %.0f s, where the median wait was %.0f s; "+
				"%.0f %% and %.0f %% started within the bounds of 50 and 90 %%\n",
			e.Jobs, e.Median, e.P90, e.MedianWait, e.Within50, e.Within90)
	}
	if r.FinishTimeFairness != (replay.SampleStats{}) {
		fmt.Fprintln(a.Stdout, "completion divided by that of the virtual cluster alone on its agents:")
		printFairness := func(name string, s replay.SampleStats, late, jobs int) {
			fmt.Fprintf(a.Stdout,
				"  %s: mean %.2f, median %.2f, 99th percentile %.2f, worst %.2f; %d of %d jobs above %g\n", name,
				s.Mean, s.P50, s.P99, s.Max, late, jobs, replay.LateFrom)
		}
		printFairness("all", r.FinishTimeFairness, r.LateJobs, r.Jobs)
		for _, name := range sortedKeys(r.Roles) {
			g := r.Roles[name]
			printFairness("role "+name, g.FinishTimeFairness, g.LateJobs, g.Jobs)
		}
	}
	fmt.Fprintf(a.Stdout, "%d launches in %d cycles, %.0f decisions/s\n\n", r.Launches, r.Cycles, r.DecisionsPerSecond)
	rows := []string{reportRow("all", r.Jobs, r.Wait, r.Completion, r.Slowdown)}
	if g := r.Preemptors; g != nil {
		rows = append(rows, reportRow("may preempt", g.Jobs, g.Wait, g.Completion, g.Slowdown))
	}
	for _, name := range sortedKeys(r.Roles) {
		g := r.Roles[name]
		rows = append(rows, reportRow("role "+cmp.Or(name, "(default)"), g.Jobs, g.Wait, g.Completion, g.Slowdown))
	}
	for _, gpus := range sortedKeys(r.Sizes) {
		g := r.Sizes[gpus]
		rows = append(rows, reportRow(fmt.Sprintf("%d GPUs", gpus), g.Jobs, g.Wait, g.Completion, g.Slowdown))
	}
	if err := a.PrintRows(reportHead, len(rows), func(i int) string { return rows[i] }, "P50"); err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout)
	models := sortedKeys(r.Types)
	return a.PrintRows("TYPE\tGPUS\tIN USE", len(models), func(i int) string {
		return fmt.Sprintf("%s\t%d\t%.1f %%", models[i], r.Types[models[i]].GPUs, r.Types[models[i]].Allocation)
	})
}

const reportHead = "SECONDS\tJOBS\tWAIT MEAN\tP50\tP99\tCOMPLETION MEAN\tP50\tP99\tSLOWDOWN"

func reportRow(name string, jobs int, wait, complete, slow replay.SampleStats) string {
	return strings.Join([]string{
		name, fmt.Sprint(jobs), fmt.Sprintf("%.0f\t%.0f\t%.0f", wait.Mean, wait.P50, wait.P99),
		fmt.Sprintf("%.0f\t%.0f\t%.0f", complete.Mean, complete.P50, complete.P99), fmt.Sprintf("%.1f", slow.Mean),
	}, "\t")
}

func formatSpan(seconds float64) string {
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
