package marathon

import (
	"maps"
	"slices"
	"strings"

	"mesos-gpu/job/editdistance"
)

// suggestField names the field that was probably meant: one of the same object, or one of
// the same name elsewhere.
func suggestField(n *schemaNode, name string) string {
	best, least := "", 1+len(name)/3
	for _, other := range slices.Sorted(maps.Keys(n.members)) {
		if len(name) > 3 && len(other) > len(name) && strings.EqualFold(other[:len(name)], name) || strings.EqualFold(other, name) {
			return didYouMean(other)
		}
		if d := nameDistance(strings.ToLower(name), strings.ToLower(other)); d < least {
			best, least = other, d
		}
	}
	if best != "" {
		return didYouMean(best)
	}
	for _, f := range AppFields() {
		steps := splitPath(f.Path)
		if strings.EqualFold(steps[len(steps)-1], name) && f.Deprecated == "" && f.Support == Honoured {
			return didYouMean(f.Path)
		}
	}
	return ""
}

func didYouMean(field string) string { return "; did you mean " + field + "?" }

// maxName bounds the work: no field has a longer name.
const maxName = 64

// nameDistance is large for a text that is too long to be a name.
func nameDistance(a, b string) int {
	if len(a) > maxName {
		return len(a)
	}
	return editdistance.Distance(a, b)
}
