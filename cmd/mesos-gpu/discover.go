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

// host finds this machine's GPUs, or makes up what simulate asks for.
func (a *app) host(simulate string) (gpu.Host, error) {
	if simulate == "" {
		return nvml.Discover(nvml.Config{})
	}
	name, err := os.Hostname()
	if err != nil {
		return gpu.Host{}, fmt.Errorf("name this host: %w", err)
	}
	return simulated.Host(simulate, name)
}

func (a *app) discoverCommand() *cobra.Command {
	var simulate string
	c := &cobra.Command{
		Use: "discover", Short: "Show this machine's GPUs", Args: args(),
		RunE: func(*cobra.Command, []string) error {
			host, err := a.host(simulate)
			if errors.Is(err, nvml.ErrNoDriver) {
				return fmt.Errorf("%w; --simulate 2xV100 shows made-up GPUs", err)
			}
			if err != nil {
				return err
			}
			if !a.json {
				if err := a.printHost(host, there); err != nil {
					return err
				}
			}
			cuttable, err := a.cuttable(simulate)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(discovered{host, cuttable})
			}
			return a.printProfiles(cuttable)
		},
	}
	c.Flags().StringVar(&simulate, "simulate", "", "made-up GPUs such as 2xV100,1xK80 instead of this machine's")
	a.outputFlag(c)
	return c
}

// there gives the paths that a pattern finds on this machine.
func there(pattern string) []string {
	paths, _ := filepath.Glob(pattern) // an error means a bad pattern
	return paths
}

// printHost shows devices, what joins them, and the nodes they are reached
// by, with those that there tells of.
func (a *app) printHost(h gpu.Host, there func(pattern string) []string) error {
	made := ""
	if h.Simulated {
		made = ", simulated"
	}
	fmt.Fprintf(a.out, "driver %s, CUDA %s%s\n", h.Driver, h.CUDA, made)
	if err := tableOf(a.printer().spare("PERSISTENCE", "CAPS", "NUMA", "MODEL", "MEMORY", "PCI"), h.Devices, hostColumns(h)); err != nil {
		return err
	}
	for _, part := range []string{matrix(h), nodes(h, there)} {
		if part != "" {
			fmt.Fprint(a.out, "\n"+printable(part))
		}
	}
	return nil
}

// hostColumns leaves out the ones that none of the host's devices needs.
func hostColumns(h gpu.Host) []column[gpu.Device] {
	columns := []column[gpu.Device]{
		{"MINOR", func(d gpu.Device) string { return fmt.Sprint(d.Minor) }},
		{"TYPE", gpu.Device.Type},
		{"MODEL", model},
		{"MEMORY", func(d gpu.Device) string { return fmt.Sprintf("%d MiB", d.MemMiB) }},
	}
	if slices.ContainsFunc(h.Devices, func(d gpu.Device) bool { return d.MIG != nil }) {
		columns = append(columns, column[gpu.Device]{"MIG", profile}, column[gpu.Device]{"CAPS", caps})
	}
	return append(columns,
		column[gpu.Device]{"PCI", func(d gpu.Device) string { return d.PCI }},
		column[gpu.Device]{"NUMA", func(d gpu.Device) string {
			if d.NUMA < 0 {
				return "-"
			}
			return fmt.Sprint(d.NUMA)
		}},
		column[gpu.Device]{"PERSISTENCE", func(d gpu.Device) string {
			if d.Persistence {
				return "on"
			}
			return "off"
		}},
		column[gpu.Device]{"UUID", func(d gpu.Device) string { return d.UUID }},
	)
}

// model is the product's name: of a MIG device, its GPU's.
func model(d gpu.Device) string {
	if d.MIG != nil {
		name, _, _ := strings.Cut(d.Model, " MIG ")
		return name
	}
	return d.Model
}

func profile(d gpu.Device) string {
	if d.MIG == nil {
		return "-"
	}
	return d.MIG.Profile
}

// caps are the N of the two /dev/nvidia-caps/nvidia-capN of a MIG device.
func caps(d gpu.Device) string {
	if d.MIG == nil {
		return "-"
	}
	return fmt.Sprintf("%d, %d", d.MIG.GPUInstanceCap, d.MIG.ComputeInstanceCap)
}
