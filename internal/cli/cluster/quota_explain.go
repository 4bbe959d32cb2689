package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
)

// quotaExplanation is the output of quota explain.
type quotaExplanation struct {
	Role  string           `json:"role"`
	Types []typeAllocation `json:"types"`
	// Host are the CPUs and the MiB of memory; empty unless a role deserves some.
	Host []hostAllocation `json:"host,omitempty"`
	// MesosQuota is Mesos's quota of GPUs for the role, nil without one.
	MesosQuota *api.MesosQuota `json:"mesos_quota,omitempty"`
	// HalfLifeSeconds is the half-life of the fair share, Recent the mean number of GPUs of the role's own tasks; 0 without
	// a half-life.
	HalfLifeSeconds float64 `json:"half_life_seconds,omitempty"`
	Recent          float64 `json:"recent,omitempty"`
	// Users lists the users of the role, if fair share has a half-life.
	Users []api.UserUsage `json:"users,omitempty"`
	// UserLimits are the limits of the role's users. Those of the roles above also apply.
	UserLimits *api.RoleUserLimits `json:"user_limits,omitempty"`
	// Budgets are the amounts of the role's budget for this month. Those of the roles above also apply.
	Budgets []api.BudgetUse `json:"budgets,omitempty"`
	// WaitingJobs are the jobs that wait, WaitingJobsLimit is how many may, 0 for any number.
	WaitingJobs      int `json:"waiting_jobs"`
	WaitingJobsLimit int `json:"waiting_jobs_limit,omitempty"`
	// Borrowers are other roles that hold more than they deserve of a type of which the role
	// has less than it deserves and demands.
	Borrowers []borrowedGPUs `json:"borrowers"`
	// HostBorrowers are the same for CPUs and memory.
	HostBorrowers []borrowedHost `json:"host_borrowers,omitempty"`
}

// typeAllocation contains a role's entitlement and allocation of one GPU type; "*" counts all.
type typeAllocation struct {
	Type     string  `json:"type"`
	Deserved int     `json:"deserved"`
	Limit    *int    `json:"limit"`
	Demanded float64 `json:"demanded"`
	// Entitled is nil unless the scheduler reclaims what roles are entitled to.
	Entitled *float64 `json:"entitled,omitempty"`
	Held     float64  `json:"held"`
	// Borrowed is the number of GPUs that the role holds beyond its deserved ones.
	Borrowed float64 `json:"borrowed"`
	// Missing is the number of GPUs that the role demands and deserves, and does not hold.
	Missing float64 `json:"missing"`
}

// borrowedGPUs are the GPUs of one type that a role holds beyond what it deserves.
type borrowedGPUs struct {
	Role     string  `json:"role"`
	Type     string  `json:"type"`
	Borrowed float64 `json:"borrowed"`
	Deserved int     `json:"deserved"`
	Held     float64 `json:"held"`
}

// hostAllocation contains what a role deserves and has of CPUs ("cpus"), or of memory in MiB ("mem").
type hostAllocation struct {
	Resource string `json:"resource"`
	api.HostUse
	// Borrowed is what the role holds beyond what it deserves, Missing what it demands and deserves, and does not hold.
	Borrowed float64 `json:"borrowed"`
	Missing  float64 `json:"missing"`
}

// borrowedHost is the CPUs or the MiB of memory that a role holds beyond what it deserves.
type borrowedHost struct {
	Role string `json:"role"`
	hostAllocation
}

func (a *clusterCommands) quotaExplainCommand() *cobra.Command {
	c := a.NewShowCommand("explain", "Show what a role deserves, demands and holds, and who borrows",
		[]string{"ROLE"}, func(ctx context.Context, api *client.Client, args []string) (cli.CommandResult, error) {
			roles, err := api.ListRoles(ctx)
			if err != nil {
				return cli.CommandResult{}, err
			}
			of, err := findRole(roles, args[0])
			if err != nil {
				return cli.CommandResult{}, err
			}
			e := explainQuota(&of[0], roles)
			return cli.CommandResult{Data: e, Print: func(p *term.TablePrinter) error { return printQuotaExplanation(p, &e) }}, nil
		})
	c.Long = "Show, by GPU type, what a role deserves, its limit, what it demands, holds and borrows, and with --reclaim entitled of the\n" +
		"scheduler what it is entitled to. CPUs and memory follow if roles deserve some.\n" +
		"The numbers include the roles below it. If it has less than it deserves and demands, the roles that borrow follow.\n" +
		"With a half-life of the fair share, the role and its users follow with the mean number of GPUs that they have used of " +
		"late, the one served first at first.\n" +
		"If an operator of Mesos has set a quota of GPUs for the role, it follows with what all frameworks use of it.\n" +
		"If the role limits its users, each user with what the user has of each limit follows, and if it limits the jobs that wait, their number.\n" +
		"If it has a budget, what is used of it in this month (UTC) follows, with the time of running tasks until now."
	return c
}

// explainQuota returns the allocations of a role by type, with "*" last.
func explainQuota(r *api.RoleStatus, roles []api.RoleStatus) quotaExplanation {
	e := quotaExplanation{
		Role:             r.Name,
		MesosQuota:       r.MesosQuota,
		HalfLifeSeconds:  r.HalfLifeSeconds,
		Recent:           r.Recent,
		Users:            r.Users,
		UserLimits:       r.UserLimits,
		Budgets:          r.Budgets,
		WaitingJobs:      r.WaitingJobs,
		WaitingJobsLimit: r.WaitingJobsLimit,
		Types:            []typeAllocation{},
		Borrowers:        []borrowedGPUs{},
	}
	lends := slices.ContainsFunc(roles, func(o api.RoleStatus) bool { return len(o.Deserved) > 0 })
	names := map[string]bool{"*": true}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(r.Deserved)), slices.Collect(maps.Keys(r.Quota)),
		slices.Collect(maps.Keys(r.Demanded)), slices.Collect(maps.Keys(r.Allocated))) {
		names[name] = true
	}
	for _, name := range slices.SortedFunc(maps.Keys(names), compareTypeNames) {
		t := typeAllocation{Type: name, Deserved: deservedOf(r, name), Demanded: r.Demanded[name], Held: r.Allocated[name]}
		if limit, ok := r.Quota[name]; ok {
			t.Limit = &limit
		}
		if r.Entitled != nil {
			n := r.Entitled[name]
			t.Entitled = &n
		}
		if lends {
			t.Borrowed = borrowedBy(r, name)
		}
		t.Missing = max(min(t.Demanded, float64(t.Deserved))-t.Held, 0)
		e.Types = append(e.Types, t)
		if t.Missing == 0 {
			continue
		}
		for i := range roles {
			o := &roles[i]
			if n := borrowedBy(o, name); n > 0 && o.Name != r.Name && !isRelated(o.Name, r.Name) {
				e.Borrowers = append(e.Borrowers, borrowedGPUs{o.Name, name, n, deservedOf(o, name), o.Allocated[name]})
			}
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(r.Host)) {
		own := newHostAllocation(r, resource)
		e.Host = append(e.Host, own)
		for i := range roles {
			o := &roles[i]
			if theirs := newHostAllocation(o, resource); own.Missing > 0 && theirs.Borrowed > 0 && o.Name != r.Name && !isRelated(o.Name, r.Name) {
				e.HostBorrowers = append(e.HostBorrowers, borrowedHost{o.Name, theirs})
			}
		}
	}
	return e
}

// newHostAllocation returns what a role has of a resource of agents.
func newHostAllocation(r *api.RoleStatus, resource string) hostAllocation {
	h, deserved := hostAllocation{Resource: resource, HostUse: r.Host[resource]}, 0.0
	if h.Deserved != nil {
		deserved = *h.Deserved
	}
	h.Borrowed, h.Missing = max(h.Held-deserved, 0), max(min(h.Demanded, deserved)-h.Held, 0)
	return h
}

// compareTypeNames sorts "*" last.
func compareTypeNames(a, b string) int {
	if (a == "*") != (b == "*") {
		return map[bool]int{true: 1, false: -1}[a == "*"]
	}
	return strings.Compare(a, b)
}

// isRelated reports whether one role is above the other.
func isRelated(a, b string) bool { return strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/") }

// deservedOf returns what a role deserves of a type. Without an entry for all types it is the sum.
func deservedOf(r *api.RoleStatus, name string) int {
	n, ok := r.Deserved[name]
	if ok || name != "*" {
		return n
	}
	for _, typed := range r.Deserved {
		n += typed
	}
	return n
}

// borrowedBy returns what a role holds of a type beyond what it deserves. Types of which it deserves none count if it
// holds more than it deserves in total.
func borrowedBy(r *api.RoleStatus, name string) float64 {
	beyond := max(r.Allocated[name]-float64(deservedOf(r, name)), 0)
	if _, all := r.Deserved["*"]; all {
		beyond = min(beyond, max(r.Allocated["*"]-float64(deservedOf(r, "*")), 0))
	}
	return beyond
}

func printQuotaExplanation(p *term.TablePrinter, e *quotaExplanation) error {
	rows, entitles := make([]allocationRow, 0, len(e.Types)+len(e.Host)), false
	for i := range e.Types {
		t := &e.Types[i]
		row := allocationRow{
			name:     t.Type,
			deserved: fmt.Sprint(t.Deserved),
			limit:    "-",
			demanded: fmt.Sprint(t.Demanded),
			held:     fmt.Sprint(t.Held),
			borrowed: fmt.Sprint(t.Borrowed),
			missing:  fmt.Sprint(t.Missing),
		}
		if t.Limit != nil {
			row.limit = fmt.Sprint(*t.Limit)
		}
		if t.Entitled != nil {
			row.entitled, entitles = fmt.Sprint(*t.Entitled), true
		}
		rows = append(rows, row)
	}
	for i := range e.Host {
		rows = append(rows, e.Host[i].row())
	}
	columns := []term.TableColumn[allocationRow]{
		{Name: "TYPE", Value: func(r allocationRow) string { return r.name }},
		{Name: "DESERVED", Value: func(r allocationRow) string { return r.deserved }},
		{Name: "LIMIT", Value: func(r allocationRow) string { return r.limit }},
		{Name: "DEMANDED", Value: func(r allocationRow) string { return r.demanded }},
		{Name: "HELD", Value: func(r allocationRow) string { return r.held }},
		{Name: "BORROWED", Value: func(r allocationRow) string { return r.borrowed }},
		{Name: "MISSING", Value: func(r allocationRow) string { return r.missing }},
	}
	if entitles {
		columns = slices.Insert(columns, 4, term.TableColumn[allocationRow]{
			Name: "ENTITLED", Value: func(r allocationRow) string { return r.entitled },
		})
	}
	err := term.PrintTable(p, rows, columns)
	if err == nil && e.MesosQuota != nil {
		err = term.PrintTable(p, []*api.MesosQuota{e.MesosQuota}, []term.TableColumn[*api.MesosQuota]{
			{Name: "MESOS LIMIT", Value: func(q *api.MesosQuota) string { return fmt.Sprint(q.Limit) }},
			{Name: "MESOS GUARANTEE", Value: func(q *api.MesosQuota) string { return fmt.Sprint(q.Guarantee) }},
			{Name: "USED", Value: func(q *api.MesosQuota) string { return fmt.Sprint(q.Used) }},
		})
	}
	if err == nil && e.HalfLifeSeconds > 0 {
		err = term.PrintTable(p, []*quotaExplanation{e}, []term.TableColumn[*quotaExplanation]{
			{Name: "ROLE", Value: func(e *quotaExplanation) string { return e.Role }},
			{Name: "HALF-LIFE", Value: func(e *quotaExplanation) string {
				return (time.Duration(e.HalfLifeSeconds) * time.Second).String()
			}},
			{Name: "RECENT", Value: func(e *quotaExplanation) string { return fmt.Sprint(e.Recent) }},
		})
	}
	if err == nil && len(e.Users) > 0 {
		err = term.PrintTable(p, e.Users, []term.TableColumn[api.UserUsage]{
			{Name: "USER", Value: func(u api.UserUsage) string { return term.DashIfEmpty(u.User) }},
			{Name: "RECENT", Value: func(u api.UserUsage) string { return fmt.Sprint(u.Recent) }},
			{Name: "HELD", Value: func(u api.UserUsage) string { return fmt.Sprint(u.Allocated) }},
		})
	}
	if err == nil {
		err = printUserLimits(p, e)
	}
	if err == nil && len(e.Budgets) > 0 {
		err = printBudgets(p, e.Role, e.Budgets)
	}
	var borrowers []allocationRow
	for _, b := range e.Borrowers {
		borrowers = append(borrowers, allocationRow{
			role:     b.Role,
			name:     b.Type,
			borrowed: fmt.Sprint(b.Borrowed),
			deserved: fmt.Sprint(b.Deserved),
			held:     fmt.Sprint(b.Held),
		})
	}
	for i := range e.HostBorrowers {
		borrowers = append(borrowers, e.HostBorrowers[i].row())
		borrowers[len(borrowers)-1].role = e.HostBorrowers[i].Role
	}
	if err != nil || len(borrowers) == 0 {
		return err
	}
	return term.PrintTable(p, borrowers, []term.TableColumn[allocationRow]{
		{Name: "BORROWER", Value: func(r allocationRow) string { return r.role }},
		{Name: "TYPE", Value: func(r allocationRow) string { return r.name }},
		{Name: "BORROWED", Value: func(r allocationRow) string { return r.borrowed }},
		{Name: "DESERVED", Value: func(r allocationRow) string { return r.deserved }},
		{Name: "HELD", Value: func(r allocationRow) string { return r.held }},
	})
}

// allocationRow is the text of what a role has of a GPU type or of a resource of agents.
type allocationRow struct {
	role, name, deserved, limit, demanded, entitled, held, borrowed, missing string
}

// row returns the text of the allocation.
func (h *hostAllocation) row() allocationRow {
	format := func(n float64) string { return formatHostAmount(h.Resource, n) }
	row := allocationRow{
		name:     h.Resource,
		deserved: "-",
		limit:    "-",
		demanded: format(h.Demanded),
		entitled: "-",
		held:     format(h.Held),
		borrowed: format(h.Borrowed),
		missing:  format(h.Missing),
	}
	if h.Deserved != nil {
		row.deserved = format(*h.Deserved)
	}
	return row
}

// printUserLimits prints the limits of the role and of its users, with what is used of them.
func printUserLimits(p *term.TablePrinter, e *quotaExplanation) error {
	if e.WaitingJobsLimit > 0 {
		err := term.PrintTable(p, []*quotaExplanation{e}, []term.TableColumn[*quotaExplanation]{
			{Name: "ROLE", Value: func(e *quotaExplanation) string { return e.Role }},
			{Name: "WAITING JOBS", Value: func(e *quotaExplanation) string { return formatUse(e.WaitingJobs, e.WaitingJobsLimit) }},
		})
		if err != nil {
			return err
		}
	}
	if e.UserLimits == nil {
		return nil
	}
	users := append(slices.Clone(e.UserLimits.Users), api.LimitedUser{User: "(each other)", Limits: e.UserLimits.Each})
	return term.PrintTable(p, users, []term.TableColumn[api.LimitedUser]{
		{Name: "USER", Value: func(u api.LimitedUser) string { return u.User }},
		{Name: "HELD", Value: func(u api.LimitedUser) string { return term.DashIfEmpty(formatByType(u.Allocated)) }},
		{Name: "LIMIT", Value: func(u api.LimitedUser) string { return term.DashIfEmpty(formatByType(u.Limits.GPUs)) }},
		{Name: "RUNNING JOBS", Value: func(u api.LimitedUser) string { return formatUse(u.RunningJobs, u.Limits.RunningJobs) }},
		{Name: "WAITING JOBS", Value: func(u api.LimitedUser) string { return formatUse(u.WaitingJobs, u.Limits.WaitingJobs) }},
		{Name: "SUBMISSIONS A MINUTE", Value: func(u api.LimitedUser) string {
			if u.Limits.SubmissionsPerMinute == 0 {
				return "-"
			}
			return fmt.Sprint(u.Limits.SubmissionsPerMinute)
		}},
	})
}

// formatUse formats a number and its limit, of which 0 means unlimited, as "3 of 4".
func formatUse(n, limit int) string {
	if limit == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d of %d", n, limit)
}
