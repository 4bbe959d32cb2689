package nvml

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPCIBus(t *testing.T) {
	b := pciBus{t.TempDir()}
	const at = "0001:3b:00.0"
	if pciAddress(1, 0x3b, 0) != at {
		t.Errorf("address: %s", pciAddress(1, 0x3b, 0))
	}
	if b.readPresence(at) != presenceAbsent || b.numaNode(at) != -1 || b.isSwitch(at) {
		t.Errorf("a device that is not: %d, %d, %t", b.readPresence(at), b.numaNode(at), b.isSwitch(at))
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(b.devicePath(at, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(b.devicePath(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]busPresence{
		"\xde\x10\xb0\x20": presencePresent, "\xff\xff\xff\xff": presenceAbsent, "\xff\x10": presencePresent, "": presenceUnknown, "\xff": presenceUnknown,
	} {
		write("config", text)
		if got := b.readPresence(at); got != want {
			t.Errorf("config %q: got %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]int{"1\n": 1, "-1\n": -1, "": -1, "many": -1} {
		write("numa_node", text)
		if got := b.numaNode(at); got != want {
			t.Errorf("numa_node %q: got %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]bool{"0x068000\n": true, "0x030200\n": false, "": false} {
		write("class", text)
		if got := b.isSwitch(at); got != want {
			t.Errorf("class %q: got %t, want %t", text, got, want)
		}
	}
}
