package accounting

import (
	"context"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const (
	// maxUsageReads bounds how many files are read from agents at a time, maxUsageTries the reads for one attempt.
	maxUsageReads, maxUsageTries = 8, 3
	// usageRetryInterval is the time between two tries.
	usageRetryInterval = 30 * time.Second
	// maxUsageAge is how long after its end the usage of an attempt is read by a new leader. Later its usage counts as
	// unknown, although the record remains pending.
	maxUsageAge = 24 * time.Hour
)

// unmeasuredAttempt is a stored attempt whose usage is to be read from its agent.
type unmeasuredAttempt struct {
	record attemptRecord
	task   job.Task
	// tries counts the reads that failed.
	tries int
}

// ReadUsage stores what agents have measured of ended attempts, until ctx ends. read returns the last usage file of an
// attempt, and isMissing reports whether its error means that the file does not exist. ReadUsage runs on the leader, between the calls
// of Lead and of the function that Lead returns. It takes new attempts at once, and repeats failed reads every
// usageRetryInterval. Attempts that it has not read when ctx ends stay pending for the next leader.
func (r *Recorder) ReadUsage(ctx context.Context, read func(context.Context, *job.Task) (gpu.TaskUsage, error), isMissing func(error) bool) error {
	retry := time.NewTicker(usageRetryInterval)
	defer retry.Stop()
	restored := false // whether earlier attempts were added, which takes an open file
	var failed []unmeasuredAttempt
	for {
		if !restored {
			restored = r.restoreUnmeasured()
		}
		r.mu.Lock()
		list, changed := r.unmeasured, r.changed
		r.unmeasured = nil
		r.mu.Unlock()
		failed = append(failed, r.readAll(ctx, list, read, isMissing)...)
		if len(list) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-retry.C:
			failed = r.readAll(ctx, failed, read, isMissing)
		case <-ctx.Done():
			return nil
		}
	}
}

// readAll reads the usage of the attempts and returns those to try again.
func (r *Recorder) readAll(
	ctx context.Context, list []unmeasuredAttempt, read func(context.Context, *job.Task) (gpu.TaskUsage, error),
	isMissing func(error) bool,
) (failed []unmeasuredAttempt) {
	var mu sync.Mutex
	var reads sync.WaitGroup
	slots := make(chan struct{}, maxUsageReads)
	for _, a := range list {
		slots <- struct{}{}
		reads.Go(func() {
			defer func() { <-slots }()
			usage, err := read(ctx, &a.task)
			if a.tries++; err != nil && (ctx.Err() != nil || !isMissing(err) && a.tries < maxUsageTries) {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, a)
				return
			}
			r.storeUsage(&a.record, usage)
		})
	}
	reads.Wait()
	return failed
}

// storeUsage stores the usage of an attempt, or that nothing is known of it if usage has no totals.
func (r *Recorder) storeUsage(one *attemptRecord, usage gpu.TaskUsage) {
	f, err := r.openedFile()
	if err != nil {
		return // the next leader reads it
	}
	state := usageUnknown
	m, ok := one.measuredUsage(&usage)
	if ok {
		state = usageMeasured
	}
	if err := f.setUsage(formatKey(one.ended, one.id), state, m); err != nil {
		if _, closed := r.openedFile(); closed != nil {
			return // Run has closed the file meanwhile
		}
		r.cfg.Log.WithField("task", one.id).WithError(err).Warn("its GPU usage is not accounted for")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announceChange()
}

// restoreUnmeasured adds the attempts of the last day whose usage is not known and that the read model contains. It
// returns false while the file is not open.
func (r *Recorder) restoreUnmeasured() bool {
	r.mu.Lock()
	f, m := r.file, r.model
	r.mu.Unlock()
	if f == nil || m == nil {
		return false
	}
	var list []unmeasuredAttempt
	err := f.eachRecord(unixNano(r.cfg.Clock().Add(-maxUsageAge)), 0, nil, func(one *attemptRecord) bool {
		if one.usageState == usagePending {
			if t, err := m.FindTask(one.id); err == nil {
				list = append(list, unmeasuredAttempt{record: one.clone(), task: t})
			}
		}
		return true
	})
	if err != nil {
		r.cfg.Log.WithError(err).Warn("the usage of earlier attempts is not read")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := map[string]bool{}
	for i := range r.unmeasured {
		known[r.unmeasured[i].record.id] = true
	}
	for _, a := range list {
		if !known[a.record.id] {
			r.unmeasured = append(r.unmeasured, a)
		}
	}
	return true
}

// AccountJob sums up the ended attempts of a run that was submitted then. It waits until their usage is read, up to
// maxWait.
func (r *Recorder) AccountJob(ctx context.Context, run job.RunID, submitted time.Time, maxWait time.Duration) (api.JobAccounting, error) {
	late := time.After(maxWait)
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		one, err := r.accountJob(ctx, run, submitted)
		if err != nil || one.Pending == 0 {
			return one, err
		}
		select {
		case <-changed:
		case <-late:
			return one, nil
		case <-ctx.Done():
			return one, nil
		}
	}
}

// accountJob sums up the attempts whose ends were recorded before the call. Pending counts those whose usage may still
// be read.
func (r *Recorder) accountJob(ctx context.Context, run job.RunID, submitted time.Time) (api.JobAccounting, error) {
	one := api.JobAccounting{Job: run.Name, Run: run.Run}
	if err := r.awaitStored(ctx); err != nil {
		return one, err
	}
	f, err := r.openedFile()
	if err != nil {
		return one, err
	}
	list, err := f.recordsOfRun(run, submitted)
	for i := range list {
		all := list[i].milliGPUs()
		addSums(&one.AccountingSums, &list[i], all, all)
		if list[i].usageState == usagePending && r.cfg.Clock().Sub(timeOf(list[i].ended)) < maxUsageAge {
			one.Pending++
		}
	}
	return one, err
}
