package agent

import (
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/rules"
)

// boardDevices is one GPU of the topology matrix: the devices that share a device node.
type boardDevices struct {
	minor   int
	devices []gpu.Device
}

func groupByBoard(h gpu.Host) []boardDevices {
	var all []boardDevices
	for _, d := range h.Devices {
		i := slices.IndexFunc(all, func(b boardDevices) bool { return b.minor == d.Minor })
		if i < 0 {
			i, all = len(all), append(all, boardDevices{minor: d.Minor})
		}
		all[i].devices = append(all[i].devices, d)
	}
	slices.SortStableFunc(all, func(a, b boardDevices) int { return a.minor - b.minor })
	return all
}

// linkBetween returns the link between two GPUs in the notation of `nvidia-smi topo -m`.
func linkBetween(a, b boardDevices) string {
	links, path := 0, gpu.PCIePath("")
	for _, x := range a.devices {
		for _, y := range b.devices {
			links = max(links, x.NVLinks[y.UUID], y.NVLinks[x.UUID])
			for _, p := range []gpu.PCIePath{x.Paths[y.UUID], y.Paths[x.UUID]} {
				if p != "" {
					path = p
				}
			}
		}
	}
	switch {
	case links > 0:
		return fmt.Sprintf("NV%d", links)
	case path != "":
		return string(path)
	default:
		return linkUnknown
	}
}

const linkUnknown = "-"

// linkLegend explains the entries of the matrix, the closest link first.
var linkLegend = []struct{ word, means string }{
	{"X", "itself"},
	{"NV#", "that many NVLinks"},
	{string(gpu.SameBoard), "two devices of one board"},
	{string(gpu.OneBridge), "at most one PCIe bridge"},
	{string(gpu.ManyBridges), "several PCIe bridges"},
	{string(gpu.HostBridge), "a PCIe host bridge"},
	{string(gpu.SameNUMANode), "host bridges of one NUMA node"},
	{string(gpu.AcrossNUMANodes), "the link between NUMA nodes"},
	{linkUnknown, "not told, as of GPUs in MIG mode"},
}

// topologyMatrix formats the links between the host's GPUs. It returns "" for one GPU.
func topologyMatrix(h gpu.Host) string {
	all := groupByBoard(h)
	if len(all) < 2 {
		return ""
	}
	var b strings.Builder
	used := map[string]bool{"X": true}
	width := len(fmt.Sprintf("GPU%d", all[len(all)-1].minor))
	fmt.Fprintf(&b, "%*s", width, "")
	for _, column := range all {
		fmt.Fprintf(&b, " %*d", matrixCellWidth, column.minor)
	}
	for _, row := range all {
		fmt.Fprintf(&b, "\n%-*s", width, fmt.Sprintf("GPU%d", row.minor))
		for _, column := range all {
			word := "X"
			if row.minor != column.minor {
				word = linkBetween(row, column)
			}
			fmt.Fprintf(&b, " %*s", matrixCellWidth, word)
			if strings.HasPrefix(word, "NV") {
				word = "NV#"
			}
			used[word] = true
		}
	}
	var words []string
	for _, l := range linkLegend {
		if used[l.word] {
			words = append(words, l.word+" "+l.means)
		}
	}
	return b.String() + "\n" + wrapWords("", words, "; ")
}

// matrixCellWidth is the width of the longest entry of the matrix.
const matrixCellWidth = 4

// listDeviceNodes lists the present and the missing device nodes of the host's GPUs,
// and the nodes of NVSwitches. The nodes of a simulated host exist only in containers,
// so they count as present.
func listDeviceNodes(h gpu.Host, there func(pattern string) []string) string {
	var present, absent []string
	for _, n := range rules.HostNodes(h, rules.MajorNumbers{UVM: 1, Caps: 2}) {
		if path := "/dev/" + n.Name; h.Simulated || len(there(path)) > 0 {
			present = append(present, path)
		} else {
			absent = append(absent, path)
		}
	}
	if !h.Simulated {
		present = append(present, there("/dev/nvidia-nvswitch*")...)
	}
	return wrapWords("nodes    ", present, " ") + wrapWords("missing  ", absent, " ")
}

// listWidth is the width at which lists wrap, in characters.
const listWidth = 100

// wrapWords formats a list after a header and aligns wrapped lines with the first word.
func wrapWords(head string, words []string, between string) string {
	if len(words) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(head)
	at := len(head)
	for i, word := range words {
		if i > 0 {
			b.WriteString(strings.TrimRight(between, " "))
			if at+len(between)+len(word) > listWidth {
				b.WriteString("\n" + strings.Repeat(" ", len(head)))
				at = len(head)
			} else {
				b.WriteString(" ")
				at += len(between)
			}
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String() + "\n"
}
