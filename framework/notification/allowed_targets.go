package notification

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// AllowedTargets are the targets to which the operator permits notifications. The zero value permits none.
type AllowedTargets struct {
	// Enabled is set if the operator has configured notifications at all.
	Enabled bool
	// WebhookHosts are the hosts of webhooks: HOST, *.SUFFIX or *, each with an optional port. Entries with a star do not
	// cover addresses that are not public.
	WebhookHosts job.FetchHosts
	// MailDomains are the domains of recipients: DOMAIN, *.SUFFIX or *.
	MailDomains []string
}

// ForbiddenTargetError reports a target to which the operator does not permit notifications.
type ForbiddenTargetError struct{ Reason string }

func (e *ForbiddenTargetError) Error() string { return "notify: " + e.Reason }

// CheckTarget returns a *ForbiddenTargetError if the target is not allowed. The target must be valid.
func (a *AllowedTargets) CheckTarget(to string) error {
	if !a.Enabled {
		return &ForbiddenTargetError{"the scheduler's operator has not configured notifications (--notifications FILE)"}
	}
	if address, ok := job.MailAddress(to); ok {
		_, domain, _ := strings.Cut(strings.ToLower(address), "@")
		if !slices.ContainsFunc(a.MailDomains, func(entry string) bool { return coversDomain(entry, domain) }) {
			return &ForbiddenTargetError{fmt.Sprintf("%s: the scheduler's operator allows mail to %s", address, listOrNone(a.MailDomains, "no domain"))}
		}
		return nil
	}
	if err := a.webhookHosts().CheckURI(to); err != nil {
		return describeHostError(err, a.WebhookHosts)
	}
	return nil
}

// CheckAddress returns a *ForbiddenTargetError if a webhook's host, which CheckTarget has accepted, has an address that is
// not public, unless an entry without a star allows the host.
func (a *AllowedTargets) CheckAddress(host, port string, addr netip.Addr) error {
	if a.webhookHosts().CheckAddress(host, port, addr) != nil {
		return &ForbiddenTargetError{host + " has an address that is not public: its host needs an entry of its own in webhooks: hosts"}
	}
	return nil
}

// webhookHosts returns a list that is not nil: nil would cover every host.
func (a *AllowedTargets) webhookHosts() job.FetchHosts {
	if a.WebhookHosts == nil {
		return job.FetchHosts{}
	}
	return a.WebhookHosts
}

// CheckRules returns an error for the first rule whose target is not allowed.
func (a *AllowedTargets) CheckRules(rules []job.NotificationRule) error {
	for i := range rules {
		if err := a.CheckTarget(rules[i].To); err != nil {
			return err
		}
	}
	return nil
}

// describeHostError replaces the words about files to fetch by words about webhooks.
func describeHostError(err error, hosts job.FetchHosts) error {
	var forbidden *job.ForbiddenHostError
	if errors.As(err, &forbidden) {
		return &ForbiddenTargetError{fmt.Sprintf("%s: the scheduler's operator allows webhooks of %s", forbidden.Host, listOrNone(hosts, "no host"))}
	}
	return &ForbiddenTargetError{"the host of a webhook's URL is not a name or an address that every program reads alike"}
}

func listOrNone(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ", ")
}

// coversDomain reports whether an entry covers a domain in lower case.
func coversDomain(entry, domain string) bool {
	entry = strings.ToLower(entry)
	suffix, star := strings.CutPrefix(entry, "*")
	switch {
	case !star:
		return entry == domain
	case suffix == "":
		return true
	}
	return len(domain) > len(suffix) && strings.HasSuffix(domain, suffix)
}
