// Package notification decides what is sent to which targets about jobs: which targets are allowed, the text of mails
// and the bodies of webhooks, when a failed delivery is tried again, and how many mails a recipient gets. It is pure; package
// notifier sends.
package notification

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mesos-gpu/job"
)

// keyPrefix, followed by its id, is the key of the document of a notification.
const keyPrefix = "notification/"

// Prefix returns the common prefix of the keys of all notifications in the journal.
func Prefix() string { return keyPrefix }

// DocumentKey returns the key of a notification's document in the journal.
func DocumentKey(id string) string { return keyPrefix + id }

// maxNamedTasks limits the task ids in a notification.
const maxNamedTasks = 10

// Notification is a message about an event of a job to one target. The journal keeps it until it is delivered or dropped.
type Notification struct {
	// ID stays the same in all attempts of all schedulers to deliver it, so that a receiver can ignore repetitions.
	ID string `json:"id"`
	// To is the target, as of job.NotificationRule.
	To string `json:"to"`
	Facts
	Delivery
}

// Facts is the content of a notification.
type Facts struct {
	Event job.NotificationEvent `json:"event"`
	// Time is when the event occurred.
	Time time.Time `json:"time"`
	// Job is the name of the job, Run the number of the run. Role and Owner belong to the job.
	Job   string `json:"job"`
	Run   int    `json:"run"`
	Role  string `json:"role,omitempty"`
	Owner string `json:"owner,omitempty"`
	// State is the state of the job at the event, before a task is queued again.
	State job.State `json:"state"`
	// Reason is the cause in words, for example the message of a failed task.
	Reason   string `json:"reason,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	// Tasks is the number of tasks that the event concerns, TaskIDs lists the first of them, and Hostname is the host of the first.
	Tasks    int      `json:"tasks"`
	TaskIDs  []string `json:"task_ids,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	// Submitted, Started and Ended are the times of the job. Started is the start of its first task.
	Submitted time.Time `json:"submitted"`
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
}

// Delivery is the state of the attempts to deliver a notification.
type Delivery struct {
	// Round counts how often an operator has requested the delivery again. Attempts counts the failed attempts of this
	// round, which began at RoundStart; zero is the time of the event.
	Round      int       `json:"round,omitempty"`
	Attempts   int       `json:"attempts,omitempty"`
	RoundStart time.Time `json:"round_start,omitzero"`
	// Next is when the next attempt is due, Error is why the last one failed.
	Next  time.Time `json:"next,omitzero"`
	Error string    `json:"error,omitempty"`
	// GivenUp is when the delivery was given up; zero while it is pending.
	GivenUp time.Time `json:"given_up,omitzero"`
}

// IsFailed reports whether the delivery was given up.
func (d *Delivery) IsFailed() bool { return !d.GivenUp.IsZero() }

// New returns a notification of an event to one target. Equal facts give equal ids.
func New(to string, f Facts) *Notification {
	h := sha256.New()
	submitted, at := f.Submitted.UTC().Format(time.RFC3339Nano), f.Time.UTC().Format(time.RFC3339Nano)
	for _, text := range []string{to, cmp.Or(f.Job, f.Reason), submitted, string(f.Event), at} {
		h.Write([]byte(text))
		h.Write([]byte{0})
	}
	return &Notification{ID: hex.EncodeToString(h.Sum(nil)[:12]), To: to, Facts: f}
}

// AddTask counts a further task that the event is about.
func (f *Facts) AddTask(id string) {
	f.Tasks++
	if len(f.TaskIDs) < maxNamedTasks {
		f.TaskIDs = append(slices.Clip(f.TaskIDs), id)
	}
}

// Parse decodes the document of a notification. n is nil for a deleted document or one that cannot be decoded; ok is
// false if the key belongs to another document.
func Parse(key string, value []byte) (id string, n *Notification, ok bool) {
	id, ok = strings.CutPrefix(key, keyPrefix)
	if !ok || len(value) == 0 {
		return id, nil, ok
	}
	n = &Notification{}
	if json.Unmarshal(value, n) != nil || n.ID != id {
		return id, nil, ok
	}
	return id, n, ok
}

// Result is the outcome of one attempt to deliver a notification.
type Result struct {
	ID string
	// Round is the round of the attempt. A result of an earlier round is ignored.
	Round int
	// Delivered means that the target has accepted the notification. The other fields are then zero.
	Delivered bool
	// Error is why the attempt failed. It contains no secret.
	Error string
	// Next is when the next attempt is due. Zero means at once, or never if the delivery was given up.
	Next time.Time
}

// RedactTarget returns a target as lists, logs and errors show it: a mail address, or the scheme and host of a URL, whose
// path and query may be secret.
func RedactTarget(to string) string {
	scheme, rest, ok := strings.Cut(to, "://")
	if !ok {
		return to
	}
	cut := strings.IndexAny(rest, "/?#")
	if cut < 0 || rest[cut:] == "/" {
		return to
	}
	host := rest[:cut]
	return scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/…"
}
