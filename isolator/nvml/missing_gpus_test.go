//go:build linux && cgo

package nvml

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/nvmltest"
)

// A GPU that was described before is lost, with its description, if NVML cannot open or does not count it. One
// whose slot has another GPU was replaced.
func TestKnownGPUsAreLost(t *testing.T) {
	library := buildStandIn(t)
	four := v100s(4)
	without := func(i int) gpu.Host {
		h := v100s(4)
		h.Devices = append(h.Devices[:i:i], h.Devices[i+1:]...)
		return h
	}
	replaced := without(2)
	another := four.Devices[2]
	another.UUID = uuid(9)
	replaced.Devices = append(replaced.Devices, another)
	cannotOpen := nvmltest.FunctionFailure{Function: "nvmlDeviceGetHandleByIndex_v2", Index: 2, Return: 15}
	for name, c := range map[string]struct {
		now    gpu.Host
		known  []gpu.Device
		fails  []nvmltest.FunctionFailure
		lost   []gpu.Device
		reason string
	}{
		"all respond":     {now: four, known: four.Devices},
		"not opened":      {four, four.Devices, []nvmltest.FunctionFailure{cannotOpen}, four.Devices[2:3], "open GPU 2: GPU is lost (NVML error 15)"},
		"not opened, new": {four, nil, []nvmltest.FunctionFailure{cannotOpen}, []gpu.Device{{Minor: -1, NUMA: -1}}, "open GPU 2: GPU is lost (NVML error 15)"},
		"not counted":     {without(2), four.Devices, nil, four.Devices[2:3], "it is not on the PCI bus at 0000:12:00.0"},
		"replaced":        {now: replaced, known: four.Devices},
	} {
		t.Run(name, func(t *testing.T) {
			m := nvmltest.ReportHost(t, c.now, c.fails...)
			h, err := DiscoverHost(LibraryConfig{Library: library, SysRoot: m.SysRoot, ProcRoot: m.ProcRoot, Known: c.known})
			if err != nil {
				t.Fatal(err)
			}
			var lost []gpu.Device
			for _, l := range h.Lost {
				lost = append(lost, l.Device)
				if l.Reason != c.reason {
					t.Errorf("reason %q, want %q", l.Reason, c.reason)
				}
			}
			if diff := cmp.Diff(c.lost, lost); diff != "" {
				t.Errorf("lost (-want +got):\n%s", diff)
			}
		})
	}
}

// A library that is opened while a known GPU is lost reports the GPU as lost, and samples it once DescribeHost
// has found it.
func TestKnownGPUIsFoundAgain(t *testing.T) {
	library := buildStandIn(t)
	m := nvmltest.ReportHost(t, v100s(3), nvmltest.FunctionFailure{Function: "nvmlDeviceGetHandleByIndex_v2", Index: 1, Return: 15})
	l, err := Open(LibraryConfig{Library: library, SysRoot: m.SysRoot, ProcRoot: m.ProcRoot, Known: v100s(3).Devices, retryPause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 3 {
		if _, err := l.SampleDevice(uuid(1)); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "open GPU 1") {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := l.SampleDevice(uuid(2)); err != nil {
		t.Errorf("a GPU that is well: %v", err)
	}
	m.SetFailures()
	if h, err := l.DescribeHost(); err != nil || len(h.Devices) != 3 || len(h.Lost) != 0 {
		t.Errorf("the host has %v and lost %v, %v", h.Devices, h.Lost, err)
	}
	if _, err := l.SampleDevice(uuid(1)); err != nil {
		t.Errorf("the GPU that is back: %v", err)
	}
}
