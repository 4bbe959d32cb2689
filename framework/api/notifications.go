package api

import (
	"time"

	"mesos-gpu/job"
)

// NotificationState is the state of a notification that was not delivered.
type NotificationState string

const (
	// NotificationPending: the delivery is due, or will be tried again.
	NotificationPending NotificationState = "pending"
	// NotificationFailed: the delivery was given up.
	NotificationFailed NotificationState = "failed"
)

// NotificationView is a notification that was not delivered.
type NotificationView struct {
	ID string `json:"id"`
	// To is the mail address, or the URL of the webhook without its path and query, which may be secret.
	To    string                `json:"to"`
	Event job.NotificationEvent `json:"event"`
	Time  time.Time             `json:"time"`
	Job   string                `json:"job"`
	Run   int                   `json:"run"`
	Role  string                `json:"role,omitempty"`
	Owner string                `json:"owner,omitempty"`
	State NotificationState     `json:"state"`
	// Attempts counts the failed attempts since the last retry by a user, Error is why the last one failed, and Next when
	// the next one is due.
	Attempts int       `json:"attempts"`
	Error    string    `json:"error,omitempty"`
	Next     time.Time `json:"next,omitzero"`
	// GivenUp is when the delivery was given up.
	GivenUp time.Time `json:"given_up,omitzero"`
}

// NotificationList is the response to GET /v1/notifications, oldest first.
type NotificationList struct {
	Notifications []NotificationView `json:"notifications"`
}
