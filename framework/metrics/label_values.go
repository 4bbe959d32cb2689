package metrics

import (
	"slices"
	"strings"
	"sync"

	"mesos-gpu/gpu"
)

// maxLabelSize bounds a label's value, in bytes: agents tell the types.
const maxLabelSize = 256

// maxLabelValues bounds how many values a label has, but for those that other bounds.
const maxLabelValues = 64

// The types that are no models: of tasks that want no GPUs, of those that take
// whatever there is, and of all beyond maxLabelValues or of unknown names.
const (
	labelNoGPU   = "none"
	labelAnyType = "any"
	labelOther   = "other"
)

// sanitizeLabel makes a text fit to be a label's value: one that is not UTF-8 would
// fail the whole scrape.
func sanitizeLabel(s string) string {
	if len(s) > maxLabelSize {
		s = s[:maxLabelSize]
	}
	return strings.ToValidUTF8(s, "?")
}

// labelValues are the values that a label has had. The first maxLabelValues stay, what
// comes after them is other. They may be used by several goroutines.
type labelValues struct {
	mu        sync.Mutex
	known     map[string]bool
	gpuModels []string          // the GPU models, as agents spell them
	requests  map[string]string // labels found for requests, for these models
}

func newLabelValues() *labelValues {
	return &labelValues{known: map[string]bool{}, requests: map[string]string{}}
}

// bounded is the value for a text.
func (n *labelValues) bounded(text string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.boundedLocked(text)
}

func (n *labelValues) boundedLocked(text string) string {
	text = sanitizeLabel(text)
	switch {
	case n.known[text]:
	case len(n.known) >= maxLabelValues:
		return labelOther
	default:
		n.known[text] = true
	}
	return text
}

// deviceLabel is the value for the type of a GPU that there is: "" where no agent
// tells it, "A|B" where it is one of several.
func (n *labelValues) deviceLabel(kind string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if kind != "" && !n.known[sanitizeLabel(kind)] && !strings.Contains(kind, "|") {
		n.gpuModels, n.requests = append(n.gpuModels, sanitizeLabel(kind)), map[string]string{}
	}
	return n.boundedLocked(kind)
}

// launchedLabel is the value for what a task has got.
func (n *labelValues) launchedLabel(request *gpu.Request, types map[string]int, parts []gpu.DeviceShare) string {
	if request.GPUs == 0 {
		return labelNoGPU
	}
	var kinds []string
	for kind := range types {
		kinds = append(kinds, n.deviceLabel(kind))
	}
	for i := range parts {
		kinds = append(kinds, n.deviceLabel(parts[i].Type))
	}
	return n.joinLabels(kinds)
}

// requestLabel is the value for what a task wants, whether or not there is such a GPU.
func (n *labelValues) requestLabel(request *gpu.Request) string {
	switch {
	case request.GPUs == 0:
		return labelNoGPU
	case len(request.Types.Include) == 0:
		return labelAnyType
	}
	key := strings.Join(request.Types.Include, "\x00")
	n.mu.Lock()
	found, ok := n.requests[key]
	models := n.gpuModels
	n.mu.Unlock()
	if ok {
		return found
	}
	var kinds []string
	for _, name := range request.Types.Include {
		kinds = append(kinds, canonicalType(name, models))
	}
	found = n.joinLabels(kinds)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.requests) > 16*maxLabelValues { // people may write one in many ways
		clear(n.requests)
	}
	n.requests[key] = found
	return found
}

// joinLabels is one value for several types.
func (n *labelValues) joinLabels(kinds []string) string {
	slices.Sort(kinds)
	return n.bounded(strings.Join(slices.Compact(kinds), "|"))
}

// canonicalType is a type's name as agents spell it, or in capitals where no agent
// has it. A name that NVIDIA gave to nothing is other.
func canonicalType(name string, models []string) string {
	wish := gpu.TypeSelector{Include: []string{name}}
	if i := slices.IndexFunc(models, wish.Match); i >= 0 {
		return models[i]
	}
	if gpu.IsKnownType(name) {
		return strings.ToUpper(gpu.TypeOf(name))
	}
	return labelOther
}

// GPUsByLabel are GPUs by the values that their types have as labels, for wishes to
// be named alike.
func (c *SchedulerCounters) GPUsByLabel(byType map[string]GPUCount) map[string]GPUCount {
	all := make(map[string]GPUCount, len(byType))
	for kind, n := range byType {
		name := c.types.deviceLabel(kind)
		sum := all[name]
		all[name] = GPUCount{All: sum.All + n.All, Free: sum.Free + n.Free}
	}
	return all
}
