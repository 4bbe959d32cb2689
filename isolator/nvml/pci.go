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

// pciBus reads PCI devices from sysfs, which responds even if the driver and NVML hang.
type pciBus struct {
	sysRoot string
}

// pciAddress returns the name of a device in sysfs.
func pciAddress(domain, number, device uint32) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", domain, number, device)
}

func (b pciBus) devicePath(address, name string) string {
	return filepath.Join(b.sysRoot, "bus/pci/devices", address, name)
}

// numaNode returns the NUMA node of a device, -1 if it is unknown, as in the kernel.
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

// isSwitch reports whether a device is an NVSwitch. Its PCI class is "other bridge".
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

// readPresence reads the vendor from the device. The kernel reads all ones from a device that
// has fallen off the bus, and does not list one that was removed.
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
