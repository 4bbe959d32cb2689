package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/volumemgr"
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
			if a.json {
				return a.printJSON(host)
			}
			return a.printHost(host)
		},
	}
	c.Flags().StringVar(&simulate, "simulate", "", "made-up GPUs such as 2xV100,1xK80 instead of this machine's")
	a.jsonFlag(c)
	return c
}

func (a *app) printHost(h gpu.Host) error {
	fmt.Fprintf(a.out, "driver %s, CUDA %s\n", h.Driver, h.CUDA)
	return a.table("MINOR\tTYPE\tMODEL\tMEMORY\tPCI\tNUMA\tUUID", len(h.Devices), func(i int) string {
		d := h.Devices[i]
		numa := "-"
		if d.NUMA >= 0 {
			numa = fmt.Sprint(d.NUMA)
		}
		return fmt.Sprintf("%d\t%s\t%s\t%d MiB\t%s\t%s\t%s", d.Minor, d.Type(), d.Model, d.MemMiB, d.PCI, numa, d.UUID)
	})
}

// table prints a head and n rows, cells separated by tabs, in columns.
func (a *app) table(head string, n int, row func(i int) string) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	for i := range n {
		fmt.Fprintln(w, strings.ReplaceAll(printable(row(i)), "\n", " "))
	}
	return w.Flush()
}

func (a *app) volumeCommand() *cobra.Command {
	var root, dir string
	c := &cobra.Command{Use: "volume", Short: "Make and list driver volumes", Args: args(), RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.PersistentFlags().StringVar(&dir, "dir", "/var/lib/mesos-gpu/volumes", "folder that holds the volumes")
	create := &cobra.Command{
		Use: "create", Short: "Make the volume of this machine's driver, unless it is there", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			volume, err := volumemgr.Ensure(c.Context(), root, dir)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(volume)
			}
			fmt.Fprintf(a.out, "%s\t%d files\t%s\n", volume.Name, volume.Files, volume.Path)
			return nil
		},
	}
	create.Flags().StringVar(&root, "driver-root", "/", "file system that holds the driver")
	list := &cobra.Command{
		Use: "list", Short: "List the volumes", Args: args(),
		RunE: func(*cobra.Command, []string) error {
			volumes, err := volumemgr.Store{Dir: dir}.List()
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(append([]volumemgr.Volume{}, volumes...))
			}
			return a.table("NAME\tFILES\tSIZE\tPATH", len(volumes), func(i int) string {
				v := volumes[i]
				return fmt.Sprintf("%s\t%d\t%.1f MiB\t%s", v.Name, v.Files, float64(v.Bytes)/(1<<20), v.Path)
			})
		},
	}
	a.jsonFlag(create)
	a.jsonFlag(list)
	c.AddCommand(create, list)
	return c
}
