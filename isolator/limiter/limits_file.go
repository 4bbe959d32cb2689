package limiter

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/internal/atomicfile"
)

// Where the library expects its files in the container. The isolator mounts LimitsPath
// read-only and UsagePath read-write. LibraryPath is read-only and the same file in all
// containers of the host: they lock it to measure their contexts one at a time.
const (
	LibraryPath = "/run/mesos-gpu/libmesosgpu.so"
	LimitsPath  = "/run/mesos-gpu/limits"
	UsagePath   = "/run/mesos-gpu/books"
)

// MaxDevices is how many devices one container can have shares of.
const MaxDevices = 16

const maxLimitsBytes = 8191 // what the library reads

// ContainerLimits contains the limits of one container. As a file it is
//
//	mesos-gpu-limits 1
//	books 00d1ceb00c000001
//	device GPU-… memory=4294967296 cores=30 flags=burst,oversubscribe
//
// with one line for each device; flags are optional.
type ContainerLimits struct {
	Nonce   uint64 // connects the usage file to these limits; random
	Devices []DeviceLimit
}

// DeviceLimit is the share of one device.
type DeviceLimit struct {
	UUID          string // GPU-… or MIG-…, as NVML has it
	MemoryBytes   uint64
	CoresPercent  int  // 1 to 100; 100 is no limit
	Burst         bool // may use more than CoresPercent while no other container uses the device
	Oversubscribe bool // allocations that do not fit on the device go to host memory
}

// WriteLimits writes the file as a whole or not at all, readable by every user.
func WriteLimits(path string, l ContainerLimits) error {
	text, err := l.marshalText()
	if err != nil {
		return fmt.Errorf("write limits %s: %w", path, err)
	}
	return atomicfile.Replace(path, text, 0o444)
}

func (l ContainerLimits) marshalText() ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "mesos-gpu-limits 1\nbooks %016x\n", l.Nonce)
	for _, d := range l.Devices {
		fmt.Fprintf(&b, "device %s memory=%d cores=%d%s\n", d.UUID, d.MemoryBytes, d.CoresPercent, d.formatFlags())
	}
	text := []byte(b.String())
	read, err := ParseLimits(text)
	if err == nil && !slices.Equal(read.Devices, l.Devices) {
		err = fmt.Errorf("limits of %d devices read as %d others", len(l.Devices), len(read.Devices))
	}
	return text, err
}

func (d DeviceLimit) formatFlags() string {
	var set []string
	if d.Burst {
		set = append(set, "burst")
	}
	if d.Oversubscribe {
		set = append(set, "oversubscribe")
	}
	if len(set) == 0 {
		return ""
	}
	return " flags=" + strings.Join(set, ",")
}

// ParseLimits reads a limits file as strictly as the library does.
func ParseLimits(text []byte) (ContainerLimits, error) {
	lines := strings.Split(string(text), "\n")
	if len(text) > maxLimitsBytes || len(lines) < 4 || lines[len(lines)-1] != "" {
		return ContainerLimits{}, fmt.Errorf("parse limits: %d bytes in %d lines, want version, books and devices in at most %d bytes",
			len(text), len(lines), maxLimitsBytes)
	}
	if lines[0] != "mesos-gpu-limits 1" {
		return ContainerLimits{}, fmt.Errorf("parse limits: version line %q, want %q", lines[0], "mesos-gpu-limits 1")
	}
	nonce, ok := strings.CutPrefix(lines[1], "books ")
	n, err := strconv.ParseUint(nonce, 16, 64)
	if !ok || err != nil || len(nonce) != 16 {
		return ContainerLimits{}, fmt.Errorf("parse limits: line %q, want books and 16 hexadecimal digits", lines[1])
	}
	l := ContainerLimits{Nonce: n}
	for _, line := range lines[2 : len(lines)-1] {
		d, err := parseDevice(line)
		if err != nil {
			return ContainerLimits{}, fmt.Errorf("parse limits: line %q: %w", line, err)
		}
		l.Devices = append(l.Devices, d)
	}
	return l, l.validateDevices()
}

func parseDevice(line string) (DeviceLimit, error) {
	words := strings.Split(line, " ")
	if len(words) < 4 || len(words) > 5 || words[0] != "device" {
		return DeviceLimit{}, fmt.Errorf("want device UUID memory=BYTES cores=PERCENT [flags=…]")
	}
	d := DeviceLimit{UUID: words[1]}
	memory, ok1 := strings.CutPrefix(words[2], "memory=")
	cores, ok2 := strings.CutPrefix(words[3], "cores=")
	if !ok1 || !ok2 || !isDigits(memory) || !isDigits(cores) {
		return DeviceLimit{}, fmt.Errorf("want memory=BYTES cores=PERCENT")
	}
	var err error
	if d.MemoryBytes, err = strconv.ParseUint(memory, 10, 64); err != nil {
		return DeviceLimit{}, err
	}
	if d.CoresPercent, err = strconv.Atoi(cores); err != nil {
		return DeviceLimit{}, err
	}
	if len(words) == 5 {
		err = d.setFlags(words[4])
	}
	return d, err
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (d *DeviceLimit) setFlags(word string) error {
	list, ok := strings.CutPrefix(word, "flags=")
	if !ok {
		return fmt.Errorf("want flags=…, got %q", word)
	}
	for _, f := range strings.Split(list, ",") {
		switch f {
		case "burst":
			d.Burst = true
		case "oversubscribe":
			d.Oversubscribe = true
		default:
			return fmt.Errorf("unknown flag %q", f)
		}
	}
	return nil
}

func (l ContainerLimits) validateDevices() error {
	if len(l.Devices) == 0 || len(l.Devices) > MaxDevices {
		return fmt.Errorf("parse limits: %d devices, want 1 to %d", len(l.Devices), MaxDevices)
	}
	seen := map[[16]byte]bool{}
	for _, d := range l.Devices {
		u, err := parseUUID(d.UUID)
		if err != nil {
			return fmt.Errorf("parse limits: %w", err)
		}
		if seen[u] {
			return fmt.Errorf("parse limits: device %s is listed twice", d.UUID)
		}
		seen[u] = true
		if d.MemoryBytes == 0 || d.CoresPercent < 1 || d.CoresPercent > 100 {
			return fmt.Errorf("parse limits: device %s has %d bytes and %d percent, want at least 1 and 1 to 100", d.UUID, d.MemoryBytes, d.CoresPercent)
		}
	}
	return nil
}

// parseUUID reads GPU- or MIG- and 8-4-4-4-12 hexadecimal digits.
func parseUUID(s string) ([16]byte, error) {
	var u [16]byte
	rest, gpu := strings.CutPrefix(s, "GPU-")
	if !gpu {
		rest, _ = strings.CutPrefix(s, "MIG-")
	}
	groups := strings.Split(rest, "-")
	for i, want := range []int{8, 4, 4, 4, 12} {
		if len(groups) != 5 || len(groups[i]) != want || rest == s {
			return u, fmt.Errorf("device UUID %q, want GPU- or MIG- and 8-4-4-4-12 hexadecimal digits", s)
		}
	}
	if _, err := hex.Decode(u[:], []byte(strings.Join(groups, ""))); err != nil {
		return u, fmt.Errorf("device UUID %q: %w", s, err)
	}
	return u, nil
}
