package gpu

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawHost draws a host with a path or NVLinks between every two GPUs.
func drawHost(t *rapid.T) Host {
	h := Host{Devices: make([]Device, rapid.IntRange(0, 9).Draw(t, "devices"))}
	paths := []PCIePath{SameBoard, OneBridge, ManyBridges, HostBridge, SameNUMANode, AcrossNUMANodes}
	for i := range h.Devices {
		h.Devices[i] = Device{UUID: fmt.Sprintf("GPU-%d", i), Minor: i, NUMA: rapid.IntRange(-1, 1).Draw(t, "node")}
		for j := range i {
			a, b := &h.Devices[i], &h.Devices[j]
			if n := rapid.IntRange(0, 2).Draw(t, "links"); n > 0 {
				a.NVLinks, b.NVLinks = map[string]int{b.UUID: n}, map[string]int{a.UUID: n}
				continue
			}
			path := rapid.SampledFrom(paths).Draw(t, "path")
			setPath(a, b.UUID, path)
			setPath(b, a.UUID, path)
		}
	}
	for i := range h.Devices { // a link replaces the map of earlier ones
		for j := range i {
			a, b := &h.Devices[i], &h.Devices[j]
			if a.NVLinks[b.UUID] == 0 && b.NVLinks[a.UUID] == 0 && a.Paths[b.UUID] == "" {
				setPath(a, b.UUID, HostBridge)
				setPath(b, a.UUID, HostBridge)
			}
		}
	}
	return h
}

func TestTrimmedPathsAreRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHost(t)
		text, err := EncodeInventory(h.TrimPaths())
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeInventory(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(h.Devices, back.ExpandPaths()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestTrimPaths(t *testing.T) {
	h := Host{Devices: []Device{
		{UUID: "a", Minor: 0, Paths: map[string]PCIePath{"b": OneBridge, "c": AcrossNUMANodes}},
		{UUID: "b", Minor: 1, Paths: map[string]PCIePath{"a": OneBridge, "c": AcrossNUMANodes}},
		{UUID: "c", Minor: 2, NUMA: 1, Paths: map[string]PCIePath{"a": AcrossNUMANodes, "b": AcrossNUMANodes}},
	}}
	got := h.TrimPaths()
	if diff := cmp.Diff([]map[string]PCIePath{nil, {"a": OneBridge}, nil}, []map[string]PCIePath{
		got.Devices[0].Paths, got.Devices[1].Paths, got.Devices[2].Paths,
	}); diff != "" || !got.PathsTrimmed {
		t.Errorf("trimmed %v (-want +got):\n%s", got.PathsTrimmed, diff)
	}
	if h.Devices[1].Paths["c"] == "" {
		t.Error("TrimPaths has changed its host")
	}
	delete(h.Devices[0].Paths, "b")
	delete(h.Devices[1].Paths, "a")
	if got := h.TrimPaths(); got.PathsTrimmed || got.ExpandPaths()[2].Paths != nil {
		t.Errorf("a path is not known, and got %+v", got)
	}
}
