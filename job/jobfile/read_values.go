package jobfile

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// readText reads a scalar of any type as text, and rejects null and empty text, which are probably a forgotten value.
func readText(n *yaml.Node, to *string) error {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		return errors.New("needs a word")
	}
	*to = n.Value
	return nil
}

// readNumber reads a number above 0. A 0 would mean an absent key.
func readNumber(n *yaml.Node, to *float64) error {
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%q is not a number", n.Value)
	}
	if v <= 0 {
		return fmt.Errorf("%s is not above 0", n.Value)
	}
	*to = v
	return nil
}

// readCount reads a whole number. For a fraction the error suggests a number, because
// users often ask for a fraction of a GPU.
func readCount(n *yaml.Node, to *int) error {
	v, err := strconv.Atoi(n.Value)
	if n.Kind == yaml.ScalarNode && err == nil {
		*to = v
		return nil
	}
	if n.Kind == yaml.ScalarNode && errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%s is too large", n.Value)
	}
	if f, ferr := strconv.ParseFloat(n.Value, 64); n.Kind == yaml.ScalarNode && ferr == nil {
		return fmt.Errorf("%s is not a whole number: use %d", n.Value, int(math.Min(math.Max(1, math.Ceil(f)), 1e6)))
	}
	return fmt.Errorf("%q is not a whole number", n.Value)
}

// readGPUs reads a whole number. For a fraction below 1 the error suggests a share.
func readGPUs(n *yaml.Node, to *int) error {
	err := readCount(n, to)
	if f, ferr := strconv.ParseFloat(n.Value, 64); err != nil && ferr == nil && f > 0 && f < 1 {
		return fmt.Errorf("%w, or for a part of one share: {memory: %d%%}", err, int(math.Max(1, math.Round(100*f))))
	}
	return err
}

// readPositive reads a whole number above 0.
func readPositive(n *yaml.Node, to *int) error {
	if err := readCount(n, to); err != nil {
		return err
	}
	if *to < 1 {
		return fmt.Errorf("%d is not above 0", *to)
	}
	return nil
}

// readWords reads a word or a list of words, which must not be empty: that would mean an absent key.
func readWords(n *yaml.Node, to *[]string) error {
	if n.Kind == yaml.ScalarNode {
		n = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{n}}
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return errors.New("needs a word or a list of words")
	}
	list := make([]string, len(n.Content))
	for i, c := range n.Content {
		if err := readText(c, &list[i]); err != nil {
			return err
		}
	}
	*to = list
	return nil
}

// readFlag reads true or false, or yes, no, on or off as YAML 1.1 does.
func readFlag(n *yaml.Node, to *bool) error {
	if err := n.Decode(to); err != nil || n.Kind != yaml.ScalarNode {
		return fmt.Errorf("%q is neither true nor false", n.Value)
	}
	return nil
}

// readConstraints reads lists of two or three words, or texts of such words:
// [[hostname, UNIQUE], "rack GROUP_BY 2"].
func readConstraints(n *yaml.Node, to *[]job.Constraint) error {
	if n.Kind != yaml.SequenceNode {
		return errors.New("needs a list, for example [[hostname, UNIQUE]]")
	}
	for _, item := range n.Content {
		var c job.Constraint
		var err error
		if item.Kind == yaml.ScalarNode {
			c, err = job.ParseConstraint(item.Value)
		} else {
			var list []string
			if err = readWords(item, &list); err == nil {
				c, err = job.NewConstraint(list...)
			}
		}
		if err != nil {
			return err
		}
		*to = append(*to, c)
	}
	return nil
}

// shellCommand returns the arguments for a line. encodeCommand recognizes them.
func shellCommand(line string) []string { return []string{"/bin/sh", "-c", line} }

// readCommand reads an argument vector, or one line for /bin/sh.
func readCommand(n *yaml.Node, to *[]string) error {
	if n.Kind == yaml.ScalarNode {
		var line string
		if err := readText(n, &line); err != nil {
			return err
		}
		*to = shellCommand(line)
		return nil
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return errors.New("needs one line for /bin/sh or a list of arguments")
	}
	list := make([]string, len(n.Content))
	for i, c := range n.Content {
		if c.Kind != yaml.ScalarNode {
			return fmt.Errorf("argument %d is not a word", i+1)
		}
		list[i] = c.Value
	}
	*to = list
	return nil
}

// readPairs reads names and values.
func readPairs(n *yaml.Node, to *map[string]string) error {
	if n.Kind != yaml.MappingNode {
		if n.Line == 0 && n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "=") { // an override
			return fmt.Errorf("needs NAME: value pairs, such as --set KEY.%s", n.Value)
		}
		return errors.New("needs NAME: value pairs")
	}
	all := make(map[string]string, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			return errorAt(value, "%s is not a single value", key.Value)
		}
		if _, ok := all[key.Value]; ok {
			return errorAt(key, "%s is given twice", key.Value)
		}
		all[key.Value] = value.Value
	}
	*to = all
	return nil
}

// readDuration reads a duration, which may be 0 or negative: job.Spec.Validate checks it.
func readDuration(n *yaml.Node, to *time.Duration) (err error) {
	*to, err = ParseDuration(n.Value) // empty for what is not a scalar
	return err
}

// readPositiveDuration rejects 0: it means the default of an absent key.
func readPositiveDuration(n *yaml.Node, to *time.Duration) error {
	if err := readDuration(n, to); err != nil {
		return err
	}
	if *to <= 0 {
		return fmt.Errorf("%s is not above 0: leave it out for the default", *to)
	}
	return nil
}

// sizeUnits are the units that may follow a size, with their value in MiB.
var sizeUnits = []struct {
	suffix string
	mib    float64
}{
	{"KiB", 1.0 / 1024}, {"MiB", 1}, {"GiB", 1024}, {"TiB", 1024 * 1024},
	{"MB", 1e6 / (1 << 20)}, {"GB", 1e9 / (1 << 20)}, {"TB", 1e12 / (1 << 20)},
}

// readSize reads an amount of memory or disk in MiB.
func readSize(n *yaml.Node, to *float64) error {
	if n.Kind != yaml.ScalarNode {
		return errors.New("needs a size such as 512MiB")
	}
	v, err := ParseSize(n.Value)
	*to = v
	return err
}

// readWholeSize reads a size and rounds it up to a MiB.
func readWholeSize(n *yaml.Node, to *int64) error {
	var mib float64
	err := readSize(n, &mib)
	*to = int64(math.Ceil(math.Min(mib, 1<<40)))
	return err
}

// ParseSize parses "512MiB", "4 GiB" or "1.5GB" and returns MiB. A number without a
// unit is MiB, as in Mesos.
func ParseSize(s string) (float64, error) {
	digits, unit := strings.TrimSpace(s), 1.0
	for _, u := range sizeUnits {
		if cut, ok := strings.CutSuffix(digits, u.suffix); ok {
			digits, unit = strings.TrimSpace(cut), u.mib
			break
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
		if instead := suggestUnit(s); instead != "" {
			return 0, fmt.Errorf("%q is not a size: write %s", s, instead)
		}
		return 0, fmt.Errorf("%q is not a size such as 512MiB or 4GiB", s)
	}
	return v * unit, nil
}

// otherUnit matches units of other systems: 8gb, 8G, 8Gi.
var otherUnit = regexp.MustCompile(`^([0-9]+|[0-9]*\.[0-9]+) *([kmgt])(i?)b?$`)

// suggestUnit returns the sizes that were probably meant: "8GB or 8GiB".
func suggestUnit(s string) string {
	m := otherUnit.FindStringSubmatch(strings.ToLower(strings.TrimSpace(s)))
	if m == nil || strings.Trim(m[1], "0.") == "" {
		return ""
	}
	binary := m[1] + strings.ToUpper(m[2]) + "iB"
	if m[3] != "" || m[2] == "k" { // units of 1000 bytes are not in use for memory
		return binary
	}
	return m[1] + strings.ToUpper(m[2]) + "B or " + binary
}

// readPortNumber reads a number from 1 to 65535.
func readPortNumber(n *yaml.Node, to *int) error {
	if err := readCount(n, to); err != nil {
		return err
	}
	if *to < 1 || *to > 65535 {
		return fmt.Errorf("%d is not between 1 and 65535", *to)
	}
	return nil
}

// readReplaceAfter reads a duration above 0, or the word never.
func readReplaceAfter(n *yaml.Node, to *time.Duration) error {
	if n.Kind == yaml.ScalarNode && n.Value == neverText {
		*to = job.Unlimited
		return nil
	}
	if err := readDuration(n, to); err != nil {
		return fmt.Errorf("%w, nor %s", err, neverText)
	}
	return readPositiveDuration(n, to)
}

// readLimit reads the word unlimited, and other values by read.
func readLimit(n *yaml.Node, to *float64, read func(*yaml.Node, *float64) error) error {
	if n.Kind == yaml.ScalarNode && n.Value == job.UnlimitedText {
		*to = job.Unlimited
		return nil
	}
	if err := read(n, to); err != nil {
		return fmt.Errorf("%w, nor %s", err, job.UnlimitedText)
	}
	return nil
}

// readAnyText reads a scalar, which may be empty.
func readAnyText(n *yaml.Node, to *string) error {
	if n.Kind != yaml.ScalarNode {
		return errors.New("is not a single value")
	}
	*to = n.Value
	return nil
}

// readShareMemory reads a size or a percentage.
func readShareMemory(n *yaml.Node, to *gpu.ShareRequest) (err error) {
	if n.Kind != yaml.ScalarNode {
		return errors.New("needs a size such as 4GiB, or 30%")
	}
	to.MemMiB, to.MemPercent, err = ParseShareMemory(n.Value)
	return err
}

// ParseShareMemory parses the memory of a share: "4GiB", rounded up to a MiB, or "30%"
// of the device's memory.
func ParseShareMemory(text string) (mib int64, percent int, err error) {
	if digits, ok := strings.CutSuffix(text, "%"); ok {
		percent, err = strconv.Atoi(strings.TrimSpace(digits))
		if err != nil || percent < 1 || percent > 100 {
			return 0, 0, fmt.Errorf("%q is not a whole number of percent from 1%% to 100%%", text)
		}
		return 0, percent, nil
	}
	size, err := ParseSize(text)
	if err != nil {
		return 0, 0, fmt.Errorf("%w, nor a part such as 30%%", err)
	}
	return int64(math.Ceil(math.Min(size, 1<<40))), 0, nil
}
