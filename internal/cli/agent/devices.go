package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/isolator/daemon"
	"mesos-gpu/isolator/socket"
)

func socketFlag(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "socket", daemon.DefaultSocket, "Unix socket of the daemon")
}

func (a *agentCommands) devicesCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "devices", Short: "Show this machine's GPUs, their health and the containers that use them", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			client := socket.NewDaemonClient(path)
			defer client.Close()
			devices, err := client.ListDevices(c.Context())
			if err != nil {
				return err
			}
			if a.ForPrograms {
				return a.PrintJSON(devices)
			}
			return a.PrintRows("MINOR\tTYPE\tHEALTH\tUSED\tMEMORY\tSHARED\tHOLDERS\tUUID\tREASON", len(devices), func(i int) string {
				d := devices[i]
				return strings.Join([]string{
					minorNumber(d.Device), deviceType(d.Device), deviceState(d),
					formatSample(d, gpu.DutyRatio, 100, "%"),
					formatSample(d, gpu.MemUsedBytes, 1.0/(1<<20), " MiB"), formatShares(d),
					term.DashIfEmpty(strings.Join(d.Holders, " ")), term.DashIfEmpty(d.Device.UUID), conditionReason(d.Condition),
				}, "\t")
			}, "SHARED", "MEMORY", "USED", "UUID", "TYPE", "HOLDERS")
		},
	}
	socketFlag(c, &path)
	a.AddOutputFlag(c)
	return c
}

// minorNumber returns the N of the device's node /dev/nvidiaN; "-" if it has none.
func minorNumber(d gpu.Device) string {
	if d.Minor < 0 {
		return "-"
	}
	return fmt.Sprint(d.Minor)
}

// deviceType returns the short name; "-" for a device that the driver cannot describe.
func deviceType(d gpu.Device) string {
	if d.Model == "" {
		return "-"
	}
	return d.Type()
}

// deviceState formats the device's health and other reasons why tasks do not get it.
func deviceState(d socket.DeviceInfo) string {
	words := []string{string(d.Condition.OfferedHealth())}
	if d.Condition.Cordoned {
		words = append(words, "cordoned")
	}
	if d.Condition.Holder != "" {
		words = append(words, "held")
	}
	if d.Stock {
		words = append(words, "stock")
	}
	return strings.Join(words, ",")
}

func formatSample(d socket.DeviceInfo, field gpu.SampleField, scale float64, unit string) string {
	if d.Sample == nil {
		return "-"
	}
	v, ok := d.Sample.Values[field]
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.0f%s", v*scale, unit)
}

func conditionReason(c gpu.DeviceCondition) string {
	var parts []string
	if c.Reason != "" {
		parts = append(parts, c.Reason)
	}
	if c.Cordoned {
		parts = append(parts, "cordoned: "+c.Cordon)
	}
	if c.Holder != "" {
		parts = append(parts, c.Holder)
	}
	if c.NoDriver != "" {
		parts = append(parts, c.NoDriver)
	}
	return term.DashIfEmpty(strings.Join(parts, "; "))
}

func (a *agentCommands) cordonCommand() *cobra.Command {
	var path, why string
	c := &cobra.Command{
		Use: "cordon DEVICE", Short: "Exclude a GPU from new tasks; running tasks continue", Args: cli.RequireArgs("DEVICE"),
		RunE: func(c *cobra.Command, names []string) error {
			return a.changeDevice(c.Context(), path, names[0], func(client *socket.DaemonClient, uuid string) (string, error) {
				return "cordoned", client.CordonDevice(c.Context(), uuid, why)
			})
		},
	}
	socketFlag(c, &path)
	c.Flags().StringVar(&why, "reason", "by hand", "reason, shown to users and operators")
	return c
}

func (a *agentCommands) uncordonCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "uncordon DEVICE", Short: "Make a GPU available again, also after a fault", Args: cli.RequireArgs("DEVICE"),
		RunE: func(c *cobra.Command, names []string) error {
			return a.changeDevice(c.Context(), path, names[0], func(client *socket.DaemonClient, uuid string) (string, error) {
				return "uncordoned", client.UncordonDevice(c.Context(), uuid)
			})
		},
	}
	socketFlag(c, &path)
	return c
}

// changeDevice applies do to the device that name refers to and prints the result.
func (a *agentCommands) changeDevice(ctx context.Context, path, name string, do func(*socket.DaemonClient, string) (done string, err error)) error {
	client := socket.NewDaemonClient(path)
	defer client.Close()
	list, err := client.ListDevices(ctx)
	if err != nil {
		return err
	}
	devices := make([]gpu.Device, len(list))
	for i, d := range list {
		devices[i] = d.Device
	}
	uuid, err := resolveDevice(devices, name)
	if err != nil {
		return err
	}
	done, err := do(client, uuid)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s %s\n", uuid, done)
	return nil
}
