package alloc

import (
	"cmp"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// dominantShares compares roles as Mesos's allocator does, by weighted dominant resource fairness (A. Ghodsi et al., 2011):
// a role's share is the largest part that it and the roles below it have of any resource of the cluster, divided by its
// weight. Roles are compared level by level of their paths. What a role itself has competes with the roles below it, at
// weight 1.
type dominantShares struct {
	usage   roleUsage
	total   map[string]float64
	weights map[string]float64
}

func newDominantShares(usage roleUsage, total []mesos.Resource, weights map[string]float64) *dominantShares {
	all := roleUsage{}
	all.addResources("", total)
	return &dominantShares{usage: usage, total: all[""], weights: weights}
}

// compareRoles orders the role first that is below the other one in its share.
func (s *dominantShares) compareRoles(a, b string) int {
	if a == b {
		return 0
	}
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return cmp.Compare(s.shareAt(x, n), s.shareAt(y, n))
}

// shareAt returns the share of the role that the first n + 1 components of a path name, or of the role itself without the roles
// below it if the path has only n.
func (s *dominantShares) shareAt(path []string, n int) float64 {
	if n == len(path) {
		return s.dominantOf(s.usage[strings.Join(path, "/")])
	}
	role := strings.Join(path[:n+1], "/")
	sum := map[string]float64{}
	for other, amounts := range s.usage {
		if other == role || strings.HasPrefix(other, role+"/") {
			for name, value := range amounts {
				sum[name] += value
			}
		}
	}
	return s.dominantOf(sum) / cmp.Or(s.weights[role], 1)
}

// dominantOf returns the largest part of any resource of the cluster.
func (s *dominantShares) dominantOf(amounts map[string]float64) (most float64) {
	for name, value := range amounts {
		if total := s.total[name]; total > 0 {
			most = max(most, value/total)
		}
	}
	return most
}
