// Package usagehistory keeps the use of the cluster's GPUs by type for 30 days, and the usage of
// each job's GPUs over its run. It encodes both as documents of the journal, so that a new leader
// continues them. It does no I/O and has no clock.
package usagehistory

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

const (
	// pointInterval is the time between two stored points of the cluster. Each is the mean of the samples of its interval.
	pointInterval = 5 * time.Minute
	pointsPerDay  = int(24 * time.Hour / pointInterval)
	// unknown is the stored duty of GPUs that were not measured.
	unknown = -1
)

// ClusterSample is the use of the cluster at one time.
type ClusterSample struct {
	// WaitingGPUs are the GPUs that waiting tasks request.
	WaitingGPUs float64
	// Types has the use by GPU type.
	Types map[string]TypeSample
}

// TypeSample is the use of the GPUs of one type.
type TypeSample struct {
	// GPUs counts the GPUs of the agents, Held the GPUs that tasks hold.
	GPUs, Held float64
	// Duty is the mean of the Measured held GPUs, from 0 to 1.
	Duty, Measured float64
}

// clusterDay has the points of one day, in UTC. Each list has an element for each point until the
// last one; a point without a sample has no GPUs of any type.
type clusterDay struct {
	Waiting []float64           `json:"waiting"`
	Types   map[string]*typeDay `json:"types"`
}

// typeDay is the part of a clusterDay of one type. Duty is in percent, or unknown.
type typeDay struct {
	GPUs []float64 `json:"gpus"`
	Held []float64 `json:"held"`
	Duty []int     `json:"duty"`
}

// dayOf returns the number of the day and of the point in it.
func dayOf(t time.Time) (day int64, point int) {
	seconds := t.Unix()
	day = seconds / (24 * 3600)
	return day, int((seconds - day*24*3600) / int64(pointInterval/time.Second))
}

// pointTime returns the end of a point, in seconds since 1970.
func pointTime(day int64, point int) int64 {
	return day*24*3600 + int64(point+1)*int64(pointInterval/time.Second)
}

// setPoint stores a sample as a point.
func (d *clusterDay) setPoint(point int, s *ClusterSample) {
	if d.Types == nil {
		d.Types = map[string]*typeDay{}
	}
	d.Waiting = setAt(d.Waiting, point, roundTo(s.WaitingGPUs, 100), 0)
	for name, one := range s.Types {
		t := d.Types[name]
		if t == nil {
			t = &typeDay{}
			d.Types[name] = t
		}
		duty := unknown
		if one.Measured > 0 {
			duty = int(math.Round(100 * min(max(one.Duty, 0), 1)))
		}
		t.GPUs, t.Held, t.Duty = setAt(t.GPUs, point, one.GPUs, 0), setAt(t.Held, point, roundTo(one.Held, 100), 0), setAt(t.Duty, point, duty, unknown)
	}
}

// sampleAt returns the sample of a point, false if none exists. How many GPUs were measured is not stored; for means it
// counts all held ones.
func (d *clusterDay) sampleAt(point int) (s ClusterSample, ok bool) {
	if point >= len(d.Waiting) {
		return s, false
	}
	s = ClusterSample{WaitingGPUs: d.Waiting[point], Types: map[string]TypeSample{}}
	for name, t := range d.Types {
		if point >= len(t.GPUs) || t.GPUs[point] == 0 && t.Held[point] == 0 {
			continue
		}
		one := TypeSample{GPUs: t.GPUs[point], Held: t.Held[point]}
		if t.Duty[point] != unknown {
			one.Duty, one.Measured = float64(t.Duty[point])/100, max(one.Held, 0.01)
		}
		s.Types[name] = one
	}
	return s, len(s.Types) > 0
}

// setAt sets an element and fills the ones before it that are missing.
func setAt[T any](list []T, at int, value, missing T) []T {
	for len(list) <= at {
		list = append(list, missing)
	}
	list[at] = value
	return list
}

// roundTo rounds to 1/part, so that documents are short.
func roundTo(v, part float64) float64 { return math.Round(v*part) / part }

// decodeDay decodes a document and rejects one whose lists do not fit together.
func decodeDay(text []byte) (*clusterDay, error) {
	d := &clusterDay{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, err
	}
	if len(d.Waiting) > pointsPerDay {
		return nil, fmt.Errorf("%d points of a day, more than %d", len(d.Waiting), pointsPerDay)
	}
	for name, t := range d.Types {
		if t == nil || len(t.GPUs) > pointsPerDay || len(t.GPUs) != len(t.Held) || len(t.GPUs) != len(t.Duty) {
			return nil, fmt.Errorf("the lists of type %q have different lengths", name)
		}
	}
	return d, nil
}

// meanOf returns the mean of several samples. A type's duty is weighted by its measured GPUs.
func meanOf(samples []ClusterSample) ClusterSample {
	mean := ClusterSample{Types: map[string]TypeSample{}}
	n := float64(len(samples))
	for _, s := range samples {
		mean.WaitingGPUs += s.WaitingGPUs / n
		for name, one := range s.Types {
			sum := mean.Types[name]
			sum.GPUs, sum.Held = sum.GPUs+one.GPUs/n, sum.Held+one.Held/n
			sum.Duty, sum.Measured = sum.Duty+one.Duty*one.Measured, sum.Measured+one.Measured
			mean.Types[name] = sum
		}
	}
	for name, sum := range mean.Types {
		if sum.Measured > 0 {
			sum.Duty /= sum.Measured
		}
		mean.Types[name] = sum
	}
	return mean
}
