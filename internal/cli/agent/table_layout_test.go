package agent

import (
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/term"
	"mesos-gpu/internal/testing/termtest"
)

// At any terminal width no line of discover's table is longer, and no row is lost.
func TestDiscoverFitsTerminal(t *testing.T) {
	uuid := "GPU-8f1c3a5e-0000-1111-2222-333344445555"
	host := gpu.Host{Devices: []gpu.Device{{UUID: uuid, Model: "NVIDIA A100-SXM4-80GB", PCI: "00000000:07:00.0"}, {UUID: uuid, MIG: &gpu.MIG{Profile: "3g.40gb"}}}}
	termtest.CheckTableFits(t, 2, func(p *term.TablePrinter) error { return printDevices(p, host) })
}
