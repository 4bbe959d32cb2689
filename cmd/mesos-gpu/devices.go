package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/daemon"
	"mesos-gpu/isolator/socket"
)

func socketFlag(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "socket", daemon.DefaultSocket, "the daemon's unix socket")
}

func (a *app) devicesCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "devices", Short: "Show this machine's GPUs, how they are and who holds them", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			client := socket.NewClient(path)
			defer client.Close()
			devices, err := client.Devices(c.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(devices)
			}
			return a.table("MINOR\tTYPE\tHEALTH\tUSED\tMEMORY\tSHARED\tHOLDERS\tUUID\tREASON", len(devices), func(i int) string {
				d := devices[i]
				return strings.Join([]string{
					fmt.Sprint(d.Device.Minor), d.Device.Type(), state(d), measured(d, gpu.DutyRatio, 100, "%"), measured(d, gpu.MemUsedBytes, 1.0/(1<<20), " MiB"), parts(d),
					orDash(strings.Join(d.Holders, " ")), d.Device.UUID, reason(d.Condition),
				}, "\t")
			}, "SHARED", "MEMORY", "USED", "UUID", "TYPE", "HOLDERS")
		},
	}
	socketFlag(c, &path)
	a.outputFlag(c)
	return c
}

// state is the device's health and what else keeps it from tasks.
func state(d socket.Device) string {
	words := []string{string(d.Condition.Health)}
	if d.Condition.Cordoned {
		words = append(words, "cordoned")
	}
	if d.Stock {
		words = append(words, "stock")
	}
	return strings.Join(words, ",")
}

func measured(d socket.Device, field gpu.Field, scale float64, unit string) string {
	if d.Sample == nil {
		return "-"
	}
	v, ok := d.Sample.Values[field]
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%.0f%s", v*scale, unit)
}

func reason(c gpu.Condition) string {
	var parts []string
	if c.Reason != "" {
		parts = append(parts, c.Reason)
	}
	if c.Cordoned {
		parts = append(parts, "cordoned: "+c.Cordon)
	}
	return orDash(strings.Join(parts, "; "))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (a *app) cordonCommand() *cobra.Command {
	var path, why string
	c := &cobra.Command{
		Use: "cordon DEVICE", Short: "Keep a GPU from new tasks; those on it go on", Args: args("DEVICE"),
		RunE: func(c *cobra.Command, names []string) error {
			return a.onDevice(c.Context(), path, names[0], func(client *socket.Client, uuid string) (string, error) {
				return "cordoned", client.Cordon(c.Context(), uuid, why)
			})
		},
	}
	socketFlag(c, &path)
	c.Flags().StringVar(&why, "reason", "by hand", "what others are to know")
	return c
}

func (a *app) uncordonCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "uncordon DEVICE", Short: "Give a GPU to tasks again; after a fault, vouch for it", Args: args("DEVICE"),
		RunE: func(c *cobra.Command, names []string) error {
			return a.onDevice(c.Context(), path, names[0], func(client *socket.Client, uuid string) (string, error) {
				return "uncordoned", client.Uncordon(c.Context(), uuid)
			})
		},
	}
	socketFlag(c, &path)
	return c
}

// onDevice does something to the one device that name means, and says what.
func (a *app) onDevice(ctx context.Context, path, name string, do func(*socket.Client, string) (done string, err error)) error {
	client := socket.NewClient(path)
	defer client.Close()
	list, err := client.Devices(ctx)
	if err != nil {
		return err
	}
	devices := make([]gpu.Device, len(list))
	for i, d := range list {
		devices[i] = d.Device
	}
	uuid, err := find(devices, name)
	if err != nil {
		return err
	}
	done, err := do(client, uuid)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s %s\n", uuid, done)
	return nil
}
