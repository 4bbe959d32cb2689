package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/term"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/layout"
	"mesos-gpu/isolator/mig"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/socket"
	"mesos-gpu/isolator/stock"
)

// migFlags select the GPUs that the daemon may partition by MIG, and their layout.
type migFlags struct{ list, layout string }

func (f *migFlags) register(p *pflag.FlagSet) {
	p.StringVar(&f.list, "mig", mig.None,
		"GPUs in MIG mode that the daemon may partition while they are idle: comma-separated minor numbers or UUIDs, all, or none")
	p.StringVar(&f.layout, "mig-layout", "", "`layout` of these GPUs, such as 3g.20gb,2x2g.10gb, until mesos-gpu agent mig requests another one; empty: unchanged")
}

// migGPUs returns the GPUs that the daemon may partition.
func (f *agentFlags) migGPUs() ([]nvml.MIGGPU, error) {
	switch {
	case f.mig.list == "" || f.mig.list == mig.None:
		return nil, nil
	case f.advertise != advertiseProvider:
		return nil, errors.New("GPUs in the agent's flags cannot be partitioned: --mig requires --advertise " + advertiseProvider)
	case f.simulate != "":
		return nil, errors.New("simulated GPUs (--simulate) cannot be partitioned (--mig)")
	}
	all, err := nvml.DiscoverMIG(nvml.LibraryConfig{})
	return slices.DeleteFunc(all, func(g nvml.MIGGPU) bool { return !mig.IsSelected(f.mig.list, g.Device) }), err
}

// describeMachine returns what a host advertises. MIG devices come and go, but
// attributes are fixed, so placeholders that fit any MIG device replace them.
func (f *agentFlags) describeMachine(ctx context.Context, host gpu.Host, log logrus.FieldLogger) (advertise.MachineGPUs, error) {
	named, aside, err := stock.SplitHost(host, f.stock)
	if err != nil {
		return advertise.MachineGPUs{}, err
	}
	cuttable, err := f.migGPUs()
	if err != nil {
		return advertise.MachineGPUs{}, err
	}
	var gpus []gpu.Device
	for _, g := range cuttable {
		gpus = append(gpus, g.Device)
	}
	m := advertise.MachineGPUs{Host: mig.AddPlaceholders(named, gpus), Stock: aside, Role: f.role}
	err = f.share.addSharing(ctx, &m, f.simulate != "", f.advertise == advertiseProvider, log)
	for _, g := range cuttable {
		m.MarkRepartitioned(g.Device, g.Profiles)
	}
	return m, err
}

// discoveredHost is the output of `discover -o json`.
type discoveredHost struct {
	gpu.Host
	Lost []gpu.LostDevice `json:"lost,omitempty"`
	MIG  []nvml.MIGGPU    `json:"mig,omitempty"`
}

// listCuttable returns this machine's GPUs in MIG mode. Simulated GPUs have none.
func (a *agentCommands) listCuttable(simulate string) ([]nvml.MIGGPU, error) {
	if simulate != "" {
		return nil, nil
	}
	return nvml.DiscoverMIG(nvml.LibraryConfig{})
}

// printProfiles prints the MIG profiles of each GPU in MIG mode.
func (a *agentCommands) printProfiles(list []nvml.MIGGPU) error {
	for _, g := range list {
		fmt.Fprintf(a.Stdout, "\n%s, cut into %s, can be cut into\n", term.EscapeControls(g.Device.String()), term.DashIfEmpty(formatLayout(g.Instances)))
		if err := a.printMIGProfiles(g.Profiles); err != nil {
			return err
		}
	}
	return nil
}

func (a *agentCommands) printMIGProfiles(list []layout.InstanceProfile) error {
	return a.PrintRows("PROFILE\tMEMORY\tSLICES\tMOST\tPLACES", len(list), func(i int) string {
		p := list[i]
		return fmt.Sprintf("%s\t%d MiB\t%d\t%d\t%s:%d", p.Name, p.MemMiB, p.Slices, p.Max, strings.Trim(fmt.Sprint(p.Starts), "[]"), p.Size)
	})
}

func formatLayout(list []layout.GPUInstance) string {
	var names []string
	for _, i := range list {
		names = append(names, i.Profile)
	}
	return layout.FormatLayout(names)
}

func (a *agentCommands) migCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "mig [GPU LAYOUT]", Short: "Show the MIG layouts of GPUs, or request another layout for a GPU",
		Long: "Without arguments: the GPUs that the daemon may partition (--mig), their layouts and the possible profiles.\n" +
			"With a GPU, by minor number or UUID, and a layout such as 3g.20gb,2x2g.10gb: " +
			"the GPU is partitioned accordingly once no task uses a MIG device that must be removed.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return fmt.Errorf("want no arguments, or GPU and LAYOUT; got %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			client := socket.NewDaemonClient(path)
			defer client.Close()
			list, err := client.ListMIG(c.Context())
			switch {
			case err != nil:
				return err
			case len(args) == 2:
				return a.requestLayout(c, client, list, args[0], args[1])
			case a.ForPrograms:
				return a.PrintJSON(list)
			}
			return a.printMIGLayouts(list)
		},
	}
	socketFlag(c, &path)
	a.AddOutputFlag(c)
	return c
}

func (a *agentCommands) requestLayout(c *cobra.Command, client *socket.DaemonClient, list []mig.PartitionedGPU, name, text string) error {
	devices := make([]gpu.Device, len(list))
	for i, g := range list {
		devices[i] = gpu.Device{UUID: g.UUID, Minor: g.Minor}
	}
	uuid, err := resolveDevice(devices, name)
	if err != nil {
		return err
	}
	names, err := layout.ParseLayout(text)
	if err != nil {
		return err
	}
	waits, err := client.SetMIGLayout(c.Context(), uuid, names)
	if err != nil {
		return err
	}
	done := "is cut into"
	if waits {
		done = "is cut once idle into"
	}
	fmt.Fprintf(a.Stdout, "%s %s %s\n", uuid, done, layout.FormatLayout(names))
	return nil
}

func (a *agentCommands) printMIGLayouts(list []mig.PartitionedGPU) error {
	err := a.PrintRows("MINOR\tMODEL\tCUT INTO\tOTHERS'\tWANTED\tUUID\tREASON", len(list), func(i int) string {
		g := list[i]
		var ours, others []layout.GPUInstance
		for _, n := range g.Instances {
			if n.Ours {
				ours = append(ours, n.GPUInstance)
			} else {
				others = append(others, n.GPUInstance)
			}
		}
		wanted := term.DashIfEmpty(layout.FormatLayout(g.Layout))
		if g.Pending {
			wanted += ", once idle"
		}
		return strings.Join([]string{
			fmt.Sprint(g.Minor), g.Model, term.DashIfEmpty(formatLayout(ours)), term.DashIfEmpty(formatLayout(others)),
			wanted, g.UUID, term.DashIfEmpty(g.Reason),
		}, "\t")
	}, "MODEL", "OTHERS'", "UUID")
	for _, g := range list {
		if err == nil {
			fmt.Fprintf(a.Stdout, "\n%s can be cut into\n", term.EscapeControls(g.UUID))
			err = a.printMIGProfiles(g.Profiles)
		}
	}
	return err
}
