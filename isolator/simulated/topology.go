package simulated

import "mesos-gpu/gpu"

// boardSize is how many GPUs NVLink joins in one machine: HGX and DGX boards.
const boardSize = 8

// dgx1Links are the links of DGX-1's V100s, a hybrid cube mesh (NVIDIA DGX-1
// User Guide): six of each GPU.
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

// switchLinks are products whose GPUs reach each other through NVSwitches, and
// how many links each has.
var switchLinks = map[string]int{
	"NVIDIA A100-SXM4-40GB": 12, "NVIDIA A800-SXM4-80GB": 8,
	"NVIDIA H100 80GB HBM3": 18, "NVIDIA H800": 8, "NVIDIA H20": 18, "NVIDIA H200": 18,
	"NVIDIA B100": 18, "NVIDIA B200": 18, "NVIDIA B300 SXM6 AC": 18, "NVIDIA GB200": 18, "NVIDIA GB300": 18,
}

// linkCount counts the NVLinks between two places of one board.
func linkCount(model string, i, j int) int {
	if model == "Tesla V100-SXM2-16GB" {
		return dgx1Links[i][j]
	}
	return switchLinks[model]
}

// connectDevices fills in how data gets from device to device. GPUs of one model that
// stand in a row fill boards; where no NVLink joins two, PCIe does, through
// the NUMA node that they share or from one to the other.
func connectDevices(devices []gpu.Device) {
	boards := make([]int, len(devices)) // where the device's board begins
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
