package sched

import (
	"slices"
	"time"

	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/job"
)

// Limits of the notifications in the journal. If there are more, new ones are dropped and counted, and the oldest ones
// whose delivery was given up are forgotten.
const (
	maxNotifications          = 10_000
	maxNotificationsPerTarget = 1000
	maxFailedNotifications    = 1000
)

// notificationQueue holds the notifications that were not delivered. Each is a document; the journal records it together
// with its event.
type notificationQueue struct {
	// documents has one document for each notification.
	documents *documentStore
	// byID are the notifications. Entries are changed together with their documents.
	byID map[string]*notification.Notification
	// perTarget counts those of each target, failed those whose delivery was given up.
	perTarget map[string]int
	failed    int
}

// restore reads the recorded notifications, and deletes those that cannot be decoded.
func (q *notificationQueue) restore() {
	var damaged []string
	for key, value := range q.documents.DocumentsIn(notification.Prefix()) {
		if _, n, _ := notification.Parse(key, value); n != nil {
			q.index(n)
		} else {
			damaged = append(damaged, key)
		}
	}
	for _, key := range damaged {
		q.documents.writeDocument(key, nil)
	}
}

func (q *notificationQueue) index(n *notification.Notification) {
	if q.byID == nil {
		q.byID, q.perTarget = map[string]*notification.Notification{}, map[string]int{}
	}
	q.byID[n.ID] = n
	q.perTarget[n.To]++
	if n.IsFailed() {
		q.failed++
	}
}

// add records a notification. It returns false if there are too many.
func (q *notificationQueue) add(n *notification.Notification) bool {
	if len(q.byID) >= maxNotifications || q.perTarget[n.To] >= maxNotificationsPerTarget {
		return false
	}
	q.index(n)
	q.write(n)
	return true
}

func (q *notificationQueue) write(n *notification.Notification) {
	q.documents.writeJSONDocument(notification.DocumentKey(n.ID), n)
}

// remove forgets a notification, if it exists.
func (q *notificationQueue) remove(id string) {
	n, ok := q.byID[id]
	if !ok {
		return
	}
	delete(q.byID, id)
	if q.perTarget[n.To]--; q.perTarget[n.To] == 0 {
		delete(q.perTarget, n.To)
	}
	if n.IsFailed() {
		q.failed--
	}
	q.documents.writeDocument(notification.DocumentKey(id), nil)
}

// recordResult records the outcome of an attempt to deliver a notification.
func (q *notificationQueue) recordResult(r notification.Result, now time.Time) {
	n, ok := q.byID[r.ID]
	switch {
	case !ok:
		return
	case r.Delivered:
		q.remove(r.ID)
		return
	case n.Round != r.Round || n.IsFailed():
		return
	}
	n.Attempts++
	n.Error, n.Next = r.Error, r.Next
	if r.Next.IsZero() {
		n.GivenUp = now
		q.failed++
	}
	q.write(n)
	for q.failed > maxFailedNotifications {
		q.remove(q.oldestFailed().ID)
	}
}

func (q *notificationQueue) oldestFailed() (oldest *notification.Notification) {
	for _, n := range q.byID {
		if n.IsFailed() && (oldest == nil || n.GivenUp.Before(oldest.GivenUp) || n.GivenUp.Equal(oldest.GivenUp) && n.ID < oldest.ID) {
			oldest = n
		}
	}
	return oldest
}

// retry makes the delivery of a notification due at once, and starts a new round of attempts.
func (q *notificationQueue) retry(id string, now time.Time) {
	n, ok := q.byID[id]
	if !ok {
		return
	}
	if n.IsFailed() {
		q.failed--
	}
	n.Delivery = notification.Delivery{Round: n.Round + 1, RoundStart: now, Error: n.Error}
	q.write(n)
}

// HasNotification reports whether a notification is pending or was given up.
func (s *State) HasNotification(id string) bool { return s.notifications.byID[id] != nil }

// notificationTargets returns the targets of an event of a job: those of the job, of its role and of the roles above it.
func (s *State) notificationTargets(spec *job.Spec, event job.NotificationEvent) (targets []string) {
	add := func(rules []job.NotificationRule) {
		for i := range rules {
			if to := rules[i].To; rules[i].Selects(event) && !slices.Contains(targets, to) {
				targets = append(targets, to)
			}
		}
	}
	add(spec.Notify)
	for i := range s.cfg.Policy.Roles {
		if r := &s.cfg.Policy.Roles[i]; len(r.Notify) > 0 && admission.CoversRole(r.Name, spec.Role) {
			add(r.Notify)
		}
	}
	return targets
}

// notifyTask records notifications of an event of one task. Events of several tasks of a job in one Step are one
// notification.
func (s *State) notifyTask(ref taskRef, event job.NotificationEvent, reason string) {
	targets := s.notificationTargets(ref.job.Spec, event)
	if len(targets) == 0 {
		return
	}
	t := ref.get()
	f := s.jobFacts(ref.job, event, reason)
	f.Hostname, f.ExitCode = t.Hostname, t.ExitCode
	f.AddTask(t.ID)
	for _, to := range targets {
		n := notification.New(to, f)
		if earlier := s.notifications.byID[n.ID]; earlier != nil {
			earlier.AddTask(t.ID)
			earlier.State = f.State
			s.notifications.write(earlier)
			continue
		}
		s.addNotification(n)
	}
}

func (s *State) addNotification(n *notification.Notification) {
	if !s.notifications.add(n) {
		s.changes.NotificationsDropped++
	}
}

// jobFacts returns the facts of an event of a job, without tasks.
func (s *State) jobFacts(j *job.Job, event job.NotificationEvent, reason string) notification.Facts {
	f := notification.Facts{
		Event: event, Time: s.now, Job: j.Spec.Name, Run: j.RunID().Run, Role: j.Spec.Role, Owner: j.Spec.Owner,
		State: j.State(), Reason: reason, Submitted: j.Submitted,
	}
	for i := range j.Tasks {
		if at := j.Tasks[i].Started; !at.IsZero() && (f.Started.IsZero() || at.Before(f.Started)) {
			f.Started = at
		}
	}
	return f
}

// notifyOnce records notifications of an event that is reported once in a run of a job.
func (s *State) notifyOnce(ref taskRef, event job.NotificationEvent, reason string) {
	j := ref.job
	if slices.Contains(j.Notified, event) || len(s.notificationTargets(j.Spec, event)) == 0 {
		return
	}
	j.Notified = append(slices.Clip(j.Notified), event)
	s.changes.markJob(j)
	s.notifyTask(ref, event, reason)
}

// notifyStart reports that a task runs, if it is the first one of its run.
func (s *State) notifyStart(ref taskRef) {
	if slices.Contains(ref.job.Notified, job.NotifyStart) || len(s.notificationTargets(ref.job.Spec, job.NotifyStart)) == 0 {
		return
	}
	for i := range ref.job.Tasks {
		if i != ref.index && !ref.job.Tasks[i].Started.IsZero() {
			return // it started before the rule was added
		}
	}
	s.notifyOnce(ref, job.NotifyStart, "")
}

// notifyJobEnd reports the end of a run.
func (s *State) notifyJobEnd(j *job.Job) {
	state := j.State()
	event := job.NotifyFailure
	if state == job.Finished || state == job.Killed {
		event = job.NotifyEnd
	}
	targets := s.notificationTargets(j.Spec, event)
	if len(targets) == 0 {
		return
	}
	f := s.jobFacts(j, event, "")
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.State != state {
			continue
		}
		if f.Tasks == 0 {
			f.Reason, f.ExitCode, f.Hostname = t.Message, t.ExitCode, t.Hostname
			if f.Reason == "" {
				f.Reason = t.Reason
			}
		}
		f.AddTask(t.ID)
		if t.Ended.After(f.Ended) {
			f.Ended = t.Ended
		}
	}
	for _, to := range targets {
		s.addNotification(notification.New(to, f))
	}
}

// notifyStopRequest reports that the end of a task was requested, for reasons of which targets are notified.
func (s *State) notifyStopRequest(ref taskRef, why job.KillReason, message string) {
	switch why {
	case job.KillByPreemption, job.KillByDrain:
		s.notifyTask(ref, job.NotifyPreemption, message)
	case job.KillByIdle:
		s.notifyTask(ref, job.NotifyIdle, message)
	}
}

// notifyAttemptEnd reports ends of attempts that are followed by another one: of services that fail, and of tasks whose
// agent was drained by Mesos.
func (s *State) notifyAttemptEnd(ref taskRef, old *job.Task, o attemptResult, again bool) {
	switch {
	case !old.KillRequested.IsZero() || !again || o.mismatch != "":
	case o.drained && o.state != job.Finished:
		s.notifyTask(ref, job.NotifyPreemption, "its agent is drained")
	case ref.job.Spec.Service != nil && !o.drained && o.state != job.Finished && old.State != job.Launching:
		reason := o.message
		if reason == "" {
			reason = o.reason
		}
		s.notifyTask(ref, job.NotifyFailure, reason)
	}
}

// notifyIdleGPUs reports the runs whose GPUs are idle, once until one of their GPUs is in use.
func (s *State) notifyIdleGPUs(e GPUDutiesMeasured) {
	isNotified := func(j *job.Job) bool { return slices.Contains(j.Notified, job.NotifyGPUIdle) }
	for _, run := range e.Busy {
		if j, ok := s.jobs.FindRun(run); ok && isNotified(j) {
			j.Notified = slices.DeleteFunc(slices.Clone(j.Notified), func(n job.NotificationEvent) bool { return n == job.NotifyGPUIdle })
			s.changes.markJob(j)
		}
	}
	for _, run := range e.Idle {
		j, ok := s.jobs.FindRun(run)
		if !ok || isNotified(j) || len(s.notificationTargets(j.Spec, job.NotifyGPUIdle)) == 0 {
			continue
		}
		j.Notified = append(slices.Clip(j.Notified), job.NotifyGPUIdle)
		s.changes.markJob(j)
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Running {
				s.notifyTask(taskRef{j, i}, job.NotifyGPUIdle, e.Reason)
			}
		}
	}
}

// notifyQuota reports that a job waits because its role has used its quota.
func (s *State) notifyQuota(j *job.Job, reason string) {
	for i := range j.Tasks {
		if j.Tasks[i].State == job.Waiting {
			s.notifyOnce(taskRef{j, i}, job.NotifyQuota, reason)
			return
		}
	}
}
