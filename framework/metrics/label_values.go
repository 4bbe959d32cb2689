package metrics

import (
	"slices"
	"strings"
	"sync"

	"mesos-gpu/gpu"
)

// maxLabelSize limits a label value, in bytes, because agents choose the type names.
const maxLabelSize = 256

// maxLabelValues limits the number of values of a label that nothing else limits.
const maxLabelValues = 64

// Values of the type label that are not models: for tasks without GPUs, for tasks that
// accept any type, and for types beyond maxLabelValues or with unknown names.
const (
	labelNoGPU   = "none"
	labelAnyType = "any"
	labelOther   = "other"
)

// sanitizeLabel returns a valid label value. A value that is not UTF-8 would fail the
// whole scrape.
func sanitizeLabel(s string) string {
	if len(s) > maxLabelSize {
		s = s[:maxLabelSize]
	}
	return strings.ToValidUTF8(s, "?")
}

// labelValues limits the values of a label. It keeps the first maxLabelValues values and
// maps later ones to labelOther. It is safe for concurrent use.
type labelValues struct {
	// mu protects all fields.
	mu sync.Mutex
	// known are the values that are exported as they are. It only grows.
	known map[string]bool
	// gpuModels are the GPU types in the spelling of the agents. It only grows.
	gpuModels []string
	// requests are the cached labels of requests. It is cleared when gpuModels changes.
	requests map[string]string
}

func newLabelValues() *labelValues {
	return &labelValues{known: map[string]bool{}, requests: map[string]string{}}
}

// bounded returns the label value for a text.
func (v *labelValues) bounded(text string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.boundedLocked(text)
}

// boundedLocked is bounded for callers that hold the lock.
func (v *labelValues) boundedLocked(text string) string {
	text = sanitizeLabel(text)
	switch {
	case v.known[text]:
	case len(v.known) >= maxLabelValues:
		return labelOther
	default:
		v.known[text] = true
	}
	return text
}

// deviceLabel returns the label of a device's type: "" if no agent reports it, "A|B" if
// it is one of several.
func (v *labelValues) deviceLabel(kind string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if kind != "" && !v.known[sanitizeLabel(kind)] && !strings.Contains(kind, "|") {
		v.gpuModels, v.requests = append(v.gpuModels, sanitizeLabel(kind)), map[string]string{}
	}
	return v.boundedLocked(kind)
}

// launchedLabel returns the type label of the GPUs that a task was given.
func (v *labelValues) launchedLabel(request *gpu.Request, types map[string]int, parts []gpu.DeviceShare) string {
	if request.GPUs == 0 {
		return labelNoGPU
	}
	var kinds []string
	for kind := range types {
		kinds = append(kinds, v.deviceLabel(kind))
	}
	for i := range parts {
		kinds = append(kinds, v.deviceLabel(parts[i].Type))
	}
	return v.joinLabels(kinds)
}

// requestLabel returns the type label of a request, whether or not such GPUs exist.
func (v *labelValues) requestLabel(request *gpu.Request) string {
	switch {
	case request.GPUs == 0:
		return labelNoGPU
	case len(request.Types.Include) == 0:
		return labelAnyType
	}
	key := strings.Join(request.Types.Include, "\x00")
	v.mu.Lock()
	found, ok := v.requests[key]
	models := v.gpuModels
	v.mu.Unlock()
	if ok {
		return found
	}
	var kinds []string
	for _, name := range request.Types.Include {
		kinds = append(kinds, canonicalType(name, models))
	}
	found = v.joinLabels(kinds)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.requests) > 16*maxLabelValues { // the same request may be spelled in many ways
		clear(v.requests)
	}
	v.requests[key] = found
	return found
}

// joinLabels returns one label for several types.
func (v *labelValues) joinLabels(kinds []string) string {
	slices.Sort(kinds)
	return v.bounded(strings.Join(slices.Compact(kinds), "|"))
}

// canonicalType returns the short type of a name in the spelling of the agents, or in NVIDIA's if no agent has it. It
// returns labelOther for a name that is not an NVIDIA type.
func canonicalType(name string, models []string) string {
	short := gpu.TypeOf(name)
	if i := slices.IndexFunc(models, func(model string) bool { return gpu.IsSameTypeName(short, model) }); i >= 0 {
		return models[i]
	}
	switch {
	case !gpu.IsKnownType(name):
		return labelOther
	case gpu.IsKnownType(short) && !gpu.NamesMIG(short):
		return short
	default:
		return "MIG"
	}
}

// GPUsByLabel returns the counts by label instead of type, so that they match the labels
// of requests.
func (c *SchedulerCounters) GPUsByLabel(byType map[string]GPUCount) map[string]GPUCount {
	all := make(map[string]GPUCount, len(byType))
	for kind, n := range byType {
		name := c.types.deviceLabel(kind)
		sum := all[name]
		all[name] = GPUCount{All: sum.All + n.All, Free: sum.Free + n.Free}
	}
	return all
}
