package job

import (
	"encoding/binary"
	"iter"
	"maps"
	"slices"
)

// maxInterned limits the parts of each kind that an Interner holds, maxInternedBytes the texts of one part.
const maxInterned, maxInternedBytes = 1024, 1024

// Interner lets specifications and tasks share equal parts, which saves memory where many jobs differ in little more than
// their names. It replaces parts and never modifies them. A zero Interner is ready to use, by one goroutine.
type Interner struct {
	// Each table has one copy of each part by an encoding of its contents. It is emptied when it is full.
	texts    map[string]string
	lists    map[string][]string
	textMaps map[string]map[string]string
	counts   map[string]map[string]int
	// names and key are memory for the encodings.
	names []string
	key   []byte
}

// InternSpec replaces parts of a specification by equal ones of earlier calls.
func (n *Interner) InternSpec(s *Spec) {
	for _, text := range []*string{
		&s.Role, &s.Owner, &s.Group, &s.Image, &s.Workdir, &s.Chdir, &s.CheckpointDir, &s.Entrypoint, &s.User, &s.PullSecret,
		&s.Request.MinDriver, &s.Request.MinCUDA,
		(*string)(&s.Containerizer), (*string)(&s.Network), (*string)(&s.IPC), (*string)(&s.Request.Topology), (*string)(&s.OnTimeout),
	} {
		n.internText(text)
	}
	for _, list := range []*[]string{
		&s.Command, &s.Artifacts, &s.Devices, &s.Request.Types.Include, &s.Request.Types.Exclude, &s.Request.Devices.Include, &s.Request.Devices.Exclude,
	} {
		n.internList(list)
	}
	for _, texts := range []*map[string]string{&s.Env, &s.Labels, &s.Secrets, &s.SecretFiles, &s.NetworkLabels} {
		n.internTextMap(texts)
	}
}

// InternTask replaces parts of a task by equal ones of earlier calls.
func (n *Interner) InternTask(t *Task) {
	for _, text := range []*string{(*string)(&t.State), &t.AgentID, &t.Hostname, &t.AgentURL, &t.Message, &t.Reason, &t.KilledBy} {
		n.internText(text)
	}
	n.InternCounts(&t.GPUTypes)
	n.InternCounts(&t.Products)
}

// InternChange replaces texts of a change by equal ones of earlier calls.
func (n *Interner) InternChange(c *Change) {
	for _, text := range []*string{(*string)(&c.Kind), &c.By, (*string)(&c.State), &c.Keys, &c.Reason} {
		n.internText(text)
	}
}

// InternCounts replaces a map by an equal one of earlier calls.
func (n *Interner) InternCounts(counts *map[string]int) {
	if len(*counts) > 0 {
		n.key = n.key[:0]
		for _, name := range n.sortNames(maps.Keys(*counts)) {
			n.key = binary.AppendVarint(appendText(n.key, name), int64((*counts)[name]))
		}
		internPart(&n.counts, n.key, counts)
	}
}

func (n *Interner) internText(text *string) {
	if *text != "" {
		n.key = append(n.key[:0], *text...)
		internPart(&n.texts, n.key, text)
	}
}

func (n *Interner) internList(list *[]string) {
	if len(*list) > 0 {
		n.key = n.key[:0]
		for _, text := range *list {
			n.key = appendText(n.key, text)
		}
		internPart(&n.lists, n.key, list)
	}
}

func (n *Interner) internTextMap(texts *map[string]string) {
	if len(*texts) > 0 {
		n.key = n.key[:0]
		for _, name := range n.sortNames(maps.Keys(*texts)) {
			n.key = appendText(appendText(n.key, name), (*texts)[name])
		}
		internPart(&n.textMaps, n.key, texts)
	}
}

// sortNames returns the names in order. The result is valid until the next call.
func (n *Interner) sortNames(names iter.Seq[string]) []string {
	n.names = slices.AppendSeq(n.names[:0], names)
	slices.Sort(n.names)
	return n.names
}

// appendText appends a text with its length, so that different sequences of texts have different encodings.
func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}

// internPart replaces a part by the one of the table with the same key, or adds it to the table.
func internPart[P any](table *map[string]P, key []byte, part *P) {
	if len(key) > maxInternedBytes {
		return
	}
	if same, ok := (*table)[string(key)]; ok {
		*part = same
		return
	}
	if *table == nil || len(*table) >= maxInterned {
		*table = map[string]P{}
	}
	(*table)[string(key)] = *part
}
