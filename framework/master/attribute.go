package master

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/sched"
)

// convertAttributes formats attributes as text, in the form that Marathon's
// constraints compare: 12.5, [1-2,5-6] sorted, {a,b} sorted.
func convertAttributes(list []mesos.Attribute) []sched.Attribute {
	var attributes []sched.Attribute
	for i := range list {
		attributes = append(attributes, sched.Attribute{Name: list[i].Name, Value: attributeText(&list[i])})
	}
	return attributes
}

// attributeText returns the value of an attribute as text.
func attributeText(a *mesos.Attribute) string {
	switch a.Type {
	case mesos.SCALAR:
		return formatScalar(a.GetScalar().GetValue())
	case mesos.RANGES:
		ranges := slices.Clone(a.GetRanges().GetRange())
		slices.SortFunc(ranges, func(x, y mesos.Value_Range) int { return cmp.Compare(x.Begin, y.Begin) })
		parts := make([]string, len(ranges))
		for i, r := range ranges {
			parts[i] = fmt.Sprintf("%d-%d", r.Begin, r.End)
		}
		return "[" + strings.Join(parts, ",") + "]"
	case mesos.SET:
		return "{" + strings.Join(slices.Sorted(slices.Values(a.GetSet().GetItem())), ",") + "}"
	default:
		return a.GetText().GetValue()
	}
}

// formatScalar rounds to at most three decimals, half to even, without
// trailing zeros.
func formatScalar(x float64) string {
	text := strconv.FormatFloat(x, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
