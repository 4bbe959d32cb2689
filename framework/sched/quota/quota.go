// Package quota parses GPU quotas, counts what each role holds, and determines which quota limits a job. It decides
// neither which job is next nor where a task runs.
package quota

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/gpu"
)

// Quota limits the GPUs that a role holds, by type. The entry AllTypes limits all GPUs together. A type without an
// entry has no limit of its own.
type Quota map[string]int

// AllTypes is the entry of a Quota that counts every GPU.
const AllTypes = "*"

// maxGPUs is the largest number that Parse accepts. No cluster has more.
const maxGPUs = 10_000_000

// Parse reads a quota such as "V100=8, A100-80GB=4, *=16". Types have the same names as in a job.
func Parse(text string) (Quota, error) {
	q, err := ParseStored(text)
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if name == AllTypes {
			continue
		}
		if err := gpu.CheckTypeName(name); err != nil {
			return nil, fmt.Errorf("quota: %w", err)
		}
	}
	return q, err
}

// ParseStored is Parse for what an earlier release may have stored: names need not be valid, so that no limit is lost.
func ParseStored(text string) (Quota, error) {
	q := Quota{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, number, ok := strings.Cut(part, "=")
		name = strings.TrimSpace(name)
		if slices.Contains(HostResources(), name) {
			return nil, fmt.Errorf("quota %q: quotas and limits count GPUs only; cpus and mem are for deserved", strings.TrimSpace(part))
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if !ok || name == "" || err != nil || n < 0 || n > maxGPUs {
			return nil, fmt.Errorf("quota %q: write TYPE=GPUS with commas between, for example V100=8, *=16", strings.TrimSpace(part))
		}
		for other := range q {
			if isSameType(other, name) {
				return nil, fmt.Errorf("quota %q: %s appears twice", text, name)
			}
		}
		q[name] = n
	}
	return q, nil
}

// String returns the quota in the form that Parse reads, sorted by type.
func (q Quota) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(q)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, q[name]))
	}
	return strings.Join(parts, ", ")
}

// isSameType reports whether two names of entries are the same one, written in two ways.
func isSameType(a, b string) bool {
	if a == AllTypes || b == AllTypes {
		return a == b
	}
	return gpu.IsSameTypeName(a, b)
}

// CountsProduct reports whether an entry counts GPUs of a product, by its name in job.Task.Products or the name of a type.
// A GPU counts in every entry whose name includes it, or may include it if not enough is known of the GPU. product may be
// a combination "A|B", since an agent that hands out GPUs of several types by count does not report which one a task gets.
func CountsProduct(entry, product string) bool {
	if entry == AllTypes {
		return true
	}
	for one := range strings.SplitSeq(product, "|") {
		if one != "" && gpu.MayIncludeProduct(entry, one) {
			return true
		}
	}
	return false
}

// includesEntry reports whether an entry counts all GPUs that another one counts.
func includesEntry(entry, other string) bool {
	return entry == AllTypes || other != AllTypes && gpu.IncludesType(entry, other)
}

// IsWithinRole reports whether role is parent or below it. The quota of "research" also limits "research/vision".
func IsWithinRole(role, parent string) bool {
	return role == parent || strings.HasPrefix(role, parent+"/")
}

// MilliPerGPU is one GPU in the unit of all counts here: thousandths of a GPU.
const MilliPerGPU = 1000

// FormatMilliGPUs writes thousandths as a decimal number of GPUs: 2300 is "2.3".
func FormatMilliGPUs(milli int) string {
	return strconv.FormatFloat(float64(milli)/MilliPerGPU, 'f', -1, 64)
}

// Limit is one entry of a role's quota and its usage, in thousandths of GPUs.
type Limit struct {
	// Role is the role that has the quota: the job's own role or one above it. Type is the entry's type or AllTypes.
	Role, Type string
	// User is the user whom it limits in the role and the roles below it, "" for the quota of the role. CountsJobs means
	// that Max and Held are numbers of running jobs.
	User       string
	CountsJobs bool
	// OfMesos marks the quota that an operator of Mesos has set for the role. HeldByOthers is the usage of other frameworks.
	OfMesos      bool
	HeldByOthers int
	// Budget is set for a budget that is used up. Max and Held are then equal, and are not GPUs.
	Budget *UsedUpBudget
	// Max is the quota's limit. Held is the number of GPUs of that type that the role and the roles below it hold.
	Max, Held int
	// Reserved is the amount that the present plan reserves for waiting tasks. Ending is the part of Held that is about to end; it is
	// only counted for roles, and if roles deserve GPUs.
	Reserved, Ending int
	// KeptFor is the earlier job that gets what is left of the limit; "" if it is kept for none.
	KeptFor string
	// TooSmall reports that one task of the request exceeds the limit even if the role holds nothing.
	TooSmall bool
}

// isSame reports whether both are the same entry, whatever is held of it.
func (l *Limit) isSame(o *Limit) bool {
	return l.Role == o.Role && l.User == o.User && l.Type == o.Type && l.CountsJobs == o.CountsJobs && l.OfMesos == o.OfMesos && l.Budget == o.Budget
}

// describe returns which role or user may hold how much and holds how much.
func (l *Limit) describe() string {
	if l.Budget != nil {
		return fmt.Sprintf("of %s, %s", l.Budget.Name, l.Budget.Use)
	}
	if l.User != "" {
		text := fmt.Sprintf("user %s may hold %s in role %s and holds %s", l.User, l, l.Role, FormatMilliGPUs(l.Held))
		if l.Reserved > 0 {
			text += fmt.Sprintf(", with %s reserved for the user", FormatMilliGPUs(l.Reserved))
		}
		return text
	}
	if l.OfMesos {
		return l.describeMesosQuota()
	}
	return fmt.Sprintf("role %s may hold %s and holds %s", l.Role, l, l.describeHeld())
}

// describeHeld returns what a role holds, and what else is reserved of its limit.
func (l *Limit) describeHeld() string {
	text := FormatMilliGPUs(l.Held)
	if reserved := l.Reserved - l.Ending; reserved > 0 {
		text += fmt.Sprintf(", with %s reserved for tasks inside what roles deserve", FormatMilliGPUs(reserved))
	}
	return text
}

// Remaining returns what the role or the user may still take of this limit. Reservations use what ends first.
func (l *Limit) Remaining() int { return max(l.Max-l.Held-max(l.Reserved-l.Ending, 0), 0) }

// remainingForClaims returns what may still be reserved of this limit: what is about to end may be reserved too, and what
// other frameworks use may not.
func (l *Limit) remainingForClaims() int {
	return max(l.Max-l.Held+l.Ending-l.Reserved-l.HeldByOthers, 0)
}

// String returns the limit as "8 V100", "1 GPU" or "1.5 GPUs".
func (l *Limit) String() string {
	if l.Type == AllTypes {
		unit := "GPUs"
		if l.Max == MilliPerGPU {
			unit = "GPU"
		}
		return FormatMilliGPUs(l.Max) + " " + unit
	}
	return fmt.Sprintf("%s %s", FormatMilliGPUs(l.Max), l.Type)
}

// ExcludedTypeNote returns the sentence to append to a reason when the limit excludes some GPU types from a request.
// It returns "" for a nil limit.
func (l *Limit) ExcludedTypeNote() string {
	if l == nil {
		return ""
	}
	note := "; " + l.describe()
	if l.TooSmall {
		note += ": it can never start on those"
	}
	return note
}
