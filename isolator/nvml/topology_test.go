//go:build linux && cgo

package nvml

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/nvmltest"
)

// linkedHost has two NVLinks between GPUs 0 and 1, one between GPUs 1 and 2, and none to
// the last GPU. It has PCIe paths of every level.
func linkedHost() gpu.Host {
	h := v100s(4)
	link := func(i, j, n int) {
		putValue(&h.Devices[i].NVLinks, uuid(j), n)
		putValue(&h.Devices[j].NVLinks, uuid(i), n)
	}
	path := func(i, j int, p gpu.PCIePath) {
		putValue(&h.Devices[i].Paths, uuid(j), p)
		putValue(&h.Devices[j].Paths, uuid(i), p)
	}
	link(0, 1, 2)
	link(1, 2, 1)
	path(0, 2, gpu.OneBridge)
	path(0, 3, gpu.SameBoard)
	path(1, 3, gpu.SameNUMANode)
	path(2, 3, gpu.AcrossNUMANodes)
	h.Devices[2].Persistence = true
	return h
}

func TestTopology(t *testing.T) {
	bridged := v100s(3)
	putValue(&bridged.Devices[0].Paths, uuid(1), gpu.ManyBridges)
	putValue(&bridged.Devices[1].Paths, uuid(0), gpu.ManyBridges)
	putValue(&bridged.Devices[1].Paths, uuid(2), gpu.HostBridge)
	putValue(&bridged.Devices[2].Paths, uuid(1), gpu.HostBridge)
	for name, want := range map[string]gpu.Host{
		"nothing": v100s(2), "NVLink and PCIe": linkedHost(), "PCIe": bridged, "16 GPUs behind NVSwitches": behindSwitches(16),
	} {
		t.Run(name, func(t *testing.T) {
			reported := want
			if name == "NVLink and PCIe" { // no PCIe path is reported between GPUs with NVLinks
				reported = linkedHost()
				putValue(&reported.Devices[0].Paths, uuid(1), gpu.OneBridge)
			}
			m := nvmltest.ReportHost(t, reported)
			got, err := DiscoverHost(LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot, ProcRoot: m.ProcRoot})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A GPU that is not discovered is no other GPU's peer.
func TestTopologyWithoutOneFunction(t *testing.T) {
	m := nvmltest.ReportHost(t, linkedHost())
	m.LoseGPU(uuid(1))
	got, err := DiscoverHost(LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot})
	if err != nil {
		t.Fatal(err)
	}
	want := linkedHost()
	want.Lost = got.Lost
	want.Devices = append(want.Devices[:1:1], want.Devices[2:]...)
	for i := range want.Devices {
		want.Devices[i].NVLinks = nil
		delete(want.Devices[i].Paths, uuid(1))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A value that the driver does not support stays unset; the device is still listed.
func TestTopologyNotSupported(t *testing.T) {
	const notSupported = 3
	for function, unset := range map[string]func(*gpu.Device){
		"nvmlDeviceGetPersistenceMode":        func(d *gpu.Device) { d.Persistence = false },
		"nvmlDeviceGetNvLinkState":            func(d *gpu.Device) { d.NVLinks = nil },
		"nvmlDeviceGetTopologyCommonAncestor": func(d *gpu.Device) { d.Paths = nil },
		"nvmlDeviceGetMigMode":                func(*gpu.Device) {},
		// Without the remote device's type, it is a switch or identified by its PCI
		// address.
		"nvmlDeviceGetNvLinkRemoteDeviceType": func(*gpu.Device) {},
	} {
		t.Run(function, func(t *testing.T) {
			m := nvmltest.ReportHost(t, linkedHost(), nvmltest.FunctionFailure{Function: function, Index: -1, Return: notSupported})
			got, err := DiscoverHost(LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot})
			if err != nil {
				t.Fatal(err)
			}
			want := linkedHost()
			for i := range want.Devices {
				unset(&want.Devices[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
