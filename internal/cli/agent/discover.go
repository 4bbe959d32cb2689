package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/isolator/daemon"
	"mesos-gpu/isolator/inventory"
)

func (a *agentCommands) discoverCommand() *cobra.Command {
	var simulate, stateDir string
	c := &cobra.Command{
		Use: "discover", Short: "Show this machine's GPUs", Args: cli.RequireArgs(),
		RunE: func(*cobra.Command, []string) error {
			known, err := inventory.ReadDevices(stateDir)
			if err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
			host, err := cli.DiscoverHost(simulate, known...)
			if err != nil {
				return err
			}
			if !a.ForPrograms {
				if err := a.printHost(host, cli.GlobPaths); err != nil {
					return err
				}
			}
			cuttable, err := a.listCuttable(simulate)
			if err != nil {
				return err
			}
			if a.ForPrograms {
				return a.PrintJSON(discoveredHost{host, host.Lost, cuttable})
			}
			return a.printProfiles(cuttable)
		},
	}
	c.Flags().StringVar(&simulate, "simulate", "", "simulated GPUs such as 2xV100,1xK80 instead of this machine's")
	c.Flags().StringVar(&stateDir, "state-dir", daemon.DefaultStateDir, "state directory of mesos-gpu agent, with the GPUs that this machine had before")
	a.AddOutputFlag(c)
	return c
}

// printHost prints the host's devices, the links between them, and their device nodes.
// there lists the paths that match a pattern.
func (a *agentCommands) printHost(h gpu.Host, there func(pattern string) []string) error {
	made := ""
	if h.Simulated {
		made = ", simulated"
	}
	fmt.Fprintf(a.Stdout, "driver %s, CUDA %s%s\n", h.Driver, h.CUDA, made)
	if err := printDevices(a.NewPrinter(), h); err != nil {
		return err
	}
	for _, part := range []string{listLost(h.Lost), topologyMatrix(h), listDeviceNodes(h, there)} {
		if part != "" {
			fmt.Fprint(a.Stdout, "\n"+term.EscapeControls(part))
		}
	}
	return nil
}

// listLost returns one line for each device that the driver cannot describe.
func listLost(list []gpu.LostDevice) string {
	var text strings.Builder
	for _, l := range list {
		name := "a GPU without a known UUID"
		if l.IsKnown() {
			name = l.Device.String() + " at " + l.Device.PCI
		} else if l.Device.UUID != "" {
			name = l.Device.UUID
		}
		fmt.Fprintf(&text, "lost: %s: %s\n", name, l.Reason)
	}
	return text.String()
}

func printDevices(p *term.TablePrinter, h gpu.Host) error {
	return term.PrintTable(p.DropFirst("PERSISTENCE", "CAPS", "NUMA", "MODEL", "MEMORY", "PCI"), h.Devices, hostColumns(h))
}

// hostColumns returns the columns for a host's devices. It omits the MIG columns if no
// device is a MIG device.
func hostColumns(h gpu.Host) []term.TableColumn[gpu.Device] {
	columns := []term.TableColumn[gpu.Device]{
		{Name: "MINOR", Value: func(d gpu.Device) string { return fmt.Sprint(d.Minor) }},
		{Name: "TYPE", Value: gpu.Device.Type},
		{Name: "MODEL", Value: modelName},
		{Name: "MEMORY", Value: func(d gpu.Device) string { return fmt.Sprintf("%d MiB", d.MemMiB) }},
	}
	if slices.ContainsFunc(h.Devices, func(d gpu.Device) bool { return d.MIG != nil }) {
		columns = append(columns, term.TableColumn[gpu.Device]{Name: "MIG", Value: migProfile}, term.TableColumn[gpu.Device]{Name: "CAPS", Value: migCaps})
	}
	return append(columns,
		term.TableColumn[gpu.Device]{Name: "PCI", Value: func(d gpu.Device) string { return d.PCI }},
		term.TableColumn[gpu.Device]{Name: "NUMA", Value: func(d gpu.Device) string {
			if d.NUMA < 0 {
				return "-"
			}
			return fmt.Sprint(d.NUMA)
		}},
		term.TableColumn[gpu.Device]{Name: "PERSISTENCE", Value: func(d gpu.Device) string {
			if d.Persistence {
				return "on"
			}
			return "off"
		}},
		term.TableColumn[gpu.Device]{Name: "UUID", Value: func(d gpu.Device) string { return d.UUID }},
	)
}

// modelName returns the product name; for a MIG device, that of its GPU.
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

// migCaps returns the numbers N of a MIG device's two nodes
// /dev/nvidia-caps/nvidia-capN.
func migCaps(d gpu.Device) string {
	if d.MIG == nil {
		return "-"
	}
	return fmt.Sprintf("%d, %d", d.MIG.GPUInstanceCap, d.MIG.ComputeInstanceCap)
}
