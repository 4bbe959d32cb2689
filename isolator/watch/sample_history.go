package watch

import (
	"maps"
	"time"

	"mesos-gpu/gpu"
)

// sampleRing stores the last samples of a device.
type sampleRing struct {
	// samples grows to size and is then overwritten in a circle.
	samples []gpu.Sample
	// next is the index of the oldest sample once the ring is full, which the
	// next sample overwrites. Before that it is 0.
	next int
	// size is the number of samples that are kept.
	size int
}

func newSampleRing(size int) sampleRing { return sampleRing{size: size} }

// addSample drops the processes, which have no bounded size.
func (r *sampleRing) addSample(s gpu.Sample) {
	s.Processes = nil
	if len(r.samples) < r.size {
		r.samples = append(r.samples, s)
		return
	}
	r.samples[r.next] = s
	r.next = (r.next + 1) % r.size
}

// samplesSince returns the samples that are not older than oldest, oldest
// first.
func (r *sampleRing) samplesSince(oldest time.Time) []gpu.Sample {
	list := make([]gpu.Sample, 0, len(r.samples))
	for i := range r.samples {
		if s := r.samples[(r.next+i)%len(r.samples)]; !s.At.Before(oldest) {
			list = append(list, s)
		}
	}
	return list
}

// maxXIDs bounds the number of distinct XIDs that are counted.
const maxXIDs = 64

func countXID(xids map[uint64]uint64, number uint64) {
	if _, ok := xids[number]; !ok && len(xids) >= maxXIDs {
		number = 0
	}
	xids[number]++
}

func cloneCounts(m map[uint64]uint64) map[uint64]uint64 {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}
