package nvml

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// pciBus asks sysfs about PCI devices, which answers also where the driver and
// NVML hang.
type pciBus struct {
	sysRoot string
}

// pciAddress is what sysfs calls a device.
func pciAddress(domain, number, device uint32) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", domain, number, device)
}

func (b pciBus) devicePath(address, name string) string {
	return filepath.Join(b.sysRoot, "bus/pci/devices", address, name)
}

// numaNode tells where the device hangs. -1 is the kernel's own word for "unknown".
func (b pciBus) numaNode(address string) int {
	text, err := os.ReadFile(b.devicePath(address, "numa_node"))
	if err != nil {
		return -1
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return -1
	}
	return node
}

// isSwitch tells an NVSwitch from a GPU by its class, "other bridge".
func (b pciBus) isSwitch(address string) bool {
	text, err := os.ReadFile(b.devicePath(address, "class"))
	return err == nil && strings.HasPrefix(string(text), "0x0680")
}

type busPresence int

const (
	presenceUnknown busPresence = iota // sysfs does not tell
	presencePresent
	presenceAbsent
)

// readPresence asks the device itself for its vendor: the kernel reads all ones
// from one that fell off the bus, and lists none that was taken out.
func (b pciBus) readPresence(address string) busPresence {
	f, err := os.Open(b.devicePath(address, "config"))
	if errors.Is(err, fs.ErrNotExist) {
		return presenceAbsent
	}
	if err != nil {
		return presenceUnknown
	}
	defer f.Close()
	var vendor [2]byte
	switch n, err := f.Read(vendor[:]); {
	case err != nil || n < len(vendor):
		return presenceUnknown
	case bytes.Equal(vendor[:], []byte{0xff, 0xff}):
		return presenceAbsent
	default:
		return presencePresent
	}
}
