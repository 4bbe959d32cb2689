package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	driver "mesos-gpu/executor/image"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/agent/image"
	"mesos-gpu/internal/local/agent/oci"
	"mesos-gpu/isolator"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/job"
)

// nestedLaunch is a request for a nested container.
type nestedLaunch struct {
	ids     []string
	command *mesos.CommandInfo
	info    *mesos.ContainerInfo
	// session runs the command inside the parent, in its file system and
	// environment, on the given console.
	session bool
	beside  *nestedContainer
	console *sessionConsole
	// The fields below describe the parent.
	parent  *container.RunningContainer
	sandbox string
	grant   isolator.DeviceGrant
	// executor is the executor's id, and fetchHosts are its hosts.
	executor   string
	fetchHosts job.FetchHosts
}

// makeNested starts a nested container. It also returns the command, which
// sessions in that container inherit.
func (a *EmbeddedAgent) makeNested(ctx context.Context, l nestedLaunch) (*container.RunningContainer, container.Command, error) {
	s, err := a.nestedSpec(ctx, l)
	if err != nil {
		return nil, s.Command, err
	}
	if s.OCI == nil { // a process in the agent's own file system
		if err := openRunsTo(filepath.Dir(l.sandbox), s.Command.User); err != nil {
			return nil, s.Command, err
		}
	}
	if l.beside == nil {
		out, err := prepareSandbox(ctx, l.sandbox, nestedFolder(l.ids), s.Command.User, l.command.GetURIs(), l.fetchHosts)
		if err != nil {
			return nil, s.Command, err
		}
		defer out.close()
		s.Stdout, s.Stderr = out.stdout, out.stderr
		if s.OCI == nil {
			if err := a.shortenPath(&s, l); err != nil {
				return nil, s.Command, err
			}
		}
	}
	box, err := a.engine.Launch(ctx, s)
	if errors.As(err, new(container.OverlayError)) {
		a.cfg.Log.WithError(err).Warn("no copy-on-write here; unpacking the image again")
		box, err = a.launchCopy(ctx, s, l.info.GetMesos().GetImage().GetDocker().GetName())
	}
	return box, s.Command, err
}

// nestedSpec returns the spec of a nested container. Only that of a session has
// the files of its standard streams.
func (a *EmbeddedAgent) nestedSpec(ctx context.Context, l nestedLaunch) (container.LaunchSpec, error) {
	if l.beside != nil {
		return a.sessionSpec(l)
	}
	image, err := a.checkContainer(l.info)
	switch {
	case err != nil:
		return container.LaunchSpec{}, err
	case image != "":
		return a.imageSpec(ctx, l, image)
	}
	command, err := a.processOf(l)
	return container.LaunchSpec{ID: l.ids, Join: l.parent, Command: command}, err
}

// processOf returns a command that runs in its parent's file system.
func (a *EmbeddedAgent) processOf(l nestedLaunch) (c container.Command, err error) {
	if l.command == nil {
		return c, errors.New("a container without image needs a command")
	}
	if c.Args, err = oci.CommandArgs(l.command); err != nil {
		return c, err
	}
	own, err := oci.CommandEnv(l.command)
	if err != nil {
		return c, err
	}
	if c.User, err = a.resolveUser(l.command.GetUser()); err != nil {
		return c, err
	}
	if c.Rlimits, err = rlimitsOf(l.info.GetRlimitInfo()); err != nil {
		return c, err
	}
	c.Path, c.Dir = c.Args[0], filepath.Join(l.sandbox, nestedFolder(l.ids))
	c.Env = oci.MergeEnv([]string{"MESOS_SANDBOX=" + c.Dir}, own)
	return c, nil
}

// imageSpec returns the spec of a command that runc runs in an image, and writes
// its bundle.
func (a *EmbeddedAgent) imageSpec(ctx context.Context, l nestedLaunch, name string) (s container.LaunchSpec, err error) {
	if !a.cfg.Root {
		return s, fmt.Errorf("image %s: containers with images need an agent that runs as root and isolates", name)
	}
	runc, err := exec.LookPath(a.cfg.runc)
	if err != nil {
		return s, fmt.Errorf("containers with images need runc: install it (apt-get install runc): %w", err)
	}
	img, err := a.images.Get(ctx, name)
	if err != nil {
		return s, err
	}
	c, err := a.describeImage(ctx, l, img)
	if err != nil {
		return s, err
	}
	bundle := a.runDir(l.ids)
	s = container.LaunchSpec{
		ID: l.ids, Command: container.Command{Env: c.Env, Dir: c.Dir, User: &c.User},
		OCI: &container.RuncBundle{
			Runc: runc, State: filepath.Join(bundle, "state"), Bundle: bundle, ID: "c",
			Lower: img.Rootfs, Upper: filepath.Join(bundle, "upper"), Work: filepath.Join(bundle, "work"),
		},
	}
	return s, writeBundle(s.OCI, c)
}

// launchCopy gives the container its own copy of the root file system, because
// overlay is not available.
func (a *EmbeddedAgent) launchCopy(ctx context.Context, s container.LaunchSpec, name string) (*container.RunningContainer, error) {
	if err := a.images.UnpackInto(ctx, name, filepath.Join(s.OCI.Bundle, "rootfs")); err != nil {
		return nil, err
	}
	plain := *s.OCI
	plain.Lower = ""
	s.OCI = &plain
	return a.engine.Launch(ctx, s)
}

// writeBundle creates the folders and the config.json for runc.
func writeBundle(o *container.RuncBundle, c oci.ContainerSpec) error {
	if err := os.MkdirAll(o.Bundle, 0o700); err != nil {
		return fmt.Errorf("make bundle: %w", err)
	}
	for _, dir := range []string{filepath.Join(o.Bundle, "rootfs"), o.Upper, o.Work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make bundle: %w", err)
		}
	}
	config, err := json.Marshal(oci.BuildSpec(c))
	if err != nil {
		return fmt.Errorf("make bundle: %w", err)
	}
	if err := os.WriteFile(filepath.Join(o.Bundle, "config.json"), config, 0o600); err != nil {
		return fmt.Errorf("make bundle: %w", err)
	}
	return nil
}

// describeImage merges the image's configuration with the command's.
func (a *EmbeddedAgent) describeImage(ctx context.Context, l nestedLaunch, img image.UnpackedImage) (oci.ContainerSpec, error) {
	args, err := oci.ImageArgs(l.command, img.Config)
	if err != nil {
		return oci.ContainerSpec{}, fmt.Errorf("image %s: %w", img.Name, err)
	}
	own, err := oci.CommandEnv(l.command)
	if err != nil {
		return oci.ContainerSpec{}, err
	}
	who := l.command.GetUser()
	if who == "" {
		who = img.Config.User
	}
	user, err := image.LookupUser(img.Rootfs, who)
	if err != nil {
		return oci.ContainerSpec{}, fmt.Errorf("image %s: %w", img.Name, err)
	}
	binds, err := a.bindMounts(l)
	if err != nil {
		return oci.ContainerSpec{}, err
	}
	rlimits, err := rlimitsOf(l.info.GetRlimitInfo())
	if err != nil {
		return oci.ContainerSpec{}, err
	}
	env := [][]string{img.Config.Env, {"MESOS_SANDBOX=" + oci.Sandbox}}
	ask, err := driver.Examine(img.Config.Labels, img.Config.Env, parseVariables(own), a.driverFor(l.grant))
	if err != nil && len(l.grant.Nodes) > 0 {
		return oci.ContainerSpec{}, fmt.Errorf("image %s: %w", img.Name, err)
	}
	if err == nil && ask.NeedsDriver() {
		if a.cfg.Volume == nil {
			return oci.ContainerSpec{}, fmt.Errorf("image %s needs the driver's files, and this agent has none", img.Name)
		}
		volume, err := a.cfg.Volume(ctx)
		if err != nil {
			err = fmt.Errorf("image %s needs the driver's files: %w", img.Name, err)
			if len(l.grant.Nodes) > 0 && ctx.Err() == nil {
				err = errors.New(job.MarkMachineFault(err.Error(), job.NoDriver))
			}
			return oci.ContainerSpec{}, err
		}
		binds = append(binds, oci.BindMount{Host: volume, Path: oci.Driver, ReadOnly: true})
		for name, value := range containers.DriverFolders(parseVariables(img.Config.Env)) {
			env = append(env, []string{name + "=" + value})
		}
	}
	dir := img.Config.WorkingDir
	if dir == "" {
		dir = oci.Sandbox
	}
	return oci.ContainerSpec{
		Args: args, Env: oci.MergeEnv(append(env, own)...), Dir: dir, User: *user,
		Cgroup: a.engine.CgroupPath(l.ids) + "/.oci", Nodes: l.grant.Nodes, Rules: l.grant.Rules, Binds: binds,
		ShmMiB: l.info.GetLinuxInfo().GetSHMSize(), Rlimits: rlimits,
	}, nil
}

// driverFor returns the driver and the container's GPUs, against which image
// requirements are checked.
func (a *EmbeddedAgent) driverFor(g isolator.DeviceGrant) driver.HostDriver {
	known := a.cfg.Driver
	for _, d := range g.Devices {
		known.GPUs = append(known.GPUs, driver.HostGPU{Name: d.UUID, Arch: d.Arch, Brand: d.Brand})
	}
	return known
}

// parseVariables parses "NAME=value" entries into a map. The last entry of a
// name wins.
func parseVariables(entries []string) map[string]string {
	vars := map[string]string{}
	for _, e := range entries {
		if name, value, ok := strings.Cut(e, "="); ok {
			vars[name] = value
		}
	}
	return vars
}

// bindMounts returns the host paths that the container sees.
func (a *EmbeddedAgent) bindMounts(l nestedLaunch) ([]oci.BindMount, error) {
	list := []oci.BindMount{{Host: filepath.Join(l.sandbox, nestedFolder(l.ids)), Path: oci.Sandbox}}
	for _, file := range []string{"/etc/resolv.conf", "/etc/hosts", "/etc/hostname"} {
		if _, err := os.Stat(file); err == nil {
			list = append(list, oci.BindMount{Host: file, Path: file, ReadOnly: true})
		}
	}
	for _, v := range l.info.GetVolumes() {
		path := v.GetHostPath()
		if s := v.GetSource(); s.GetType() == mesos.Volume_Source_HOST_PATH { // the newer of two ways to say it
			path = s.GetHostPath().GetPath()
		}
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("volume at %s: this agent mounts absolute host paths only", v.ContainerPath)
		}
		target := v.ContainerPath
		if !filepath.IsAbs(target) {
			target = filepath.Join(oci.Sandbox, filepath.Join("/", target)) // in the sandbox, as in Mesos
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("volume at %s: %w", v.ContainerPath, err)
		}
		list = append(list, oci.BindMount{Host: path, Path: target, ReadOnly: v.GetMode() == mesos.RO})
	}
	return list, nil
}
