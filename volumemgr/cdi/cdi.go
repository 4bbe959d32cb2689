// Package cdi writes a driver volume and a machine's GPUs as a Container Device
// Interface specification, so that podman, containerd and Docker give containers
// the same files and devices as Mesos. It decides what a container sees. It does
// not search for devices or files, and writes only the specification.
package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/volumemgr"
)

// Kind is the part of a device's name before "=". It is NVIDIA's, so that commands
// written for NVIDIA's toolkit work.
const Kind = "nvidia.com/gpu"

// specVersion is the oldest version with all features used here, for old runtimes.
const specVersion = "0.5.0"

// containerRoot is the path of the volume in containers.
const containerRoot = "/usr/local/nvidia"

// SpecDevice is one GPU under its names: the index on the host and the UUID.
type SpecDevice struct {
	Names []string
	Nodes []SpecNode
	// GraphicsNodes are used for graphics and display only: /dev/dri/card1,
	// /dev/dri/renderD129.
	GraphicsNodes []SpecNode
}

// SpecNode is a device file or a socket.
type SpecNode struct {
	// Path is the path in the container, Host that on the host if it differs.
	Path, Host string
}

// SpecInput is the content of a specification.
type SpecInput struct {
	Volume volumemgr.DriverVolume
	// Manifest is the manifest of Volume.
	Manifest volumemgr.Manifest
	Devices  []SpecDevice
	// Common are nodes that each device needs: /dev/nvidiactl.
	Common []SpecNode
	// Sockets are the sockets of the driver's daemons, for utility.
	Sockets []SpecNode
	// Capabilities excludes files of other purposes, unless it is empty. Each
	// file is then mounted by itself.
	Capabilities []volumemgr.Capability
}

// BuildSpec describes each device, and "all" of them. The volume, the common nodes
// and the host files are part of every device.
func BuildSpec(in SpecInput) (specs.Spec, error) {
	if len(in.Devices) == 0 {
		return specs.Spec{}, errors.New("write CDI specification: this machine has no GPU to describe")
	}
	spec := specs.Spec{Version: specVersion, Kind: Kind, ContainerEdits: specs.ContainerEdits{
		DeviceNodes: specNodes(in.Common),
		Mounts:      slices.Concat(volumeMounts(in), hostMounts(in), socketMounts(in)),
		Env: []string{
			"LD_LIBRARY_PATH=" + containerRoot + "/lib:" + containerRoot + "/lib64",
			// The NVIDIA runtime, if it is installed, must not add GPUs.
			"NVIDIA_VISIBLE_DEVICES=void",
		},
	}}
	var all []SpecNode
	taken := map[string]bool{"all": true}
	for _, d := range in.Devices {
		own := d.Nodes
		if in.wantsAny(volumemgr.Graphics, volumemgr.Display) {
			own = slices.Concat(own, d.GraphicsNodes)
		}
		for _, name := range d.Names {
			if taken[name] {
				return specs.Spec{}, fmt.Errorf("write CDI specification: two devices named %q", name)
			}
			taken[name] = true
			spec.Devices = append(spec.Devices, specs.Device{Name: name, ContainerEdits: specs.ContainerEdits{DeviceNodes: specNodes(own)}})
		}
		for _, n := range own {
			if !slices.Contains(all, n) { // two MIG devices of one GPU share its node
				all = append(all, n)
			}
		}
	}
	spec.Devices = append(spec.Devices, specs.Device{Name: "all", ContainerEdits: specs.ContainerEdits{DeviceNodes: specNodes(all)}})
	return spec, nil
}

// wantsAny reports whether one of the capabilities is selected. If none is, all
// are.
func (in SpecInput) wantsAny(any ...volumemgr.Capability) bool {
	return len(in.Capabilities) == 0 || slices.ContainsFunc(any, func(c volumemgr.Capability) bool { return slices.Contains(in.Capabilities, c) })
}

func specNodes(list []SpecNode) []*specs.DeviceNode {
	var out []*specs.DeviceNode
	for _, n := range list {
		node := &specs.DeviceNode{Path: n.Path, Permissions: "rw"} // without mknod
		if n.Host != n.Path {
			node.HostPath = n.Host
		}
		out = append(out, node)
	}
	return out
}

// readOnlyMount is read-only because a file in the volume may be the host's own.
func readOnlyMount(from, to string) *specs.Mount {
	return &specs.Mount{HostPath: from, ContainerPath: to, Options: []string{"ro", "nosuid", "nodev", "rbind", "rprivate"}}
}

func volumeMounts(in SpecInput) []*specs.Mount {
	if len(in.Capabilities) == 0 {
		return []*specs.Mount{readOnlyMount(in.Volume.Path, containerRoot)}
	}
	var list []*specs.Mount
	for _, e := range in.Manifest.SelectFiles(in.Capabilities) {
		from, dir := filepath.Join(in.Volume.Path, e.Path), path.Join(containerRoot, path.Dir(e.Path))
		for _, name := range append([]string{path.Base(e.Path)}, e.Links...) {
			list = append(list, readOnlyMount(from, path.Join(dir, name)))
		}
	}
	return list
}

func hostMounts(in SpecInput) []*specs.Mount {
	var list []*specs.Mount
	for _, f := range in.Manifest.HostFiles {
		if in.wantsAny(f.Capability) {
			list = append(list, readOnlyMount(f.Source, f.Path))
		}
	}
	return list
}

func socketMounts(in SpecInput) []*specs.Mount {
	var list []*specs.Mount
	for _, s := range in.Sockets {
		if in.wantsAny(volumemgr.Utility) {
			list = append(list, readOnlyMount(s.Host, s.Path))
		}
	}
	return list
}

// WriteSpec writes the specification atomically, because runtimes watch its folder.
// The name must end in .json, or runtimes ignore it.
func WriteSpec(path string, spec specs.Spec) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write CDI specification: %w", err)
		}
	}()
	if !strings.HasSuffix(path, ".json") {
		return fmt.Errorf("%s does not end in .json, and no runtime would read it", path)
	}
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, append(text, '\n'), 0o644)
}
