package jobfile

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// readShare reads {memory: 4GiB, cores: 30, gpus: 2}; memory may be in percent.
func readShare(n *yaml.Node, r *gpu.Request) error {
	err := readFields(n, map[string]valueReader{
		"memory": func(n *yaml.Node) (err error) {
			if n.Kind != yaml.ScalarNode {
				return errors.New("needs a size such as 4GiB, or 30%")
			}
			r.Share.MemMiB, r.Share.MemPercent, err = ParseShareMemory(n.Value)
			return err
		},
		"cores": func(n *yaml.Node) error { return readCount(n, &r.Share.Cores) },
		"gpus":  func(n *yaml.Node) error { return readPositive(n, &r.GPUs) },
	})
	if err == nil && r.Share.IsWhole() {
		err = errors.New("needs memory, cores or both")
	}
	return err
}

// ParseShareMemory reads how much of a device's memory a task wants: "4GiB",
// rounded up to a MiB, or "30%" of what the device has.
func ParseShareMemory(text string) (mib int64, percent int, err error) {
	if digits, ok := strings.CutSuffix(text, "%"); ok {
		percent, err = strconv.Atoi(strings.TrimSpace(digits))
		if err != nil || percent < 1 || percent > 100 {
			return 0, 0, fmt.Errorf("%q is no whole number of percent from 1%% to 100%%", text)
		}
		return 0, percent, nil
	}
	size, err := ParseSize(text)
	if err != nil {
		return 0, 0, fmt.Errorf("%w, nor a part such as 30%%", err)
	}
	return int64(math.Ceil(math.Min(size, 1<<40))), 0, nil
}

// checkSingleCount refuses two numbers of GPUs, which stand beside share and in it.
func checkSingleCount(root *yaml.Node) error {
	beside, parts := findValue(root, "gpus"), findValue(root, "share")
	if beside == nil || parts == nil {
		return nil
	}
	inside := findValue(parts, "gpus")
	if inside == nil || inside.Value == beside.Value {
		return nil
	}
	return errorAt(inside, "share: gpus: %s, and gpus: %s in line %d: write one of them", inside.Value, beside.Value, beside.Line)
}

// findValue is that of a key, nil where it is not there.
func findValue(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// encodeShare writes what share reads but gpus, which stands beside it.
func encodeShare(s *job.Spec) *yamlMapping {
	share := s.Request.Share
	if share.IsWhole() {
		return nil
	}
	m := newMapping()
	if share.MemPercent > 0 {
		m.addKey("memory", fmt.Sprintf("%d%%", share.MemPercent))
	}
	m.addNonZero("memory", formatSize(float64(share.MemMiB)))
	m.addNonZero("cores", share.Cores)
	return m
}
