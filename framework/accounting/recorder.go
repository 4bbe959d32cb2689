package accounting

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// Defaults of RecorderConfig.
const (
	DefaultKeep   = 400 * 24 * time.Hour
	DefaultMaxMiB = 2 << 10
)

const (
	// retryInterval is the time between two tries to write the file, removeInterval that between two removals of old
	// records.
	retryInterval, removeInterval = 10 * time.Second, time.Hour
	// writeBatch is how many ends one transaction stores.
	writeBatch = 1000
	// maxQueuedEnds is how many ends wait for the file in memory. If there are more, they are read from the read model
	// when the file can be written.
	maxQueuedEnds = 200_000
)

// RecorderConfig configures a Recorder.
type RecorderConfig struct {
	// Path is the file.
	Path string
	// Keep is how long records are kept, MaxMiB how much of the file they may use. Zero values are the defaults.
	Keep   time.Duration
	MaxMiB int64
	Clock  func() time.Time
	Log    logrus.FieldLogger
}

// Recorder stores the ends of attempts that a read model contains, of the leader or of a standby. An end that cannot be
// stored is stored later: the scheduler does not depend on the file. There is one for the life of the process, which
// survives changes between leader and standby; its model belongs to the present role.
//
// Ends pass through three stages: queue, then writing, then the file. Only the goroutine of Run takes and writes them.
// Observers and readers never wait for the disk while they hold mu.
type Recorder struct {
	cfg RecorderConfig
	// wake has an element while the writer may have something to do.
	wake chan struct{}

	// mu protects the fields below.
	mu sync.Mutex
	// file is nil until Run has opened it, and after Run has returned.
	file *attemptFile
	// failure is why the file cannot be written, nil if it can. After Run has returned it is errClosed.
	failure error
	// queue are the ends to store. model is the read model that contains them; rescan is set if the queue lacks some.
	// writing is how many ends the writer has taken from the queue and not stored yet.
	queue   []sched.AttemptEnd
	model   *readmodel.Model
	rescan  bool
	writing int
	// changed is closed and replaced when ends are stored, when usage is stored and when failure changes.
	changed chan struct{}
	// confirm is called with the ids of stored ends, nil on a standby.
	confirm func(ids []string)
	// unmeasured are the stored attempts whose usage is to be read, while this scheduler leads.
	unmeasured []unmeasuredAttempt
	// stored and lost count attempts since the start of the process.
	stored, lost int
}

// New returns a recorder that Run starts.
func New(cfg RecorderConfig) *Recorder {
	cfg.Keep, cfg.MaxMiB = cmp.Or(cfg.Keep, DefaultKeep), cmp.Or(cfg.MaxMiB, DefaultMaxMiB)
	return &Recorder{cfg: cfg, wake: make(chan struct{}, 1), changed: make(chan struct{})}
}

// ObserveAll stores the ends that the model contains. The model is the one of all later calls of ObserveChange. What is
// queued from an earlier model is dropped: the new one contains it, too. It returns at once.
func (r *Recorder) ObserveAll(m *readmodel.Model) {
	r.mu.Lock()
	r.model, r.queue, r.rescan = m, nil, true
	r.mu.Unlock()
	r.notify()
}

// ObserveChange stores the ends of a change that the model contains. It returns at once. The loop of the leader and the
// follower of a standby call it after each change.
func (r *Recorder) ObserveChange(m *readmodel.Model, c journal.Change) {
	ends := m.EndedAttempts(c)
	if len(ends) == 0 {
		return
	}
	r.mu.Lock()
	if r.model = m; len(r.queue)+len(ends) > maxQueuedEnds {
		r.queue, r.rescan = nil, true
	} else { // also before a scan: the model may have forgotten them by then
		r.queue = append(r.queue, ends...)
	}
	r.mu.Unlock()
	r.notify()
}

// notify wakes the writer.
func (r *Recorder) notify() {
	select {
	case r.wake <- struct{}{}:
	default: // an element is already there
	}
}

// Lead makes the recorder call confirm with the ids of the ends that are stored, also of those that were stored before
// and are observed again, until the returned function is called. confirm runs in the writer's goroutine and may wait for
// the loop.
func (r *Recorder) Lead(confirm func(ids []string)) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirm, r.unmeasured = confirm, nil
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.confirm, r.unmeasured = nil, nil
	}
}

// CountLost counts ends that were forgotten before they could be stored: the journal keeps a limited number of them while
// the file cannot be written.
func (r *Recorder) CountLost(n int) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	r.lost += n
	r.mu.Unlock()
	r.cfg.Log.WithField("attempts", n).Error("the accounting lacks ended attempts: their records were forgotten while it could not be written")
}

// Run opens the file and writes it until ctx ends. A failure is logged, and it tries again.
func (r *Recorder) Run(ctx context.Context) error {
	defer r.closeFile()
	remove := time.NewTicker(removeInterval)
	defer remove.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	removes := true
	for {
		err := r.writeQueue(ctx, removes)
		r.setFailure(err)
		removes = false
		if err != nil {
			retry.Reset(retryInterval)
		}
		select {
		case <-r.wake:
		case <-retry.C:
		case <-remove.C:
			removes = true
		case <-ctx.Done():
			return nil
		}
	}
}

// closeFile closes the file when Run returns. Readers get errClosed from then on.
func (r *Recorder) closeFile() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		_ = r.file.close()
	}
	r.file, r.failure = nil, errClosed
}

// errClosed means that the scheduler stops.
var errClosed = fmt.Errorf("the scheduler stops")

// setFailure sets why the file cannot be written, and logs when that changes.
func (r *Recorder) setFailure(err error) {
	r.mu.Lock()
	before := r.failure
	r.failure = err
	r.announceChange()
	r.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		r.cfg.Log.WithError(err).Error("ended attempts are not accounted for now: the scheduler goes on, and tries again")
	case err == nil && before != nil:
		r.cfg.Log.Info("ended attempts are accounted again")
	}
}

// announceChange wakes those that wait for a change. The caller holds the lock.
func (r *Recorder) announceChange() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// writeQueue opens the file if it is not open, and stores what is queued.
func (r *Recorder) writeQueue(ctx context.Context, removes bool) error {
	f, err := r.openOnce()
	if err != nil {
		return err
	}
	if removes {
		if err := r.removeOld(ctx, f); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		ends := r.takeBatch()
		if len(ends) == 0 {
			return nil
		}
		if err := r.writeBatch(f, ends); err != nil {
			r.returnBatch(ends)
			return err
		}
	}
	return nil
}

// openOnce returns the file, which it opens if it is not open.
func (r *Recorder) openOnce() (*attemptFile, error) {
	r.mu.Lock()
	f := r.file
	r.mu.Unlock()
	if f != nil {
		return f, nil
	}
	f, err := openAttemptFile(r.cfg.Path)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.file = f
	return f, nil
}

// takeBatch takes the next ends to store from the queue.
func (r *Recorder) takeBatch() []sched.AttemptEnd {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rescan {
		r.rescan, r.queue = false, append(r.model.AllEndedAttempts(), r.queue...) // an end is stored once
	}
	r.writing = min(writeBatch, len(r.queue))
	batch := r.queue[:r.writing:r.writing]
	r.queue = r.queue[r.writing:]
	return batch
}

// returnBatch puts ends that could not be stored back at the front of the queue.
func (r *Recorder) returnBatch(ends []sched.AttemptEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing = 0
	if len(r.queue)+len(ends) > maxQueuedEnds {
		r.queue, r.rescan = nil, true
		return
	}
	r.queue = append(ends, r.queue...)
}

// writeBatch stores ends, confirms them and adds those with measured GPUs to unmeasured. Confirmed are all of them, not
// only the new ones: a confirmation may have been lost with an earlier leader.
func (r *Recorder) writeBatch(f *attemptFile, ends []sched.AttemptEnd) error {
	added, err := f.addEnds(ends)
	if err != nil {
		return fmt.Errorf("write %s: %w", r.cfg.Path, err)
	}
	ids := make([]string, len(ends))
	tasks := make(map[string]*job.Task, len(ends))
	for i := range ends {
		ids[i] = ends[i].Task.ID
		tasks[ids[i]] = &ends[i].Task
	}
	r.mu.Lock()
	confirm := r.confirm
	r.mu.Unlock()
	if confirm != nil {
		confirm(ids)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored, r.writing = r.stored+len(added), 0
	for i := range added {
		if confirm != nil && added[i].usageState == usagePending {
			r.unmeasured = append(r.unmeasured, unmeasuredAttempt{record: added[i], task: *tasks[added[i].id]})
		}
	}
	r.announceChange()
	return nil
}

// removeOld removes records that are too old or too many.
func (r *Recorder) removeOld(ctx context.Context, f *attemptFile) error {
	before := r.cfg.Clock().Add(-r.cfg.Keep)
	for ctx.Err() == nil {
		if more, err := f.removeOldest(unixNano(before), r.cfg.MaxMiB<<20); err != nil || !more {
			return err
		}
	}
	return nil
}

// openedFile returns the file, or why it is not available.
func (r *Recorder) openedFile() (*attemptFile, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil, api.NewUnavailable("the accounting is not available: %v", cmp.Or(r.failure, errOpening))
	}
	return r.file, nil
}

// errOpening means that the file is not open yet.
var errOpening = fmt.Errorf("its file is being opened")

// awaitStored waits until what was observed before the call is stored, or the file cannot be written: reports then lack
// the latest ends. Ends that are observed meanwhile prolong the wait.
func (r *Recorder) awaitStored(ctx context.Context) error {
	for {
		r.mu.Lock()
		pending, failure, changed := len(r.queue)+r.writing > 0 || r.rescan, r.failure, r.changed
		r.mu.Unlock()
		if !pending || failure != nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return api.NewUnavailable("the request ended before the accounting was up to date: %v", context.Cause(ctx))
		}
	}
}

// Report sums up the selected attempts, with those whose ends were recorded before the call.
func (r *Recorder) Report(ctx context.Context, q *Query) (api.AccountingReport, error) {
	if err := r.awaitStored(ctx); err != nil {
		return api.AccountingReport{}, err
	}
	f, err := r.openedFile()
	if err != nil {
		return api.AccountingReport{}, err
	}
	return f.sumRecords(q)
}

// ListAttempts returns at most limit selected attempts, 0 for all, after the one with the key after, and the key of the
// last one if more follow.
func (r *Recorder) ListAttempts(ctx context.Context, q *Query, limit int, after []byte) (list []api.AccountedAttempt, next []byte, err error) {
	if err := r.awaitStored(ctx); err != nil {
		return nil, nil, err
	}
	f, err := r.openedFile()
	if err != nil {
		return nil, nil, err
	}
	return f.listRecords(q, limit, after)
}

// Figures returns the present figures for metrics, nil for a nil recorder.
func (r *Recorder) Figures() *metrics.AccountingFigures {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &metrics.AccountingFigures{Stored: r.stored, Lost: r.lost, Waiting: len(r.queue) + r.writing, Failed: r.failure != nil}
	if r.file != nil {
		s.Bytes = r.file.usedBytes()
	}
	return s
}
