package usagehistory

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"mesos-gpu/framework/api"
)

// maxJobPoints limits the points of a job. When they are used up, each two become one and the
// interval doubles.
const maxJobPoints = 240

// JobSample is the usage of a job's GPUs in one minute.
type JobSample struct {
	// GPUs is the number of GPUs that its tasks held. Shares count as fractions.
	GPUs float64
	// Measured is the number of measured GPUs, of which Duty is the mean duty, DutyMax the highest
	// and MemUsedMiB the mean used memory. MemMiB is the memory of the largest.
	Measured                          int
	Duty, DutyMax, MemUsedMiB, MemMiB float64
}

// jobSeries is the usage of one run of a job, as it is stored. Its size is limited however long the run lasts: its points
// become longer; see maxJobPoints.
type jobSeries struct {
	// Start is when the first point begins, in seconds since 1970. Interval is the length of each, in seconds.
	Start    int64 `json:"start"`
	Interval int64 `json:"interval"`
	// Updated is when the last sample was added. Ended is set once the job has ended.
	Updated int64 `json:"updated"`
	Ended   bool  `json:"ended,omitempty"`
	// GPUMinutes is the sum of the held GPUs over all minutes.
	GPUMinutes float64 `json:"gpu_minutes"`
	// MemMiB is the memory of the largest GPU so far.
	MemMiB float64 `json:"mem_mib"`
	// Duty and DutyMax are in percent, Mem in MiB; unknown for a point without measurements.
	Duty    []int `json:"duty"`
	DutyMax []int `json:"duty_max"`
	Mem     []int `json:"mem"`
	// Samples counts the measured samples in the last point, which is their mean.
	Samples int `json:"samples"`
}

// newJobSeries returns an empty series.
func newJobSeries(now time.Time) *jobSeries {
	return &jobSeries{Start: now.Unix(), Interval: 60}
}

// addSample adds the sample of one minute. Minutes without a sample, such as those of a failover, become unknown points.
func (s *jobSeries) addSample(now time.Time, one JobSample) {
	s.Updated = max(now.Unix(), s.Start)
	s.GPUMinutes = roundTo(s.GPUMinutes+one.GPUs, 1000)
	s.MemMiB = max(s.MemMiB, one.MemMiB)
	at := int((s.Updated - s.Start) / s.Interval)
	for at >= maxJobPoints {
		s.halvePoints()
		at = int((s.Updated - s.Start) / s.Interval)
	}
	if at >= len(s.Duty) {
		s.Duty, s.DutyMax, s.Mem = setAt(s.Duty, at, unknown, unknown), setAt(s.DutyMax, at, unknown, unknown), setAt(s.Mem, at, unknown, unknown)
		s.Samples = 0
	}
	if one.Measured == 0 {
		return
	}
	last := len(s.Duty) - 1
	percent := func(v float64) int { return int(math.Round(100 * min(max(v, 0), 1))) }
	s.Duty[last] = mixMean(s.Duty[last], percent(one.Duty), s.Samples)
	s.Mem[last] = mixMean(s.Mem[last], int(math.Round(one.MemUsedMiB)), s.Samples)
	s.DutyMax[last] = max(s.DutyMax[last], percent(one.DutyMax))
	s.Samples++
}

// mixMean adds a value to a mean of n values.
func mixMean(mean, value, n int) int {
	if mean == unknown || n == 0 {
		return value
	}
	return int(math.Round(float64(mean*n+value) / float64(n+1)))
}

// halvePoints makes one point of each two.
func (s *jobSeries) halvePoints() {
	pair := func(list []int, join func(a, b int) int) []int {
		half := make([]int, 0, len(list)/2+1)
		for i := 0; i < len(list); i += 2 {
			switch {
			case i+1 == len(list) || list[i+1] == unknown:
				half = append(half, list[i])
			case list[i] == unknown:
				half = append(half, list[i+1])
			default:
				half = append(half, join(list[i], list[i+1]))
			}
		}
		return half
	}
	mean := func(a, b int) int { return (a + b + 1) / 2 }
	s.Duty, s.Mem, s.DutyMax = pair(s.Duty, mean), pair(s.Mem, mean), pair(s.DutyMax, func(a, b int) int { return max(a, b) })
	s.Interval *= 2
	s.Samples = max(1, s.Samples)
}

// decodeJobSeries decodes a document and rejects one whose lists do not fit together.
func decodeJobSeries(text []byte) (*jobSeries, error) {
	s := &jobSeries{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, err
	}
	if s.Interval < 60 || len(s.Duty) > maxJobPoints || len(s.Duty) != len(s.DutyMax) || len(s.Duty) != len(s.Mem) {
		return nil, errors.New("the lists of the job's usage do not fit together")
	}
	return s, nil
}

// view returns the series as the API shows it.
func (s *jobSeries) view() api.JobUsageHistory {
	v := api.JobUsageHistory{
		Times:           make([]int64, 0, len(s.Duty)),
		IntervalSeconds: int(s.Interval),
		MemMiB:          s.MemMiB,
		GPUHours:        roundTo(s.GPUMinutes/60, 1000),
		Duty:            []*float64{},
		DutyMax:         []*float64{},
		MemUsedMiB:      []*float64{},
	}
	for i := range s.Duty {
		v.Times = append(v.Times, min(s.Start+int64(i+1)*s.Interval, max(s.Updated, s.Start+1)))
		v.Duty = append(v.Duty, fractionOf(s.Duty[i], 100))
		v.DutyMax = append(v.DutyMax, fractionOf(s.DutyMax[i], 100))
		v.MemUsedMiB = append(v.MemUsedMiB, fractionOf(s.Mem[i], 1))
	}
	return v
}

// fractionOf returns a stored value divided by part, nil if it is unknown.
func fractionOf(v int, part float64) *float64 {
	if v == unknown {
		return nil
	}
	f := float64(v) / part
	return &f
}
