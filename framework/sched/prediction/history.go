// Package prediction predicts how long tasks run from the run times of similar tasks that have ended. A prediction only
// orders jobs and plans resources: nothing ends because of it. The package is pure, and equal sequences of calls give
// equal predictions.
package prediction

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/job"
)

// historyLength is the number of run times that are kept of similar tasks. The median of the last recentRuns of them is
// the prediction: users submit similar jobs in a row, so the latest run times are the best ones. The others show how
// much the run times vary.
const historyLength, recentRuns = 16, 5

// DefaultRunTime is the prediction without any history.
const DefaultRunTime = time.Hour

// maxKinds limits the kinds of tasks of one generation. There are two generations at most: when the newer one is full,
// it becomes the older one, and what was not used since is forgotten.
const maxKinds = 50_000

// History has the run times of tasks that have ended, by kind. A task belongs to several kinds, from the most specific
// one to all tasks of its role.
type History struct {
	newer, older map[string][]time.Duration
}

// NewHistory returns an empty history.
func NewHistory() *History { return &History{newer: map[string][]time.Duration{}} }

// AddRun adds the run time of a task of the job that has ended.
func (h *History) AddRun(s *job.Spec, ran time.Duration) {
	for _, kind := range kindsOf(s) {
		last := h.runsOf(kind)
		if len(last) == historyLength {
			last = last[1:]
		}
		h.newer[kind] = append(slices.Clip(last), max(ran, time.Second))
	}
	if len(h.newer) > maxKinds {
		h.newer, h.older = map[string][]time.Duration{}, h.newer
	}
}

func (h *History) runsOf(kind string) []time.Duration {
	if list, ok := h.newer[kind]; ok {
		return list
	}
	return h.older[kind]
}

// Predict returns the prediction for tasks of the job: from the most specific kind with a run time. It returns false if
// no kind has one.
func (h *History) Predict(s *job.Spec) (Prediction, bool) {
	for _, kind := range kindsOf(s) {
		if runs := h.runsOf(kind); len(runs) > 0 {
			return newPrediction(runs, s.Timeout), true
		}
	}
	return Prediction{}, false
}

// kindsOf returns the keys of the kinds that tasks of the job belong to, the most specific one first. Two jobs are
// similar if they agree in their user, name, command, image and size, or in some of these. Numbers in names are ignored,
// so that runs of an experiment have the same name.
func kindsOf(s *job.Spec) []string {
	user := s.Role + "\x00" + s.Owner + "\x00"
	name, command, image, size := nameStem(s.Name), strings.Join(s.Command, "\x01"), s.Image, sizeKey(s)
	key := func(prefix string, parts ...string) string { return prefix + user + strings.Join(parts, "\x00") }
	kinds := []string{key("a", name, command, image, size), key("b", name, size), key("c", command, image, size)}
	if image != "" {
		kinds = append(kinds, key("d", image, size))
	}
	return append(kinds, key("e", size), "f"+s.Role+"\x00"+size, "g"+s.Role)
}

func sizeKey(s *job.Spec) string {
	return strconv.Itoa(s.Tasks) + "x" + strconv.Itoa(s.Request.GPUs) + s.Request.Share.String()
}

// nameStem returns a name without digits and the separators at its end.
func nameStem(name string) string {
	stem := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
	return strings.TrimRight(stem, ".-_")
}

// Prediction describes the expected run time of a task.
type Prediction struct {
	// RunTime is the expected run time.
	RunTime time.Duration
	// Runs are the run times of similar tasks, the shortest first; never empty.
	Runs []time.Duration
}

// newPrediction returns the prediction from run times, the oldest first. No task runs longer than its timeout, unless
// that is 0.
func newPrediction(runs []time.Duration, timeout time.Duration) Prediction {
	recent := slices.Sorted(slices.Values(runs[max(0, len(runs)-recentRuns):]))
	p := Prediction{RunTime: recent[len(recent)/2].Round(time.Second), Runs: slices.Sorted(slices.Values(runs))}
	if timeout > 0 {
		p.RunTime = min(p.RunTime, timeout)
		for i := range p.Runs {
			p.Runs[i] = min(p.Runs[i], timeout)
		}
	}
	return p
}

// Exact returns the prediction of a run time that is known.
func Exact(runs time.Duration) Prediction {
	return Prediction{RunTime: runs, Runs: []time.Duration{runs}}
}

// ExpectedTotal returns the expected run time of a task that has run for a time: the prediction as long as that is
// longer, then the median of the longer run times of similar tasks, then twice the time that it has run. So a task that
// outlives its prediction is expected to end later, and no plan waits for an end in the past.
func (p *Prediction) ExpectedTotal(ran time.Duration) time.Duration {
	if p.RunTime > ran {
		return p.RunTime
	}
	if longer := p.Longer(ran); len(longer) > 0 {
		return longer[len(longer)/2]
	}
	return max(2*ran, ran+time.Minute)
}

// Longer returns the run times of similar tasks that are longer than a time.
func (p *Prediction) Longer(than time.Duration) []time.Duration {
	at, found := slices.BinarySearchFunc(p.Runs, than, cmp.Compare[time.Duration])
	for found && at < len(p.Runs) && p.Runs[at] == than {
		at++
	}
	return p.Runs[at:]
}
