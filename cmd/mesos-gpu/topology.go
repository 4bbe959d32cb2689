package main

import (
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/rules"
)

// board is one GPU of the topology matrix: the devices that share a node.
type board struct {
	minor   int
	devices []gpu.Device
}

func boards(h gpu.Host) []board {
	var all []board
	for _, d := range h.Devices {
		i := slices.IndexFunc(all, func(b board) bool { return b.minor == d.Minor })
		if i < 0 {
			i, all = len(all), append(all, board{minor: d.Minor})
		}
		all[i].devices = append(all[i].devices, d)
	}
	slices.SortStableFunc(all, func(a, b board) int { return a.minor - b.minor })
	return all
}

// between is what joins two GPUs, in the words of `nvidia-smi topo -m`.
func between(a, b board) string {
	links, path := 0, gpu.Path("")
	for _, x := range a.devices {
		for _, y := range b.devices {
			links = max(links, x.NVLinks[y.UUID], y.NVLinks[x.UUID])
			for _, p := range []gpu.Path{x.Paths[y.UUID], y.Paths[x.UUID]} {
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
		return unknownPath
	}
}

const unknownPath = "-"

// legend explains the words of the matrix, nearest first.
var legend = []struct{ word, means string }{
	{"X", "itself"},
	{"NV#", "that many NVLinks"},
	{string(gpu.SameBoard), "two devices of one board"},
	{string(gpu.OneBridge), "at most one PCIe bridge"},
	{string(gpu.ManyBridges), "several PCIe bridges"},
	{string(gpu.HostBridge), "a PCIe host bridge"},
	{string(gpu.SameNode), "host bridges of one NUMA node"},
	{string(gpu.System), "the link between NUMA nodes"},
	{unknownPath, "not told, as of GPUs in MIG mode"},
}

// matrix draws what joins the host's GPUs. One GPU alone has none.
func matrix(h gpu.Host) string {
	all := boards(h)
	if len(all) < 2 {
		return ""
	}
	var b strings.Builder
	used := map[string]bool{"X": true}
	width := len(fmt.Sprintf("GPU%d", all[len(all)-1].minor))
	fmt.Fprintf(&b, "%*s", width, "")
	for _, column := range all {
		fmt.Fprintf(&b, " %*d", cell, column.minor)
	}
	for _, row := range all {
		fmt.Fprintf(&b, "\n%-*s", width, fmt.Sprintf("GPU%d", row.minor))
		for _, column := range all {
			word := "X"
			if row.minor != column.minor {
				word = between(row, column)
			}
			fmt.Fprintf(&b, " %*s", cell, word)
			if strings.HasPrefix(word, "NV") {
				word = "NV#"
			}
			used[word] = true
		}
	}
	var words []string
	for _, l := range legend {
		if used[l.word] {
			words = append(words, l.word+" "+l.means)
		}
	}
	return b.String() + "\n" + wrap("", words, "; ")
}

// cell is how wide the longest word of the matrix is.
const cell = 4

// nodes lists the device nodes that the host's GPUs are reached by, and those
// of NVSwitches. A simulated host's stand nowhere but in containers.
func nodes(h gpu.Host, there func(pattern string) []string) string {
	var present, absent []string
	for _, n := range rules.Nodes(h, rules.Majors{UVM: 1, Caps: 2}) {
		if path := "/dev/" + n.Name; h.Simulated || len(there(path)) > 0 {
			present = append(present, path)
		} else {
			absent = append(absent, path)
		}
	}
	if !h.Simulated {
		present = append(present, there("/dev/nvidia-nvswitch*")...)
	}
	return wrap("nodes    ", present, " ") + wrap("missing  ", absent, " ")
}

// lineWidth is where lists are broken.
const lineWidth = 100

// wrap lists the words behind a head, in lines as long as the head's begin.
func wrap(head string, words []string, between string) string {
	if len(words) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(head)
	at := len(head)
	for i, word := range words {
		if i > 0 {
			b.WriteString(strings.TrimRight(between, " "))
			if at+len(between)+len(word) > lineWidth {
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
