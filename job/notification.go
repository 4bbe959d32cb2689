package job

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// NotificationRule sends notifications of some events of a job to one target.
type NotificationRule struct {
	// To is mailto:ADDRESS, or the https or http URL of a webhook.
	To string `json:"to"`
	// On are the events. Without one, DefaultNotificationEvents applies.
	On []NotificationEvent `json:"on,omitempty"`
}

// NotificationEvent is an event of a job of which targets can be notified.
type NotificationEvent string

const (
	// NotifyStart: the first task of the run started.
	NotifyStart NotificationEvent = "start"
	// NotifyEnd: the run has finished or was killed.
	NotifyEnd NotificationEvent = "end"
	// NotifyFailure: the run has failed, or an attempt of a service.
	NotifyFailure NotificationEvent = "failure"
	// NotifyPreemption: tasks are stopped for another job or role, or because their agent is drained.
	NotifyPreemption NotificationEvent = "preemption"
	// NotifyIdle: tasks are stopped after their idle timeout.
	NotifyIdle NotificationEvent = "idle"
	// NotifyGPUIdle: the GPUs of a running job have been idle for a time that the operator configures. It is reported again
	// after a GPU was in use.
	NotifyGPUIdle NotificationEvent = "gpu_idle"
	// NotifyQuota: tasks wait because their role has used its quota. It is reported once for each run.
	NotifyQuota NotificationEvent = "quota"
	// NotifyBudget: much of the budget of a role or of a user is used, or all of it. It is reported once each in a month, and
	// concerns no single job.
	NotifyBudget NotificationEvent = "budget"
)

// NotificationEvents returns all events, in the order of a job's life.
func NotificationEvents() []NotificationEvent {
	return []NotificationEvent{NotifyStart, NotifyEnd, NotifyFailure, NotifyPreemption, NotifyIdle, NotifyGPUIdle, NotifyQuota, NotifyBudget}
}

// DefaultNotificationEvents returns the events of a rule that names none.
func DefaultNotificationEvents() []NotificationEvent {
	return []NotificationEvent{NotifyEnd, NotifyFailure}
}

// Selects reports whether the rule has the event.
func (r *NotificationRule) Selects(e NotificationEvent) bool {
	if len(r.On) == 0 {
		return slices.Contains(DefaultNotificationEvents(), e)
	}
	return slices.Contains(r.On, e)
}

// Limits of rules. maxMailAddress is SMTP's limit (RFC 5321).
const (
	MaxNotificationRules = 10
	maxMailAddress       = 254
	mailScheme           = "mailto:"
)

// MailAddress returns the address of a mailto target. ok is false for another target.
func MailAddress(to string) (address string, ok bool) { return strings.CutPrefix(to, mailScheme) }

// ValidateNotificationRules returns the errors of the rules of a role.
func ValidateNotificationRules(rules []NotificationRule) error {
	return collectErrors(func(bad reportFunc) { reportNotificationRules(rules, bad) })
}

// reportNotificationRules checks the rules of a job or a role.
func reportNotificationRules(rules []NotificationRule, bad reportFunc) {
	if len(rules) > MaxNotificationRules {
		bad(field("notify"), "notify: %d targets, at most %d are possible", len(rules), MaxNotificationRules)
	}
	for i := range rules {
		r := &rules[i]
		if err := validateNotificationTarget(r.To); err != nil {
			bad(field("notify", i, "to"), "notify: %w", err)
		}
		if slices.ContainsFunc(rules[:i], func(other NotificationRule) bool { return other.To == r.To }) {
			bad(field("notify", i, "to"), "notify: to: a target appears twice: list its events together")
		}
		for n, e := range r.On {
			switch {
			case !slices.Contains(NotificationEvents(), e):
				bad(field("notify", i, "on"), "notify: on: %q is not one of %s", e, joinEvents(NotificationEvents()))
			case slices.Contains(r.On[:n], e):
				bad(field("notify", i, "on"), "notify: on: %s appears twice", e)
			}
		}
	}
}

// joinEvents returns the events as a text for messages.
func joinEvents(events []NotificationEvent) string {
	words := make([]string, len(events))
	for i, e := range events {
		words[i] = string(e)
	}
	return strings.Join(words, ", ")
}

// validateNotificationTarget accepts targets that every parser reads alike. Its errors do not contain a URL, which may
// be secret.
func validateNotificationTarget(to string) error {
	if address, ok := MailAddress(to); ok {
		return validateMailAddress(address)
	}
	u, err := url.Parse(to)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Opaque != "":
		return errors.New("to: it is neither mailto:ADDRESS nor an https or http URL")
	case len(to) > maxURI:
		return fmt.Errorf("to: a URL has %d bytes, at most %d are possible", len(to), maxURI)
	case strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }):
		return errors.New("to: a URL consists of printable ASCII characters other than blanks and \\")
	case u.User != nil || strings.Contains(u.Host, "@"):
		return errors.New("to: a URL must not contain a user or a password: everyone who sees the job would see them")
	case u.Fragment != "" || strings.Contains(to, "#"):
		return errors.New("to: a URL must not contain a fragment")
	}
	return nil
}

// validateMailAddress accepts LOCAL@DOMAIN of unquoted ASCII characters, so that an address can be written into a header
// and an SMTP command as it is.
func validateMailAddress(address string) error {
	local, domain, ok := strings.Cut(address, "@")
	isDomain := domain != "" && strings.Trim(domain, ".-") == domain && !strings.Contains(domain, "..") &&
		strings.Trim(strings.ToLower(domain), letters+digits+".-") == ""
	if !ok || local == "" || len(address) > maxMailAddress || !isDomain || strings.Trim(strings.ToLower(local), letters+digits+".!#$&'*+/=?^_`{|}~-") != "" {
		return fmt.Errorf("to: %.80q is not a mail address such as alice@example.org, in ASCII characters", address)
	}
	return nil
}

const (
	letters = "abcdefghijklmnopqrstuvwxyz"
	digits  = "0123456789"
)
