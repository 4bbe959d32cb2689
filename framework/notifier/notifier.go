// Package notifier delivers notifications, which the journal keeps until then, to webhooks and by mail. Package
// notification decides what is sent. Each notification is delivered at least once: if a scheduler ends between a
// delivery and the record of it, the next one delivers it again, with the same id.
package notifier

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

const (
	// defaultTimeout limits one delivery.
	defaultTimeout = 15 * time.Second
	// maxDeliveries limits the deliveries in progress, maxPerTarget those to one target, so that targets that do not
	// answer leave deliveries for others.
	maxDeliveries = 32
	maxPerTarget  = 2
	// maxErrorLength limits a recorded error, in characters.
	maxErrorLength = 300
)

// NotifierConfig configures a Notifier.
type NotifierConfig struct {
	// timeout limits one delivery; 0 for the default.
	timeout time.Duration
	Clock   func() time.Time
	Log     logrus.FieldLogger
}

// Notifier delivers notifications while its scheduler leads. Its counters continue when it leads again.
type Notifier struct {
	cfg NotifierConfig
	// reconfigured has an element after the settings were replaced.
	reconfigured chan struct{}

	// mu protects the fields below.
	mu sync.Mutex
	// settings and webhooks are replaced together by Configure, never modified.
	settings *Settings
	webhooks *webhookClient
	// figures count since the start of the process.
	figures metrics.NotificationFigures
}

// New returns a notifier with the settings.
func New(s *Settings, cfg NotifierConfig) *Notifier {
	cfg.timeout = cmp.Or(cfg.timeout, defaultTimeout)
	n := &Notifier{cfg: cfg, reconfigured: make(chan struct{}, 1)}
	n.Configure(s)
	return n
}

// Configure replaces the settings. Deliveries in progress continue with the earlier ones.
func (n *Notifier) Configure(s *Settings) {
	n.mu.Lock()
	if n.webhooks != nil {
		n.webhooks.client.CloseIdleConnections()
	}
	n.settings, n.webhooks = s, newWebhookClient(s, n.cfg.timeout, n.cfg.Clock)
	n.mu.Unlock()
	select {
	case n.reconfigured <- struct{}{}:
	default: // an element is already there
	}
}

// current returns the settings and the client that belongs to them.
func (n *Notifier) current() (*Settings, *webhookClient) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.settings, n.webhooks
}

// attemptKey identifies one attempt to deliver a notification. The record of its outcome changes it, so that an attempt
// whose outcome the model does not contain yet is not started again.
type attemptKey struct{ round, attempts int }

func keyOf(n *notification.Notification) attemptKey { return attemptKey{n.Round, n.Attempts} }

// delivery is the outcome of one attempt to deliver notifications: one, or those of a digest, which have the same
// recipient. err is nil if they were accepted.
type delivery struct {
	list []*notification.Notification
	err  error
}

// deliveryRun is the state of one call of Deliver, whose goroutine owns it. Each delivery has a goroutine of its own, which
// returns the outcome by done.
type deliveryRun struct {
	*Notifier
	model *readmodel.Model
	// readErrors reads the end of a task's standard error.
	readErrors ErrorReader
	// started are the attempts that have started, by notification. They stay until the model has their outcome.
	started map[string]attemptKey
	// busy counts the deliveries in progress by target, total all of them.
	busy  map[string]int
	total int
	// mails limits the mails to each recipient. A new leader starts to count at 0.
	mails notification.RateLimiter
	// done has space for all deliveries in progress, so that none waits for Deliver.
	done chan delivery
}

// ErrorReader returns the last lines of the standard error of the task that a failure is about, or none if the target may not
// read them or they cannot be read.
type ErrorReader func(ctx context.Context, n *notification.Notification) []string

// errorReadTimeout limits reading a task's standard error, for example from an agent that is gone.
const errorReadTimeout = 5 * time.Second

// Deliver delivers the notifications that the model contains and will contain, until ctx ends. Mails of failures have what
// readErrors returns. It reports the outcomes by send. A notification whose outcome is not recorded before ctx ends is delivered again by the next leader.
func (n *Notifier) Deliver(ctx context.Context, m *readmodel.Model, readErrors ErrorReader, send func(sched.Event)) error {
	run := &deliveryRun{
		Notifier:   n,
		model:      m,
		readErrors: readErrors,
		started:    map[string]attemptKey{},
		busy:       map[string]int{},
		done:       make(chan delivery, maxDeliveries),
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		if next := run.startDue(ctx, &workers); !next.IsZero() {
			wait.Reset(max(next.Sub(n.cfg.Clock()), 0))
		}
		select {
		case d := <-run.done:
			run.finish(d, send)
		case <-m.NotificationsChanged():
		case <-n.reconfigured:
		case <-wait.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// startDue starts the deliveries that are due, oldest first. It returns when the next one is due, zero if that depends on
// a change. Webhooks are delivered one by one; several may go to one target at a time. A recipient gets one mail at a
// time: the last mail that its limit allows has all that is due.
func (r *deliveryRun) startDue(ctx context.Context, workers *sync.WaitGroup) (next time.Time) {
	now := r.cfg.Clock()
	s, _ := r.current()
	postpone := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	var due []*notification.Notification
	present := map[string]bool{}
	for _, n := range r.model.Notifications() {
		present[n.ID] = true
		switch key, started := r.started[n.ID]; {
		case n.IsFailed(), started && key == keyOf(n):
		case n.Next.After(now):
			postpone(n.Next)
		default:
			due = append(due, n)
		}
	}
	for id := range r.started {
		if !present[id] {
			delete(r.started, id)
		}
	}
	slices.SortFunc(due, func(a, b *notification.Notification) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID))
	})
	r.mails.PerWindow = 0
	if s.mail != nil {
		r.mails.PerWindow = s.mail.perHour
	}
	mails := map[string][]*notification.Notification{}
	for _, n := range due {
		if _, isMail := job.MailAddress(n.To); isMail {
			mails[n.To] = append(mails[n.To], n)
		} else if r.total < maxDeliveries && r.busy[n.To] < maxPerTarget {
			r.start(ctx, workers, n)
		}
	}
	for _, n := range due { // in the order of the oldest mail
		list := mails[n.To]
		if len(list) == 0 || r.total >= maxDeliveries || r.busy[n.To] > 0 {
			continue
		}
		delete(mails, n.To)
		if r.mails.PerWindow == 0 { // fails at once: no server is configured
			r.start(ctx, workers, list[0])
			continue
		}
		switch left, at := r.mails.Remaining(n.To, now); {
		case left == 0:
			postpone(at)
		case left == 1:
			r.mails.CountSent(n.To, now)
			r.start(ctx, workers, list...)
		default:
			r.mails.CountSent(n.To, now)
			r.start(ctx, workers, list[0])
		}
	}
	return next
}

// start delivers notifications to one target in another goroutine.
func (r *deliveryRun) start(ctx context.Context, workers *sync.WaitGroup, list ...*notification.Notification) {
	to := list[0].To
	for _, n := range list {
		r.started[n.ID] = keyOf(n)
	}
	r.total++
	r.busy[to]++
	s, webhooks := r.current()
	workers.Go(func() {
		err := ctx.Err()
		if _, isMail := job.MailAddress(to); err == nil && isMail {
			err = sendMail(ctx, s, list, r.readErrorLines(ctx, list), r.cfg.timeout, r.cfg.Clock())
		} else if err == nil {
			err = webhooks.send(ctx, list[0])
		}
		r.done <- delivery{list, err}
	})
}

// readErrorLines returns the end of the standard error for the mail of a single failure.
func (r *deliveryRun) readErrorLines(ctx context.Context, list []*notification.Notification) []string {
	if n := list[0]; len(list) > 1 || n.Event != job.NotifyFailure || len(n.TaskIDs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, errorReadTimeout)
	defer cancel()
	return r.readErrors(ctx, list[0])
}

// finish passes the outcome of a delivery to send. The time of the next attempt is zero after the last one.
func (r *deliveryRun) finish(d delivery, send func(sched.Event)) {
	to := d.list[0].To
	r.total--
	if r.busy[to]--; r.busy[to] == 0 {
		delete(r.busy, to)
	}
	s, _ := r.current()
	r.countDelivery(to, d.err)
	now := r.cfg.Clock()
	results := make([]notification.Result, len(d.list))
	for i, n := range d.list {
		results[i] = notification.Result{ID: n.ID, Round: n.Round, Delivered: d.err == nil}
		if d.err == nil {
			continue
		}
		results[i].Error = truncate(d.err.Error(), maxErrorLength)
		if !errors.As(d.err, new(*permanentError)) {
			results[i].Next = s.Retry.NextAttempt(n, now)
		}
		log := r.cfg.Log.WithFields(logrus.Fields{
			"notification": n.ID,
			"job":          n.Job,
			"event":        n.Event,
			"to":           notification.RedactTarget(n.To),
			"error":        results[i].Error,
		})
		if results[i].Next.IsZero() {
			log.Warn("a notification was not delivered, and is not tried again")
		} else {
			log.WithField("next", results[i].Next).Info("a notification was not delivered, and will be tried again")
		}
	}
	send(sched.NotificationsAttempted{Results: results})
}

// countDelivery counts an attempt in the figures.
func (n *Notifier) countDelivery(to string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	counts := &n.figures.Webhooks
	if _, isMail := job.MailAddress(to); isMail {
		counts = &n.figures.Mails
	}
	if err == nil {
		counts.Sent++
	} else {
		counts.Failed++
	}
}

// CountDropped counts notifications that were not recorded because too many of them wait.
func (n *Notifier) CountDropped(count int) {
	if count == 0 {
		return
	}
	n.mu.Lock()
	n.figures.Dropped += count
	n.mu.Unlock()
	n.cfg.Log.WithField("notifications", count).Warn("notifications are dropped: too many of them were not delivered")
}

// Figures returns the present figures for metrics, nil for a nil notifier. The caller adds those that wait.
func (n *Notifier) Figures() *metrics.NotificationFigures {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	figures := n.figures
	return &figures
}

// IdleGPURule returns when targets are notified of idle GPUs.
func (n *Notifier) IdleGPURule() notification.IdleGPURule {
	s, _ := n.current()
	return s.IdleGPU
}

// AllowedTargets returns the targets that jobs may notify.
func (n *Notifier) AllowedTargets() notification.AllowedTargets {
	s, _ := n.current()
	return s.Targets
}
