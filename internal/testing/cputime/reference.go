package cputime

import (
	"math/rand"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Figure is a measured figure and the range in which it must be. The range is so wide that the load of a shared machine does
// not matter, and so narrow that a regression to twice the figure does.
type Figure struct {
	Name             string
	Got, Least, Most float64
}

// CheckRanges fails the test for each figure that is outside of its range.
func CheckRanges(t *testing.T, figures ...Figure) {
	t.Helper()
	for _, f := range figures {
		t.Logf("%s: %.2f", f.Name, f.Got)
		if f.Got < f.Least || f.Got > f.Most {
			t.Errorf("%s: %.2f, want %g to %g; change the range if the reason is known and good", f.Name, f.Got, f.Least, f.Most)
		}
	}
}

// MeasureRatio measures the CPU time of work several times, each time between two measurements of a fixed amount of work in
// the same process. It returns the median of the quotients, which depends little on the machine and its load.
func MeasureRatio(t *testing.T, times int, work func()) float64 {
	t.Helper()
	var all, references []time.Duration
	var quotients []float64
	references = append(references, measureReference(t))
	for i := range times {
		runtime.GC() // garbage of the reference
		begun := Read(t)
		work()
		all = append(all, Read(t)-begun)
		references = append(references, measureReference(t))
		quotients = append(quotients, 2*all[i].Seconds()/(references[i]+references[i+1]).Seconds())
	}
	t.Logf("took %v of CPU time, the reference %v", all, references)
	slices.Sort(quotients)
	return quotients[times/2]
}

// measureReference returns the CPU time of a fixed amount of work like a scheduler's: maps, texts, sorting and memory
// that becomes garbage.
func measureReference(t *testing.T) time.Duration {
	rnd := rand.New(rand.NewSource(1))
	runtime.GC()
	begun := Read(t)
	type entry struct {
		name  string
		value int
		_     [20]int
	}
	byName := map[string]*entry{}
	var list []*entry
	for range 100_000 {
		e := &entry{name: "task-" + strconv.Itoa(rnd.Int()), value: rnd.Int()}
		byName[e.name] = e
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *entry) int { return byName[a.name].value - byName[b.name].value })
	return Read(t) - begun
}
