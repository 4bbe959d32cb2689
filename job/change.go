package job

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/gpu"
)

// MaxChanges bounds the changes that a job keeps: so many scalings, and so many others. Load scales a service so often that
// the changes of users would be lost otherwise.
const MaxChanges = 20

// maxChangeText limits each text of a change, in bytes.
const maxChangeText = 256

// ChangeKind is what a user, or the scheduler, did to a job.
type ChangeKind string

const (
	EditChange    ChangeKind = "edit"
	HoldChange    ChangeKind = "hold"
	ReleaseChange ChangeKind = "release"
	RequeueChange ChangeKind = "requeue"
	ApplyChange   ChangeKind = "apply" // another specification of a service
	ScaleChange   ChangeKind = "scale" // another number of tasks of a service
)

// ChangeKinds returns all kinds.
func ChangeKinds() []ChangeKind {
	return []ChangeKind{EditChange, HoldChange, ReleaseChange, RequeueChange, ApplyChange, ScaleChange}
}

// Change is a change of a job that is part of its history. Kills are not changes: the tasks record them.
type Change struct {
	Time time.Time  `json:"time"`
	Kind ChangeKind `json:"kind"`
	// By is the user, "" if it is unknown or if the scheduler changed the job.
	By string `json:"by,omitempty"`
	// State is the state of the job after the change. It is "" for scalings that earlier releases recorded.
	State State `json:"state,omitempty"`
	// From and To are the numbers of tasks of a ScaleChange.
	From int `json:"from,omitempty"`
	To   int `json:"to,omitempty"`
	// Version is the version of the service that an ApplyChange began.
	Version int `json:"version,omitempty"`
	// Keys are the changed keys of an EditChange or ApplyChange: "gpus 8 to 4, env". They contain no value that only users
	// who may read the job's output may read.
	Keys string `json:"keys,omitempty"`
	// Reason is the text of the user, or why load scaled the service.
	Reason string `json:"reason,omitempty"`
}

// Message returns a text such as "edited by ada: gpus 8 to 4" or "scaled from 1 to 3 tasks by ada".
func (c *Change) Message() string {
	text := string(c.Kind) // of a later release
	switch c.Kind {
	case EditChange:
		text = "edited"
	case HoldChange:
		text = "held"
	case ReleaseChange:
		text = "released"
	case RequeueChange:
		text = "queued again"
	case ApplyChange:
		text = fmt.Sprintf("version %d applied", c.Version)
	case ScaleChange:
		text = fmt.Sprintf("scaled from %d to %d %s", c.From, c.To, gpu.Plural(c.To, "task"))
	}
	if c.By != "" {
		text += " by " + c.By
	}
	for _, detail := range []string{c.Keys, c.Reason} {
		if detail != "" {
			text += ": " + detail
		}
	}
	return text
}

// AddChange adds a change to those that the job keeps, without the end of long texts. It replaces the list, which copies of
// the job share.
func (j *Job) AddChange(c Change) {
	for _, text := range []*string{&c.By, &c.Keys, &c.Reason} {
		if len(*text) > maxChangeText {
			*text = strings.ToValidUTF8((*text)[:maxChangeText], "") + "…"
		}
	}
	isScaling := c.Kind == ScaleChange
	first, same := -1, 0
	for i := range j.Changes {
		if (j.Changes[i].Kind == ScaleChange) == isScaling {
			if same++; first < 0 {
				first = i
			}
		}
	}
	kept := slices.Clone(j.Changes)
	if same >= MaxChanges {
		kept = slices.Delete(kept, first, first+1)
	}
	j.Changes = append(kept, c)
}

// LastScaling returns when the number of a service's tasks changed last, zero for never.
func (j *Job) LastScaling() time.Time {
	for _, c := range slices.Backward(j.Changes) {
		if c.Kind == ScaleChange {
			return c.Time
		}
	}
	return time.Time{}
}

// MaskChanges returns changes with masked names. It copies them, unless nothing is masked.
func (m *NameMask) MaskChanges(changes []Change) []Change {
	if m == nil {
		return changes
	}
	masked := slices.Clone(changes)
	for i := range masked {
		masked[i].Keys, masked[i].Reason = m.MaskText(masked[i].Keys), m.MaskText(masked[i].Reason)
	}
	return masked
}
