package fit

import (
	"math"
	"regexp"
	"strconv"

	"mesos-gpu/job"
)

// valueMatcher returns a test of the values of a constraint's field. The caller must not call methods of the cache before
// its last test. No value satisfies an expression that is not compiled.
func (p *PatternCache) valueMatcher(con job.Constraint) func(value string) bool {
	switch con.Operator {
	case job.Like, job.Unlike:
		m := p.find(con)
		return func(v string) bool { return m.err == nil && p.match(m, v) == (con.Operator == job.Like) }
	case job.Cluster:
		return func(v string) bool { return v == con.Value }
	case job.Is:
		want := normalizeScalar(con.Value)
		return func(v string) bool { return v == con.Value || want != "" && normalizeScalar(v) == want }
	default:
		return func(string) bool { return false }
	}
}

var plainNumber = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$`)

// normalizeScalar formats a number as Marathon's IS compares it: with at most
// three decimals, rounded half to even. It returns "" for other text.
func normalizeScalar(s string) string {
	if !plainNumber.MatchString(s) {
		return ""
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.Abs(f) > float64(maxMilli) {
		return ""
	}
	return strconv.FormatFloat(math.RoundToEven(f*1000)/1000+0, 'f', -1, 64)
}
