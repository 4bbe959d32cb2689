package fit

import (
	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/job"
)

// PatternCache stores the compiled expressions of constraints and which values they match, so that an expression is
// compiled once and compared once with each value, however often clusters are built. It does not affect results. It
// belongs to one goroutine. A zero PatternCache is empty.
type PatternCache struct {
	patterns map[string]*matchedPattern
	// numbers are the values that expressions were compared with, numbered in the order in which they were seen.
	numbers map[string]int
	// results is the number of stored results.
	results int
}

// matchedPattern is one expression.
type matchedPattern struct {
	job.Pattern
	// err is why the expression is not compiled: a job of an earlier release may have one that is too large.
	err error
	// known and matches are sets of numbered values. known has those that were compared, matches those that match.
	known, matches index.Bits
}

// Bounds of a cache. It is emptied when it exceeds one of them.
const (
	maxCachedPatterns = 20_000
	maxCachedValues   = 200_000
	// maxCachedResults limits the results of all patterns, which take two bits each.
	maxCachedResults = 1 << 27
)

// find returns the expression of a LIKE or UNLIKE constraint.
func (p *PatternCache) find(con job.Constraint) *matchedPattern {
	if m, ok := p.patterns[con.Value]; ok {
		return m
	}
	if len(p.patterns) >= maxCachedPatterns || len(p.numbers) >= maxCachedValues || p.results >= maxCachedResults {
		*p = PatternCache{}
	}
	if p.patterns == nil {
		p.patterns, p.numbers = map[string]*matchedPattern{}, map[string]int{}
	}
	m := &matchedPattern{}
	m.Pattern, m.err = con.CompilePattern()
	p.patterns[con.Value] = m
	return m
}

// match reports whether a compiled expression matches a value.
func (p *PatternCache) match(m *matchedPattern, value string) bool {
	n, ok := p.numbers[value]
	if !ok {
		n = len(p.numbers)
		p.numbers[value] = n
	}
	if words := index.WordCount(n + 1); words > len(m.known) {
		more := index.NewBits(64 * max(words-len(m.known), len(m.known)))
		p.results += 64 * len(more)
		m.known, m.matches = append(m.known, more...), append(m.matches, more...)
	}
	if !m.known.Has(n) {
		m.known.Add(n)
		if m.MatchString(value) {
			m.matches.Add(n)
		}
	}
	return m.matches.Has(n)
}

// checkPatterns returns why the expressions of a list of constraints match no agent: one of them is invalid, or they
// are too large together. Validate rejects such a list, but a job of an earlier release may have one.
func (p *PatternCache) checkPatterns(list []job.Constraint) error {
	steps := 0
	for _, con := range list {
		if con.Operator != job.Like && con.Operator != job.Unlike {
			continue
		}
		m := p.find(con)
		if m.err != nil {
			return m.err
		}
		steps += m.Steps
	}
	return job.CheckPatternSteps(steps)
}
