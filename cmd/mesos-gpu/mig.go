package main

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
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/layout"
	"mesos-gpu/isolator/mig"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/socket"
	"mesos-gpu/isolator/stock"
)

// migFlags say which GPUs the daemon may cut into MIG devices, and into which.
type migFlags struct{ list, layout string }

func (f *migFlags) register(p *pflag.FlagSet) {
	p.StringVar(&f.list, "mig", mig.None, "GPUs in MIG mode that the daemon may cut while they are idle: minor numbers or UUIDs with commas between, all or none")
	p.StringVar(&f.layout, "mig-layout", "", "what they are cut into until `mesos-gpu agent mig` asks for another layout, such as 3g.20gb,2x2g.10gb; empty leaves them as they are")
}

// chosen are the GPUs that may be cut.
func (f *agentFlags) chosen() ([]nvml.Cuttable, error) {
	switch {
	case f.mig.list == "" || f.mig.list == mig.None:
		return nil, nil
	case f.advertise != byProvider:
		return nil, errors.New("GPUs that stand in the agent's flags cannot be cut: --mig takes --advertise " + byProvider)
	case f.simulate != "":
		return nil, errors.New("made-up GPUs (--simulate) cannot be cut (--mig)")
	}
	all, err := nvml.DiscoverMIG(nvml.Config{})
	return slices.DeleteFunc(all, func(g nvml.Cuttable) bool { return !mig.Chosen(f.mig.list, g.Device) }), err
}

// machine is what a host has to advertise: in the attributes, which stand for
// good, something that holds of any slice in place of those that come and go.
func (f *agentFlags) machine(ctx context.Context, host gpu.Host, log logrus.FieldLogger) (advertise.Machine, error) {
	named, aside, err := stock.Split(host, f.stock)
	if err != nil {
		return advertise.Machine{}, err
	}
	cuttable, err := f.chosen()
	if err != nil {
		return advertise.Machine{}, err
	}
	var gpus []gpu.Device
	for _, g := range cuttable {
		gpus = append(gpus, g.Device)
	}
	m := advertise.Machine{Host: mig.Standing(named, gpus), Stock: aside, Role: f.role}
	err = f.share.advertise(ctx, &m, f.simulate != "", f.advertise == byProvider, log)
	for _, g := range cuttable {
		m.Cut(g.Device, g.Profiles)
	}
	return m, err
}

// discovered is what `discover -o json` prints.
type discovered struct {
	gpu.Host
	MIG []nvml.Cuttable `json:"mig,omitempty"`
}

// cuttable are this machine's GPUs in MIG mode; made-up ones are in none.
func (a *app) cuttable(simulate string) ([]nvml.Cuttable, error) {
	if simulate != "" {
		return nil, nil
	}
	return nvml.DiscoverMIG(nvml.Config{})
}

// printProfiles shows what each GPU in MIG mode can be cut into.
func (a *app) printProfiles(list []nvml.Cuttable) error {
	for _, g := range list {
		fmt.Fprintf(a.out, "\n%s, cut into %s, can be cut into\n", printable(g.Device.String()), orDash(cutInto(g.Instances)))
		if err := a.profiles(g.Profiles); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) profiles(list []layout.Profile) error {
	return a.table("PROFILE\tMEMORY\tSLICES\tMOST\tPLACES", len(list), func(i int) string {
		p := list[i]
		return fmt.Sprintf("%s\t%d MiB\t%d\t%d\t%s:%d", p.Name, p.MemMiB, p.Slices, p.Max, strings.Trim(fmt.Sprint(p.Starts), "[]"), p.Size)
	})
}

func cutInto(list []layout.Instance) string {
	var names []string
	for _, i := range list {
		names = append(names, i.Profile)
	}
	return layout.Text(names)
}

func (a *app) migCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "mig [GPU LAYOUT]", Short: "Show what GPUs in MIG mode are cut into, or cut one anew once it is idle",
		Long: "Without arguments: the GPUs that the daemon may cut (--mig), what they are cut into and what they can be.\n" +
			"With a GPU, by minor number or UUID, and a layout such as 3g.20gb,2x2g.10gb: that is what the GPU is cut into once no task holds a slice that has to end for it.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return fmt.Errorf("want no arguments, or GPU and LAYOUT; got %d", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			client := socket.NewClient(path)
			defer client.Close()
			list, err := client.MIG(c.Context())
			switch {
			case err != nil:
				return err
			case len(args) == 2:
				return a.cut(c, client, list, args[0], args[1])
			case a.json:
				return a.printJSON(list)
			}
			return a.printCut(list)
		},
	}
	socketFlag(c, &path)
	a.outputFlag(c)
	return c
}

func (a *app) cut(c *cobra.Command, client *socket.Client, list []mig.GPU, name, text string) error {
	devices := make([]gpu.Device, len(list))
	for i, g := range list {
		devices[i] = gpu.Device{UUID: g.UUID, Minor: g.Minor}
	}
	uuid, err := find(devices, name)
	if err != nil {
		return err
	}
	names, err := layout.Parse(text)
	if err != nil {
		return err
	}
	waits, err := client.Cut(c.Context(), uuid, names)
	if err != nil {
		return err
	}
	done := "is cut into"
	if waits {
		done = "is cut once idle into"
	}
	fmt.Fprintf(a.out, "%s %s %s\n", uuid, done, layout.Text(names))
	return nil
}

func (a *app) printCut(list []mig.GPU) error {
	err := a.table("MINOR\tMODEL\tCUT INTO\tOTHERS'\tWANTED\tUUID\tREASON", len(list), func(i int) string {
		g := list[i]
		var ours, others []layout.Instance
		for _, n := range g.Instances {
			if n.Ours {
				ours = append(ours, n.Instance)
			} else {
				others = append(others, n.Instance)
			}
		}
		wanted := orDash(layout.Text(g.Layout))
		if g.Pending {
			wanted += ", once idle"
		}
		return strings.Join([]string{fmt.Sprint(g.Minor), g.Model, orDash(cutInto(ours)), orDash(cutInto(others)), wanted, g.UUID, orDash(g.Reason)}, "\t")
	}, "MODEL", "OTHERS'", "UUID")
	for _, g := range list {
		if err == nil {
			fmt.Fprintf(a.out, "\n%s can be cut into\n", printable(g.UUID))
			err = a.profiles(g.Profiles)
		}
	}
	return err
}
