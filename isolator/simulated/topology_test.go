package simulated

import (
	"testing"

	"mesos-gpu/gpu"
)

// word returns what `nvidia-smi topo -m` shows for two devices of a host.
func word(h gpu.Host, i, j int) any {
	a, b := h.Devices[i], h.Devices[j].UUID
	if n := a.NVLinks[b]; n > 0 {
		return n
	}
	return a.Paths[b]
}

func TestTopology(t *testing.T) {
	cases := []struct {
		spec string
		i, j int
		want any
	}{
		{"2xV100", 0, 1, 1},
		{"8xV100", 0, 3, 2},
		{"8xV100", 0, 4, 2},
		{"8xV100", 0, 5, gpu.AcrossNUMANodes},
		{"16xV100", 8, 11, 2}, // another board
		{"16xV100", 7, 8, gpu.AcrossNUMANodes},
		{"10xV100", 0, 9, gpu.AcrossNUMANodes},
		{"8xA100", 0, 7, 12},
		{"4xH100", 1, 3, 18},
		{"16xH100", 7, 8, gpu.AcrossNUMANodes},
		{"9xH100,1xV100", 8, 9, gpu.SameNUMANode},
		{"2xV100,2xA100", 1, 2, gpu.AcrossNUMANodes},
		{"1xA100,1xK80,2xA100", 2, 3, 12}, // devices between the two separate the boards
		{"4xK80", 0, 1, gpu.SameNUMANode},
		{"4xK80", 0, 2, gpu.AcrossNUMANodes},
	}
	for _, c := range cases {
		if got := word(mustHost(t, c.spec, "t"), c.i, c.j); got != c.want {
			t.Errorf("%s: from %d to %d: %v, want %v", c.spec, c.i, c.j, got, c.want)
		}
	}
}

// Every pair has one kind of connection, equal in both directions, and no device has more
// links than its product.
func TestTopologyConnectsEveryPair(t *testing.T) {
	for _, spec := range []string{"1xV100", "8xV100", "16xA100", "3xV100,2xK80,9xH100", "254xL4"} {
		h := mustHost(t, spec, "t")
		for i, a := range h.Devices {
			total := 0
			for j, b := range h.Devices {
				if i == j {
					continue
				}
				if n, p := a.NVLinks[b.UUID], a.Paths[b.UUID]; (n > 0) == (p != "") || n != b.NVLinks[a.UUID] || p != b.Paths[a.UUID] {
					t.Fatalf("%s: %d to %d: %d links and path %q, back %d and %q", spec, i, j, n, p, b.NVLinks[a.UUID], b.Paths[a.UUID])
				}
				if a.Model == "Tesla V100-SXM2-16GB" {
					total += a.NVLinks[b.UUID]
				}
			}
			if total > 6 {
				t.Errorf("%s: device %d has %d NVLinks, a V100 has 6", spec, i, total)
			}
		}
	}
}
