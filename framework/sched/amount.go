package sched

import (
	"math"
	"strconv"
)

// Amount is a quantity of the resources that come as plain numbers.
type Amount struct {
	CPUs, MemMiB, DiskMiB float64
}

// amount counts in thousandths, as Mesos itself does, so that sums of many
// tasks do not drift away from what the master computes.
type amount struct{ cpus, mem, disk int64 }

// most bounds what a number in an offer or a job may mean.
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

func (a amount) plus(b amount) amount {
	return amount{a.cpus + b.cpus, a.mem + b.mem, a.disk + b.disk}
}

func (a amount) minus(b amount) amount {
	return amount{a.cpus - b.cpus, a.mem - b.mem, a.disk - b.disk}
}

// times says how often need fits into a, at most limit times.
func (a amount) times(need amount, limit int) int {
	n := int64(limit)
	for _, r := range [][2]int64{{a.cpus, need.cpus}, {a.mem, need.mem}, {a.disk, need.disk}} {
		if r[1] > 0 {
			n = min(n, r[0]/r[1])
		}
	}
	return int(max(n, 0))
}

// number prints thousandths as people write them: 2100 is "2.1".
func number(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }
