package gpu

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// TypeName is the name of a GPU type as a user or a driver writes it, taken apart. What the name leaves out is not
// restricted: "A100" names all products of the family, "A100-80GB" those with 80 GB, "A100-SXM4-80GB" one product, and
// "1g.10gb" the MIG devices of that profile on any GPU. Case, vendor names, and the separators space, "-", "_" and ":"
// do not matter.
type TypeName struct {
	// family is the short type, such as "A100" or "RTX 3090 Ti", and key is family for comparisons. Both are "" if the
	// name is of MIG devices only.
	family, key string
	// words are the other words in lower case, sorted, such as "sxm4" and "ls".
	words []string
	// sizeGB is the nominal memory in the name, memMiB an exact one; 0 without.
	sizeGB, memMiB int64
	// mig is set for the name of a MIG device, and profile is its profile, "" for any.
	mig     bool
	profile string
	// complete is set if the name starts with the name of a vendor or of a product line, as product names do.
	complete bool
	// plain is set for a product name without words, which is not the name of products with words.
	plain bool
}

// relation is whether a name includes a device or another name.
type relation int

const (
	excludes relation = iota
	mayInclude
	includes
)

// maxTypeNameBytes bounds a name. The longest product names have about 50 bytes.
const maxTypeNameBytes = 100

// CheckTypeName returns an error if a name cannot be that of a GPU type.
func CheckTypeName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return errors.New("a type is empty")
	case len(name) > maxTypeNameBytes:
		return fmt.Errorf("GPU type %q...: it has %d bytes, more than %d", name[:20], len(name), maxTypeNameBytes)
	}
	for _, r := range name {
		if r > '~' || r < ' ' || strings.ContainsRune("|,;={}[]\"\\", r) {
			return fmt.Errorf("GPU type %q: character %q is not allowed: use letters, digits, spaces and -_.+:/()", name, r)
		}
	}
	if parseTypeName(name).isZero() {
		return fmt.Errorf("GPU type %q: it names no type: write for example A100, A100-80GB or 1g.10gb", name)
	}
	return nil
}

var (
	vendorWords = []string{"nvidia", "tesla", "quadro", "geforce"}
	// seriesWords mean nothing without the word after them.
	seriesWords = []string{"rtx", "gtx", "gt", "titan", "grid", "pro", "cmp", "dgx"}
	// suffixWords belong to the family before them.
	suffixWords = []string{"ti", "super", "ada", "sff", "laptop", "d"}
	// emptyWords distinguish no products.
	emptyWords = []string{"generation", "edition", "gpu"}
	// familiesOfVariants are families all of whose products have a word or a size after the family, so that "NVIDIA A100"
	// is the family.
	familiesOfVariants = []string{"v100", "p100", "a100", "a800", "h100", "k20", "k40", "b300", "rtxpro6000"}

	sizePattern    = regexp.MustCompile(`^([1-9][0-9]{0,3})(g|gb|gib)$`)
	memoryPattern  = regexp.MustCompile(`^([1-9][0-9]{0,8})mib$`)
	profilePattern = regexp.MustCompile(`^([1-9]c\.)?[1-9]g\.[0-9]{1,3}gb((\+|\.)[a-z.+-]+)?$`)
	vGPUPattern    = regexp.MustCompile(`^[0-9]{1,3}(a|b|c|q|cme)$`)
	boardPattern   = regexp.MustCompile(`^(k20x?|k40)(c|m|s|st|t|d)$`)
	digitsPattern  = regexp.MustCompile(`^[0-9]{1,4}$`)
)

// typeNames caches parsed names. There are few in practice, but users choose them, so that their number is bounded.
var (
	typeNames      sync.Map // of *TypeName by string
	typeNamesCount atomic.Int32
)

const maxTypeNames = 4096

// parseTypeName returns the parts of a name. The result is shared and must not be changed.
func parseTypeName(text string) *TypeName {
	if n, ok := typeNames.Load(text); ok {
		return n.(*TypeName)
	}
	n := newTypeName(text)
	if len(text) <= maxTypeNameBytes && typeNamesCount.Load() < maxTypeNames {
		if _, loaded := typeNames.LoadOrStore(strings.Clone(text), n); !loaded {
			typeNamesCount.Add(1)
		}
	}
	return n
}

// newTypeName is parseTypeName without the cache.
func newTypeName(text string) *TypeName {
	n := &TypeName{}
	words := splitTypeName(text)
	lower := make([]string, len(words))
	for i, w := range words {
		lower[i] = strings.ToLower(w)
	}
	at := 0
	for at < len(words)-1 && slices.Contains(vendorWords, lower[at]) {
		at++
	}
	n.complete = at > 0 || len(lower) > 1 && (lower[0] == "titan" || lower[0] == "grid")
	if at < len(words) && !isTypeDetail(lower[at]) {
		at = n.readFamily(words, lower, at)
	}
	for ; at < len(words); at++ {
		n.readDetail(lower[at])
	}
	slices.Sort(n.words)
	n.plain = n.complete && lower[0] == "nvidia" && !slices.Contains(vendorWords, lower[min(1, len(lower)-1)]) &&
		len(n.words) == 0 && n.sizeGB == 0 && !slices.Contains(familiesOfVariants, n.key)
	return n
}

// splitTypeName returns the words of a name. It joins a number and the unit after it.
func splitTypeName(text string) []string {
	text = strings.TrimPrefix(strings.TrimSpace(text), "nvidia.com/")
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t-_:()", r) })
	for i := 0; i+1 < len(words); i++ {
		if unit := strings.ToLower(words[i+1]); digitsPattern.MatchString(words[i]) && (unit == "gb" || unit == "gib") {
			words[i] += words[i+1]
			words = slices.Delete(words, i+1, i+2)
		}
	}
	return words
}

// isTypeDetail reports whether a word in lower case is no family.
func isTypeDetail(word string) bool {
	return word == "mig" || profilePattern.MatchString(word) || sizePattern.MatchString(word) || memoryPattern.MatchString(word)
}

// readFamily reads the family that starts at a word, and returns the index of the word after it.
func (n *TypeName) readFamily(words, lower []string, at int) int {
	start := at
	kept := []string{words[at]}
	if m := boardPattern.FindStringSubmatch(lower[at]); m != nil { // K40m is a board with a K40
		kept[0] = words[at][:len(m[1])]
		n.words = append(n.words, lower[at])
	}
	at++
	for at < len(words) && slices.Contains(seriesWords, lower[at-1]) && !isTypeDetail(lower[at]) {
		kept = append(kept, words[at])
		at++
	}
	for at < len(words) && slices.Contains(suffixWords, lower[at]) {
		kept = append(kept, words[at])
		at++
	}
	if next := at; next < len(words) {
		if digitsPattern.MatchString(lower[next]) && next+1 < len(words) { // A100-1-5C, a vGPU of a MIG device
			next++
		}
		if vGPUPattern.MatchString(lower[next]) {
			if lower[start] == "grid" && len(kept) > 1 {
				kept = kept[1:]
			}
			n.setFamily(strings.Join(kept, " ") + "-" + strings.ToUpper(strings.Join(words[at:next+1], "-")))
			return next + 1
		}
	}
	n.setFamily(strings.Join(kept, " "))
	return at
}

// setFamily sets the family, a known one in the way in which NVIDIA writes it.
func (n *TypeName) setFamily(family string) {
	n.family, n.key = family, stripSpaces(strings.ToLower(family))
	if known, ok := knownFamilies[n.key]; ok {
		n.family = known
	}
}

// readDetail reads one word after the family, in lower case.
func (n *TypeName) readDetail(word string) {
	switch {
	case word == "mig":
		n.mig = true
	case profilePattern.MatchString(word):
		n.mig, n.profile = true, canonicalProfile(word)
	case sizePattern.MatchString(word) && n.sizeGB == 0:
		n.sizeGB = leadingNumber(word)
	case memoryPattern.MatchString(word) && n.memMiB == 0:
		n.memMiB = leadingNumber(word)
	case !slices.Contains(emptyWords, word):
		n.words = append(n.words, word)
	}
}

// canonicalProfile writes the attributes of a MIG profile as the driver does: Kubernetes writes 1g.10gb.me for 1g.10gb+me.
func canonicalProfile(profile string) string {
	slices, memory, _ := strings.Cut(profile, "gb")
	return slices + "gb" + strings.ReplaceAll(memory, ".", "+")
}

func leadingNumber(word string) int64 {
	n, _ := strconv.ParseInt(strings.TrimRight(word, "gibm"), 10, 64)
	return n
}

// stripSpaces makes "RTX 3090" and "RTX3090" equal.
func stripSpaces(s string) string { return strings.ReplaceAll(s, " ", "") }

// isZero reports whether the name restricts nothing.
func (n *TypeName) isZero() bool {
	return n.key == "" && len(n.words) == 0 && n.sizeGB == 0 && n.memMiB == 0 && !n.mig
}

// String returns the name in one way of writing, such as "A100 sxm4 80GB MIG 1g.10gb".
func (n *TypeName) String() string {
	var parts []string
	if n.plain {
		parts = append(parts, "NVIDIA")
	}
	if n.family != "" {
		parts = append(parts, n.family)
	}
	for _, w := range n.words {
		if !boardPattern.MatchString(w) {
			parts = append(parts, w)
		} else {
			parts[len(parts)-1] = w // it includes the family
		}
	}
	if n.sizeGB > 0 {
		parts = append(parts, fmt.Sprintf("%dGB", n.sizeGB))
	}
	if n.memMiB > 0 {
		parts = append(parts, fmt.Sprintf("%dMiB", n.memMiB))
	}
	if n.mig {
		parts = append(parts, "MIG")
	}
	if n.profile != "" {
		parts = append(parts, n.profile)
	}
	return strings.Join(parts, " ")
}

// isPrecise reports whether the name may not include all products of its family.
func (n *TypeName) isPrecise() bool {
	return n.key == "" || len(n.words) > 0 || n.sizeGB > 0 || n.memMiB > 0 || n.mig || n.plain
}

// relate returns whether the name includes the devices that d describes: a product, or another name. A part that d lacks
// may have any value, unless d is a product name. A name without MIG includes the MIG devices of its GPUs.
func (n *TypeName) relate(d *TypeName) relation {
	if n.isZero() {
		return excludes
	}
	r := includes
	for _, part := range [...]relation{n.relateFamily(d), n.relateWords(d), n.relateMemory(d), n.relateMIG(d)} {
		r = min(r, part)
	}
	return r
}

// relateIf returns includes or excludes.
func relateIf(included bool) relation {
	if included {
		return includes
	}
	return excludes
}

func (n *TypeName) relateFamily(d *TypeName) relation {
	switch {
	case n.key == "":
		return includes
	case d.key == "":
		return mayInclude
	default:
		return relateIf(n.key == d.key)
	}
}

func (n *TypeName) relateWords(d *TypeName) relation {
	switch {
	case len(n.words) == 0 && !n.plain || slices.Equal(n.words, d.words):
		return includes
	case len(d.words) == 0 && !d.complete:
		return mayInclude
	default:
		return excludes
	}
}

func (n *TypeName) relateMemory(d *TypeName) relation {
	if n.memMiB > 0 && d.memMiB > 0 {
		return relateIf(n.memMiB == d.memMiB)
	}
	if n.memMiB > 0 && d.sizeGB > 0 {
		return relateIf(hasNominalSize(n.memMiB, d.sizeGB))
	}
	switch {
	case n.sizeGB == 0 && n.memMiB == 0:
		return includes
	case n.sizeGB > 0 && d.sizeGB > 0 && (d.mig || d.memMiB == 0 || hasNominalSize(d.memMiB, d.sizeGB)):
		return relateIf(n.sizeGB == d.sizeGB) // the size in the name of a product is the GPU's memory
	case n.sizeGB > 0 && d.memMiB > 0 && !d.mig:
		return relateIf(n.sizeGB == d.sizeGB || hasNominalSize(d.memMiB, n.sizeGB))
	default:
		return mayInclude
	}
}

// hasNominalSize reports whether a device with that memory is sold as one of sizeGB. Devices report up to 10 % less.
func hasNominalSize(memMiB, sizeGB int64) bool {
	nominal := sizeGB << 10
	return memMiB <= nominal && memMiB*10 >= nominal*9
}

func (n *TypeName) relateMIG(d *TypeName) relation {
	switch {
	case !n.mig:
		return includes
	case !d.mig:
		return min(mayInclude, relateIf(!d.complete))
	case n.profile == "" || n.profile == d.profile:
		return includes
	case d.profile == "":
		return mayInclude
	default:
		return excludes
	}
}

// intersect returns the name of what both names include, and false if there is nothing.
func (n *TypeName) intersect(o *TypeName) (both TypeName, ok bool) {
	if n.relate(o.withoutProduct()) == excludes || o.relate(n.withoutProduct()) == excludes {
		return TypeName{}, false
	}
	both = *n
	if n.key == "" {
		both.family, both.key = o.family, o.key
	}
	if len(n.words) == 0 {
		both.words = o.words
	}
	if n.profile == "" {
		both.profile = o.profile
	}
	both.sizeGB, both.memMiB = max(n.sizeGB, o.sizeGB), max(n.memMiB, o.memMiB)
	both.mig, both.complete, both.plain = n.mig || o.mig, false, n.plain || o.plain
	return both, true
}

// withoutProduct returns the name as one that may have further parts.
func (n *TypeName) withoutProduct() *TypeName {
	if !n.complete {
		return n
	}
	open := *n
	open.complete = open.plain
	return &open
}

// IncludesType reports whether the first name includes all GPUs that the second one includes.
func IncludesType(name, other string) bool {
	return parseTypeName(name).relate(parseTypeName(other).withoutProduct()) == includes
}

// MayIncludeProduct reports whether a name may include a product, by the name of the product in Task.Products, or by the
// short type of one that is not known. A GPU of such a type counts in each entry that may include it.
func MayIncludeProduct(name, product string) bool {
	return parseTypeName(name).relate(parseTypeName(product)) != excludes
}

// IsSameTypeName reports whether two names are the same one, written in two ways.
func IsSameTypeName(a, b string) bool {
	return a == b || strings.EqualFold(parseTypeName(a).String(), parseTypeName(b).String())
}

// IsPreciseTypeName reports whether a name may not include all products of a family.
func IsPreciseTypeName(name string) bool { return parseTypeName(name).isPrecise() }

// NamesMIG reports whether a name is one of MIG devices.
func NamesMIG(name string) bool { return parseTypeName(name).mig }

// MIGProfileOf returns the profile in a name, such as "1g.10gb"; "" without.
func MIGProfileOf(name string) string { return parseTypeName(name).profile }

// TypeOf returns the short name of a product, which users ask for:
//
//	Tesla V100-SXM2-16GB             V100
//	NVIDIA A100 80GB PCIe            A100
//	NVIDIA A100-SXM4-40GB MIG 1g.5gb A100
//	NVIDIA GeForce RTX 3090 Ti       RTX 3090 Ti
//	NVIDIA RTX A6000                 RTX A6000
//	Tesla K40m                       K40
//	NVIDIA A40-8Q, a vGPU            A40-8Q
//
// It returns the short name of an unknown product as it is written.
func TypeOf(model string) string {
	n := parseTypeName(model)
	if n.family == "" {
		return strings.Join(splitTypeName(model), " ")
	}
	return n.family
}

// knownTypes lists the data-centre and workstation types that NVIDIA sells or sold.
// They distinguish a request for hardware that the cluster does not have yet from
// a misspelt one.
var knownTypes = []string{
	"K20", "K20X", "K40", "K80", "M10", "M40", "M60", "P4", "P6", "P40", "P100", "V100", "V100S", "T4", "T10", "A2", "A10", "A10G", "A16", "A30", "A40",
	"A100", "A100X", "A800", "L2", "L4", "L20", "L40", "L40S", "H20", "H100", "H200", "H800", "GH200", "B100", "B200", "B300", "GB200", "GB300", "GB10",
	"RTX 2080", "RTX 2080 Ti", "RTX 3060", "RTX 3070", "RTX 3080", "RTX 3080 Ti", "RTX 3090", "RTX 3090 Ti", "RTX 4070", "RTX 4080", "RTX 4090",
	"RTX 5080", "RTX 5090", "RTX 4000", "RTX 5000", "RTX 6000", "RTX 8000", "RTX A2000", "RTX A4000", "RTX A4500", "RTX A5000", "RTX A6000",
	"RTX 4000 Ada", "RTX 4000 SFF Ada", "RTX 5000 Ada", "RTX 6000 Ada", "RTX PRO 6000", "GTX 1080", "GTX 1080 Ti", "TITAN V", "TITAN Xp", "TITAN RTX",
	"DGX Display",
}

// knownFamilies are the known types by their key.
var knownFamilies = func() map[string]string {
	m := map[string]string{}
	for _, name := range knownTypes {
		m[stripSpaces(strings.ToLower(name))] = name
	}
	return m
}()

// IsKnownType reports whether name is of a GPU type that NVIDIA makes or made, or of MIG devices.
func IsKnownType(name string) bool {
	n := parseTypeName(name)
	return knownFamilies[n.key] != "" || n.key == "" && n.mig
}
