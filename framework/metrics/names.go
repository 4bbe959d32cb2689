package metrics

import (
	"slices"
	"strings"
	"sync"

	"mesos-gpu/gpu"
)

// maxLabel bounds a label's value, in bytes: agents tell the types.
const maxLabel = 256

// maxNames bounds how many values a label has, but for those that other bounds.
const maxNames = 64

// The types that are no models: of tasks that want no GPUs, of those that take
// whatever there is, and of all beyond maxNames or of names that nobody knows.
const (
	noType    = "none"
	anyType   = "any"
	otherType = "other"
)

// label makes a text fit to be a label's value: one that is not UTF-8 would
// fail the whole scrape.
func label(s string) string {
	if len(s) > maxLabel {
		s = s[:maxLabel]
	}
	return strings.ToValidUTF8(s, "?")
}

// names are the values that a label has had. The first maxNames stay, what
// comes after them is other. They may be used by several goroutines.
type names struct {
	mu     sync.Mutex
	known  map[string]bool
	models []string          // those of GPUs, as agents spell them
	wishes map[string]string // what has been found of wishes, for these models
}

func newNames() *names { return &names{known: map[string]bool{}, wishes: map[string]string{}} }

// of is the value for a text.
func (n *names) of(text string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.keep(text)
}

func (n *names) keep(text string) string {
	text = label(text)
	switch {
	case n.known[text]:
	case len(n.known) >= maxNames:
		return otherType
	default:
		n.known[text] = true
	}
	return text
}

// device is the value for the type of a GPU that there is: "" where no agent
// tells it, "A|B" where it is one of several.
func (n *names) device(kind string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if kind != "" && !n.known[label(kind)] && !strings.Contains(kind, "|") {
		n.models, n.wishes = append(n.models, label(kind)), map[string]string{}
	}
	return n.keep(kind)
}

// launched is the value for what a task has got.
func (n *names) launched(request *gpu.Request, types map[string]int, parts []gpu.Part) string {
	if request.GPUs == 0 {
		return noType
	}
	var kinds []string
	for kind := range types {
		kinds = append(kinds, n.device(kind))
	}
	for i := range parts {
		kinds = append(kinds, n.device(parts[i].Type))
	}
	return n.joined(kinds)
}

// wish is the value for what a task wants, whether or not there is such a GPU.
func (n *names) wish(request *gpu.Request) string {
	switch {
	case request.GPUs == 0:
		return noType
	case len(request.Types.Include) == 0:
		return anyType
	}
	key := strings.Join(request.Types.Include, "\x00")
	n.mu.Lock()
	found, ok := n.wishes[key]
	models := n.models
	n.mu.Unlock()
	if ok {
		return found
	}
	var kinds []string
	for _, name := range request.Types.Include {
		kinds = append(kinds, spelling(name, models))
	}
	found = n.joined(kinds)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.wishes) > 16*maxNames { // people may write one in many ways
		clear(n.wishes)
	}
	n.wishes[key] = found
	return found
}

// joined is one value for several types.
func (n *names) joined(kinds []string) string {
	slices.Sort(kinds)
	return n.of(strings.Join(slices.Compact(kinds), "|"))
}

// spelling is a type's name as agents spell it, or in capitals where no agent
// has it. A name that NVIDIA gave to nothing is other.
func spelling(name string, models []string) string {
	wish := gpu.Types{Include: []string{name}}
	if i := slices.IndexFunc(models, wish.Match); i >= 0 {
		return models[i]
	}
	if gpu.Known(name) {
		return strings.ToUpper(gpu.TypeOf(name))
	}
	return otherType
}

// Models are GPUs by the values that their types have as labels, for wishes to
// be named alike.
func (c *Counters) Models(byType map[string]GPUs) map[string]GPUs {
	all := make(map[string]GPUs, len(byType))
	for kind, n := range byType {
		name := c.types.device(kind)
		sum := all[name]
		all[name] = GPUs{All: sum.All + n.All, Free: sum.Free + n.Free}
	}
	return all
}
