package simulated

import (
	"strings"

	"mesos-gpu/gpu"
)

// boardSize is the number of GPUs that NVLink connects in one machine (HGX and
// DGX boards).
const boardSize = 8

// dgx1Links are the links between the V100s of a DGX-1, a hybrid cube mesh
// with six links for each GPU (NVIDIA DGX-1 User Guide).
var dgx1Links = [boardSize][boardSize]int{
	{0, 1, 1, 2, 2, 0, 0, 0},
	{1, 0, 2, 1, 0, 2, 0, 0},
	{1, 2, 0, 2, 0, 0, 1, 0},
	{2, 1, 2, 0, 0, 0, 0, 1},
	{2, 0, 0, 0, 0, 1, 1, 2},
	{0, 2, 0, 0, 1, 0, 2, 1},
	{0, 0, 1, 0, 1, 2, 0, 2},
	{0, 0, 0, 1, 2, 1, 2, 0},
}

// switchLinks are the products whose GPUs are connected by NVSwitches, with
// the number of links of each GPU.
var switchLinks = map[string]int{
	"NVIDIA A100-SXM4-40GB": 12, "NVIDIA A100-SXM4-80GB": 12, "NVIDIA A800-SXM4-80GB": 8,
	"NVIDIA H100 80GB HBM3": 18, "NVIDIA H800": 8, "NVIDIA H20": 18, "NVIDIA H200": 18,
	"NVIDIA B100": 18, "NVIDIA B200": 18, "NVIDIA B300 SXM6 AC": 18, "NVIDIA GB200": 18, "NVIDIA GB300": 18,
}

// linkCount returns the number of NVLinks between two positions of a board.
func linkCount(model string, i, j int) int {
	if strings.HasPrefix(model, "Tesla V100-SXM2-") {
		return dgx1Links[i][j]
	}
	return switchLinks[model]
}

// connectDevices sets the links between devices. Consecutive GPUs of one model
// fill boards. Devices without NVLink between them are connected by PCIe,
// within a NUMA node or across two.
func connectDevices(devices []gpu.Device) {
	boards := make([]int, len(devices)) // index of the first device of each device's board
	for i := range devices {
		boards[i] = i
		if i > 0 && devices[i].Model == devices[i-1].Model && i-boards[i-1] < boardSize {
			boards[i] = boards[i-1]
		}
	}
	for i := range devices {
		for j := range i {
			a, b, n := &devices[i], &devices[j], 0
			if boards[i] == boards[j] {
				n = linkCount(a.Model, i-boards[i], j-boards[j])
			}
			if n > 0 {
				setKey(&a.NVLinks, b.UUID, n)
				setKey(&b.NVLinks, a.UUID, n)
				continue
			}
			path := gpu.AcrossNUMANodes
			if a.NUMA == b.NUMA {
				path = gpu.SameNUMANode
			}
			setKey(&a.Paths, b.UUID, path)
			setKey(&b.Paths, a.UUID, path)
		}
	}
}

func setKey[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}
