package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/simulated"
)

// discoverHost finds this machine's GPUs, or makes up what simulate asks for.
func (a *cliApp) discoverHost(simulate string) (gpu.Host, error) {
	if simulate == "" {
		return nvml.DiscoverHost(nvml.LibraryConfig{})
	}
	name, err := os.Hostname()
	if err != nil {
		return gpu.Host{}, fmt.Errorf("name this host: %w", err)
	}
	return simulated.NewHost(simulate, name)
}

func (a *cliApp) discoverCommand() *cobra.Command {
	var simulate string
	c := &cobra.Command{
		Use: "discover", Short: "Show this machine's GPUs", Args: requireArgs(),
		RunE: func(*cobra.Command, []string) error {
			host, err := a.discoverHost(simulate)
			if errors.Is(err, nvml.ErrNoDriver) {
				return fmt.Errorf("%w; --simulate 2xV100 shows made-up GPUs", err)
			}
			if err != nil {
				return err
			}
			if !a.forPrograms {
				if err := a.printHost(host, globPaths); err != nil {
					return err
				}
			}
			cuttable, err := a.listCuttable(simulate)
			if err != nil {
				return err
			}
			if a.forPrograms {
				return a.printJSON(discoveredHost{host, cuttable})
			}
			return a.printProfiles(cuttable)
		},
	}
	c.Flags().StringVar(&simulate, "simulate", "", "made-up GPUs such as 2xV100,1xK80 instead of this machine's")
	a.addOutputFlag(c)
	return c
}

// globPaths gives the paths that a pattern finds on this machine.
func globPaths(pattern string) []string {
	paths, _ := filepath.Glob(pattern) // an error means a bad pattern
	return paths
}

// printHost shows devices, what joins them, and the nodes they are reached
// by, with those that there tells of.
func (a *cliApp) printHost(h gpu.Host, there func(pattern string) []string) error {
	made := ""
	if h.Simulated {
		made = ", simulated"
	}
	fmt.Fprintf(a.stdout, "driver %s, CUDA %s%s\n", h.Driver, h.CUDA, made)
	if err := printTable(a.newPrinter().dropFirst("PERSISTENCE", "CAPS", "NUMA", "MODEL", "MEMORY", "PCI"), h.Devices, hostColumns(h)); err != nil {
		return err
	}
	for _, part := range []string{topologyMatrix(h), listDeviceNodes(h, there)} {
		if part != "" {
			fmt.Fprint(a.stdout, "\n"+escapeControls(part))
		}
	}
	return nil
}

// hostColumns leaves out the ones that none of the host's devices needs.
func hostColumns(h gpu.Host) []tableColumn[gpu.Device] {
	columns := []tableColumn[gpu.Device]{
		{"MINOR", func(d gpu.Device) string { return fmt.Sprint(d.Minor) }},
		{"TYPE", gpu.Device.Type},
		{"MODEL", modelName},
		{"MEMORY", func(d gpu.Device) string { return fmt.Sprintf("%d MiB", d.MemMiB) }},
	}
	if slices.ContainsFunc(h.Devices, func(d gpu.Device) bool { return d.MIG != nil }) {
		columns = append(columns, tableColumn[gpu.Device]{"MIG", migProfile}, tableColumn[gpu.Device]{"CAPS", migCaps})
	}
	return append(columns,
		tableColumn[gpu.Device]{"PCI", func(d gpu.Device) string { return d.PCI }},
		tableColumn[gpu.Device]{"NUMA", func(d gpu.Device) string {
			if d.NUMA < 0 {
				return "-"
			}
			return fmt.Sprint(d.NUMA)
		}},
		tableColumn[gpu.Device]{"PERSISTENCE", func(d gpu.Device) string {
			if d.Persistence {
				return "on"
			}
			return "off"
		}},
		tableColumn[gpu.Device]{"UUID", func(d gpu.Device) string { return d.UUID }},
	)
}

// modelName is the product's name: of a MIG device, its GPU's.
func modelName(d gpu.Device) string {
	if d.MIG != nil {
		name, _, _ := strings.Cut(d.Model, " MIG ")
		return name
	}
	return d.Model
}

func migProfile(d gpu.Device) string {
	if d.MIG == nil {
		return "-"
	}
	return d.MIG.Profile
}

// migCaps are the N of the two /dev/nvidia-caps/nvidia-capN of a MIG device.
func migCaps(d gpu.Device) string {
	if d.MIG == nil {
		return "-"
	}
	return fmt.Sprintf("%d, %d", d.MIG.GPUInstanceCap, d.MIG.ComputeInstanceCap)
}
