// Package budget compares the GPU time that roles and users use in a calendar month (UTC) with their budgets. It decides
// neither what is counted nor which job waits: package sched counts, and package quota limits.
package budget

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
)

// Budget limits the GPU time that a role and the roles below it use in a month. Amounts are GPU hours or, with prices, what
// these cost. An amount of 0 limits nothing.
type Budget struct {
	// Month is the amount of all jobs together, Types the amounts by GPU type.
	Month float64
	Types map[string]float64
	// EachUser is the amount of each user. Users with an entry in NamedUsers have that amount instead.
	EachUser   float64
	NamedUsers map[string]float64
	// Prices is the cost of a GPU hour by type; quota.AllTypes is that of all other types. Without prices, amounts are GPU hours.
	Prices map[string]float64
	// AtLimit is what happens to jobs when an amount is used up. "" means Hold.
	AtLimit AtLimit
	// WarnAt is the part of an amount at which targets are notified, from 0 to 1. 0 means DefaultWarnAt.
	WarnAt float64
}

// AtLimit is what happens to jobs when an amount of a budget is used up. Running tasks go on.
type AtLimit string

const (
	// Warn only notifies.
	Warn AtLimit = "warn"
	// Hold starts no tasks until the month ends or the amount is raised.
	Hold AtLimit = "hold"
	// Lower places the jobs after all others, and lets others preempt their tasks.
	Lower AtLimit = "lower"
)

// DefaultWarnAt is the part of an amount at which targets are notified.
const DefaultWarnAt = 0.8

// maxAmount is more than all GPUs of a large cluster use in a month.
const maxAmount = 1e12

// Validate returns all errors of the budget.
func (b *Budget) Validate() error {
	var errs []error
	check := func(key string, amount float64) {
		if !(amount >= 0 && amount <= maxAmount) {
			errs = append(errs, fmt.Errorf("%s %g is not between 0 and %g", key, amount, maxAmount))
		}
	}
	check("month", b.Month)
	check("user", b.EachUser)
	for _, amounts := range []struct {
		key    string
		values map[string]float64
	}{{"types", b.Types}, {"users", b.NamedUsers}, {"prices", b.Prices}} {
		for _, name := range slices.Sorted(maps.Keys(amounts.values)) {
			check(amounts.key+": "+name, amounts.values[name])
			if amounts.key != "users" && name != quota.AllTypes {
				if err := gpu.CheckTypeName(name); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", amounts.key, err))
				}
			}
		}
	}
	if _, ok := b.Types[quota.AllTypes]; ok {
		errs = append(errs, errors.New("types: the amount of all types is month"))
	}
	if _, ok := b.Prices[quota.AllTypes]; len(b.Prices) > 0 && !ok {
		errs = append(errs, fmt.Errorf("prices: %q, the price of all other types, is missing", quota.AllTypes))
	}
	if b.AtLimit != "" && b.AtLimit != Warn && b.AtLimit != Hold && b.AtLimit != Lower {
		errs = append(errs, fmt.Errorf("at_limit %q is not one of %s, %s, %s", b.AtLimit, Warn, Hold, Lower))
	}
	if !(b.WarnAt >= 0 && b.WarnAt <= 1) {
		errs = append(errs, fmt.Errorf("warn_at %g is not between 0 and 1", b.WarnAt))
	}
	return errors.Join(errs...)
}

// MonthOf returns the start of the calendar month of a time, in UTC.
func MonthOf(t time.Time) time.Time {
	year, month, _ := t.UTC().Date()
	return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
}

// Usage is the GPU time, in seconds, by role, user and GPU type.
type Usage map[Key]float64

// Key names the jobs of a user in a role itself, and the type of the GPUs that they use. User is "" for jobs without an
// owner. Type is the product as in job.Task.Products: "" where it is unknown, and "A|B" where an agent hands out GPUs of
// several types by count.
type Key struct{ Role, User, Type string }

// Add adds the GPU time of a task that holds milli thousandths of GPUs from one time to another. Only the time within the
// month counts.
func (u Usage) Add(k Key, milli int, month, from, to time.Time) {
	if from.Before(month) {
		from = month
	}
	if end := month.AddDate(0, 1, 0); to.After(end) {
		to = end
	}
	if from.Before(to) {
		u[k] += float64(milli) / quota.MilliPerGPU * to.Sub(from).Seconds()
	}
}

// Entry is one amount of a role's budget, and what is used of it.
type Entry struct {
	// Role has the budget. User is the user whom the entry limits, "" for all together. Type is the GPU type or quota.AllTypes.
	Role, User, Type string
	Used, Amount     float64
	AtLimit          AtLimit
	WarnAt           float64
	// IsPriced reports that amounts are costs, not GPU hours.
	IsPriced bool
	// HeldTasks is the number of waiting tasks that get no GPUs that the entry counts, because nothing is left of it. Entries
	// returns 0.
	HeldTasks int
}

// Entries returns the amounts of the budget of a role, with what is used of each in a month. Users without an amount of
// their own are listed once they have used GPUs.
func (b *Budget) Entries(role string, used Usage) (list []Entry) {
	add := func(user, gpuType string, amount float64) {
		if amount > 0 {
			list = append(list, Entry{
				Role:     role,
				User:     user,
				Type:     gpuType,
				Amount:   amount,
				AtLimit:  cmp.Or(b.AtLimit, Hold),
				WarnAt:   cmp.Or(b.WarnAt, DefaultWarnAt),
				IsPriced: len(b.Prices) > 0,
			})
		}
	}
	add("", quota.AllTypes, b.Month)
	for _, name := range slices.Sorted(maps.Keys(b.Types)) {
		add("", name, b.Types[name])
	}
	byUser := map[string]float64{}
	keys := slices.SortedFunc(maps.Keys(used), func(a, b Key) int { // sums depend on their order
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.User, b.User), cmp.Compare(a.Type, b.Type))
	})
	for _, k := range keys {
		if !quota.IsWithinRole(k.Role, role) {
			continue
		}
		amount := used[k] / time.Hour.Seconds() * b.priceOf(k.Type)
		byUser[k.User] += amount
		for i := range list {
			if quota.CountsProduct(list[i].Type, k.Type) {
				list[i].Used += amount
			}
		}
	}
	for user := range b.NamedUsers {
		byUser[user] += 0
	}
	for _, user := range slices.Sorted(maps.Keys(byUser)) {
		amount, named := b.NamedUsers[user]
		if !named {
			amount = b.EachUser
		}
		if before := len(list); user != "" {
			if add(user, quota.AllTypes, amount); len(list) > before {
				list[before].Used = byUser[user]
			}
		}
	}
	return list
}

// priceOf returns the cost of a GPU hour of a product: that of the most precise name that includes it, and the highest of
// several such names, or of the products that the GPU may be of.
func (b *Budget) priceOf(product string) float64 {
	if len(b.Prices) == 0 {
		return 1
	}
	price, found := 0.0, false
	for one := range strings.SplitSeq(product, "|") {
		var names []string
		for name := range b.Prices {
			if name != quota.AllTypes && quota.CountsProduct(name, one) {
				names = append(names, name)
			}
		}
		for _, name := range names {
			isWider := func(other string) bool { return gpu.IncludesType(name, other) && !gpu.IncludesType(other, name) }
			if !slices.ContainsFunc(names, isWider) {
				price, found = max(price, b.Prices[name]), true
			}
		}
	}
	if !found {
		return b.Prices[quota.AllTypes]
	}
	return price
}

// IsUsedUp reports whether nothing is left of the amount.
func (e *Entry) IsUsedUp() bool { return e.Used >= e.Amount }

// Counts reports whether the entry limits a user of a role.
func (e *Entry) Counts(role, user string) bool {
	return quota.IsWithinRole(role, e.Role) && (e.User == "" || e.User == user)
}

// Name returns, for example, "the budget of role research for A100" or "the budget of user ann in role research".
func (e *Entry) Name() string {
	switch {
	case e.User != "":
		return fmt.Sprintf("the budget of user %s in role %s", e.User, e.Role)
	case e.Type != quota.AllTypes:
		return fmt.Sprintf("the budget of role %s for %s", e.Role, e.Type)
	}
	return "the budget of role " + e.Role
}

// DescribeUse returns, for example, "1003 of 1000 GPU hours of 2026-11 are used".
func (e *Entry) DescribeUse(month time.Time) string {
	unit := "GPU hours "
	if e.IsPriced {
		unit = ""
	}
	return fmt.Sprintf("%s of %s %sof %s are used", formatAmount(e.Used), formatAmount(e.Amount), unit, month.Format("2006-01"))
}

// formatAmount rounds to what users of budgets compare: to tenths from 100 on, and to four digits below.
func formatAmount(n float64) string {
	if n >= 100 {
		return strconv.FormatFloat(math.Round(n*10)/10, 'f', -1, 64)
	}
	return strconv.FormatFloat(n, 'g', 4, 64)
}
