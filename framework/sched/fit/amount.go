package fit

import (
	"math"
	"strconv"
)

// Amount is a quantity of the resources that come as plain numbers.
type Amount struct {
	CPUs, MemMiB, DiskMiB float64
}

// Plus adds in thousandths, as Mesos itself does.
func (a Amount) Plus(b Amount) Amount { return a.milli().plus(b.milli()).whole() }

// amount counts in thousandths, so that sums of many tasks do not drift away
// from what the master computes.
type amount struct{ cpus, mem, disk int64 }

// most bounds what a number in an offer or a demand may mean.
const most = int64(1) << 50

// milli rounds to thousandths. Whatever is above zero takes at least one.
func milli(x float64) int64 {
	switch n := math.Round(x * 1000); {
	case !(x > 0): // NaN too
		return 0
	case n < 1:
		return 1
	case n > float64(most):
		return most
	default:
		return int64(n)
	}
}

func (a Amount) milli() amount { return amount{milli(a.CPUs), milli(a.MemMiB), milli(a.DiskMiB)} }

func (a amount) whole() Amount {
	return Amount{float64(a.cpus) / 1000, float64(a.mem) / 1000, float64(a.disk) / 1000}
}

func (a amount) plus(b amount) amount {
	return amount{a.cpus + b.cpus, a.mem + b.mem, a.disk + b.disk}
}

func (a amount) minus(b amount) amount {
	return amount{a.cpus - b.cpus, a.mem - b.mem, a.disk - b.disk}
}

// holds reports whether need fits into a.
func (a *amount) holds(need *amount) bool {
	return need.cpus <= a.cpus && need.mem <= a.mem && need.disk <= a.disk
}

// number prints thousandths as people write them: 2100 is "2.1".
func number(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }
