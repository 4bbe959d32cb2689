package fit

import (
	"math"
	"strconv"
)

// Amount is a quantity of the resources that Mesos counts as scalars.
type Amount struct {
	CPUs, MemMiB, DiskMiB float64
}

// Plus returns the sum, computed in thousandths as Mesos does.
func (a Amount) Plus(b Amount) Amount { return a.toMilli().plus(b.toMilli()).toAmount() }

// Minus returns the difference, at least zero, computed in thousandths.
func (a Amount) Minus(b Amount) Amount {
	left := a.toMilli().minus(b.toMilli())
	return milliAmount{max(left.cpus, 0), max(left.mem, 0), max(left.disk, 0)}.toAmount()
}

// milliAmount counts in thousandths, so that the sum of many tasks equals what
// the master computes.
type milliAmount struct{ cpus, mem, disk int64 }

// maxMilli bounds a number in an offer or a demand.
const maxMilli = int64(1) << 50

// toMilli rounds to thousandths. A number above zero becomes at least one.
func toMilli(x float64) int64 {
	switch n := math.Round(x * 1000); {
	case !(x > 0): // NaN too
		return 0
	case n < 1:
		return 1
	case n > float64(maxMilli):
		return maxMilli
	default:
		return int64(n)
	}
}

func (a Amount) toMilli() milliAmount {
	return milliAmount{toMilli(a.CPUs), toMilli(a.MemMiB), toMilli(a.DiskMiB)}
}

func (a milliAmount) toAmount() Amount {
	return Amount{float64(a.cpus) / 1000, float64(a.mem) / 1000, float64(a.disk) / 1000}
}

func (a milliAmount) plus(b milliAmount) milliAmount {
	return milliAmount{a.cpus + b.cpus, a.mem + b.mem, a.disk + b.disk}
}

func (a milliAmount) minus(b milliAmount) milliAmount {
	return milliAmount{a.cpus - b.cpus, a.mem - b.mem, a.disk - b.disk}
}

// canHold reports whether need is at most a in each resource.
func (a *milliAmount) canHold(need *milliAmount) bool {
	return need.cpus <= a.cpus && need.mem <= a.mem && need.disk <= a.disk
}

// formatMilli formats thousandths as a decimal number: 2100 is "2.1".
func formatMilli(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }
