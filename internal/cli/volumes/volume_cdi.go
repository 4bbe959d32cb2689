package volumes

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/isolator/rules"
	"mesos-gpu/volumemgr"
	"mesos-gpu/volumemgr/cdi"
	"mesos-gpu/volumemgr/plugin"
)

func (a *volumeCommands) volumeCDI(f *volumeFlags) *cobra.Command {
	var simulate, dev, output, capabilities string
	c := &cobra.Command{
		Use: "cdi", Short: "Write a CDI specification of the volume and the GPUs, for podman, containerd and docker --device", Args: cli.RequireArgs(),
		Long: `Write a Container Device Interface (CDI) specification of the driver volume and
of this machine's GPUs, and create the volume if it does not exist. Container
runtimes read the file from /etc/cdi or /var/run/cdi:

  mesos-gpu volume cdi --output /etc/cdi/mesos-gpu.json
  podman run --device nvidia.com/gpu=0 …`,
		RunE: func(c *cobra.Command, _ []string) error {
			in := cdi.SpecInput{}
			if capabilities != "" {
				wanted, err := volumemgr.ParseCapabilities(capabilities)
				if err != nil {
					return &cli.UsageError{Err: fmt.Errorf("--capabilities: %w", err)}
				}
				in.Capabilities = wanted
			}
			host, err := cli.DiscoverHost(simulate)
			if err != nil {
				return err
			}
			in.Devices, in.Common = cdiDevices(host, dev, cli.GlobPaths)
			in.Sockets = cdiSockets(f.root, cli.GlobPaths)
			if in.Volume, in.Manifest, err = a.ensureVolume(c, f); err != nil {
				return err
			}
			spec, err := cdi.BuildSpec(in)
			if err != nil {
				return err
			}
			if output == "" {
				return a.PrintJSON(spec)
			}
			return cdi.WriteSpec(output, spec)
		},
	}
	c.Flags().StringVar(&simulate, "simulate", "", "simulated GPUs such as 2xV100 instead of this machine's")
	c.Flags().StringVar(&dev, "dev", "/dev", "folder with the GPUs' device nodes")
	c.Flags().StringVar(&output, "output", "", "write to this file, which must end in .json, instead of standard output")
	c.Flags().StringVar(&capabilities, "capabilities", "", "only the files for these, such as compute,utility; empty: the whole volume")
	f.addRootFlag(c)
	return c
}

// ensureVolume creates or completes the driver's volume and reads its manifest.
func (a *volumeCommands) ensureVolume(c *cobra.Command, f *volumeFlags) (volumemgr.DriverVolume, volumemgr.Manifest, error) {
	store := volumemgr.Store{Dir: f.dir}
	volume, err := volumemgr.EnsureVolume(c.Context(), a.driverSearch(f.root), store)
	if err != nil {
		return volumemgr.DriverVolume{}, volumemgr.Manifest{}, err
	}
	if volume.Path, err = filepath.Abs(volume.Path); err != nil {
		return volumemgr.DriverVolume{}, volumemgr.Manifest{}, err
	}
	manifest, err := store.Inspect(volume.Name)
	return volume, manifest, err
}

// cdiDevices returns a CDI device for each GPU, named by its index and its UUID, and
// the control nodes that exist. Optional nodes such as nvidia-modeset may be absent.
func cdiDevices(h gpu.Host, dev string, there func(pattern string) []string) (devices []cdi.SpecDevice, common []cdi.SpecNode) {
	majors := rules.MajorNumbers{UVM: 1, Caps: 2} // the paths do not depend on them
	node := func(name string) cdi.SpecNode {
		return cdi.SpecNode{Path: "/dev/" + name, Host: filepath.Join(dev, name)}
	}
	for i, d := range h.Devices {
		device := cdi.SpecDevice{Names: []string{fmt.Sprint(i), d.UUID}}
		for _, n := range rules.HostNodes(h.WithDevices([]gpu.Device{d}), majors) {
			if n.UUID != "" {
				device.Nodes = append(device.Nodes, node(n.Name))
			}
		}
		if !h.Simulated && d.MIG == nil { // MIG devices do not support graphics
			for _, name := range drmNodes(d.PCI, there) {
				device.GraphicsNodes = append(device.GraphicsNodes, node(name))
			}
		}
		devices = append(devices, device)
	}
	for _, n := range rules.HostNodes(h, majors) {
		if n.UUID == "" && len(there(node(n.Name).Host)) > 0 {
			common = append(common, node(n.Name))
		}
	}
	return devices, common
}

// drmNodes returns the names below /dev of a GPU's DRM (Direct Rendering Manager)
// nodes, which the kernel lists by PCI address.
func drmNodes(pci string, there func(pattern string) []string) []string {
	var names []string
	for _, kind := range []string{"card", "renderD"} {
		for _, path := range there(filepath.Join("/sys/bus/pci/devices", pci, "drm", kind+"[0-9]*")) {
			names = append(names, filepath.Join("dri", filepath.Base(path)))
		}
	}
	return names
}

// cdiSockets returns the sockets that the driver's daemons listen on now.
func cdiSockets(root string, there func(pattern string) []string) []cdi.SpecNode {
	var sockets []cdi.SpecNode
	for _, path := range []string{"/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket"} {
		for _, host := range there(filepath.Join(root, path)) {
			sockets = append(sockets, cdi.SpecNode{Path: path, Host: host})
		}
	}
	return sockets
}

func (a *volumeCommands) volumePlugin(f *volumeFlags) *cobra.Command {
	cfg := plugin.PluginConfig{}
	var level string
	c := &cobra.Command{
		Use: "plugin", Short: "Run the Docker volume plugin mesos-gpu", Args: cli.RequireArgs(),
		Long: `Serve the driver volumes to the Docker engine:

  docker volume create -d mesos-gpu --name nvidia_535.104.05
  docker run --volume-driver mesos-gpu -v nvidia_535.104.05:/usr/local/nvidia …

Containers always get them read-only.`,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := a.NewLogger(level)
			if err != nil {
				return err
			}
			cfg.Log, cfg.Store, cfg.Find = log, volumemgr.Store{Dir: f.dir}, a.driverSearch(f.root).Find
			cfg.Ready = func() { fmt.Fprintf(a.Stdout, "volume plugin is up: %s\n", cfg.Socket) }
			return plugin.Run(c.Context(), cfg)
		},
	}
	c.Flags().StringVar(&cfg.Socket, "socket", plugin.DefaultSocket, "Unix socket of the plugin; the engine uses its file name as the plugin's name")
	c.Flags().StringVar(&cfg.Mounts, "mounts", "/run/mesos-gpu/volumes", "folder for the read-only mounts that the engine uses")
	f.addRootFlag(c)
	cli.AddLogLevelFlag(c, &level)
	return c
}
