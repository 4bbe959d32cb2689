package volumes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/volumemgr"
)

func (a *volumeCommands) volumeGC(f *volumeFlags) *cobra.Command {
	gc := volumemgr.CollectOptions{}
	noDocker := false
	c := &cobra.Command{
		Use: "gc", Short: "Remove volumes that no container mounts, except that of the running driver", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			driver, err := a.driverSearch(f.root).Find()
			switch {
			case err == nil:
				gc.Keep = []string{driver.Version}
			case !errors.Is(err, volumemgr.ErrNoDriver):
				return err
			}
			if !noDocker {
				gc.Users = func(ctx context.Context) ([]string, error) { return listDockerMounts(ctx, f.dir) }
			}
			removed, kept, err := volumemgr.Store{Dir: f.dir}.Collect(c.Context(), gc)
			if printErr := a.printCollected(removed, kept, gc.DryRun); err == nil {
				err = printErr
			}
			return err
		},
	}
	c.Flags().BoolVar(&gc.DryRun, "dry-run", false, "only print what would be removed")
	c.Flags().BoolVar(&noDocker, "no-docker", false, "do not keep volumes of stopped Docker containers; the engine is not queried")
	f.addRootFlag(c)
	a.AddOutputFlag(c)
	return c
}

func (a *volumeCommands) printCollected(removed []volumemgr.DriverVolume, kept []volumemgr.KeptVolume, dry bool) error {
	if a.ForPrograms {
		return a.PrintJSON(struct {
			Removed []volumemgr.DriverVolume `json:"removed"`
			Kept    []volumemgr.KeptVolume   `json:"kept"`
		}{append([]volumemgr.DriverVolume{}, removed...), append([]volumemgr.KeptVolume{}, kept...)})
	}
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	for _, v := range removed {
		fmt.Fprintf(a.Stdout, "%s %s (%s)\n", verb, v.Name, term.FormatMiB(v.Bytes))
	}
	for _, k := range kept {
		fmt.Fprintln(a.Stdout, term.EscapeControls(fmt.Sprintf("kept %s: it %s", k.Name, k.Why)))
	}
	return nil
}

// listDockerMounts returns the paths that Docker containers mount, including stopped
// containers, and the devices of local volumes. It returns none if the machine has no
// Docker engine.
func listDockerMounts(ctx context.Context, dir string) ([]string, error) {
	engine, err := cli.NewDockerClient()
	if err != nil {
		return nil, fmt.Errorf("ask the Docker engine: %w", err)
	}
	defer engine.Close()
	containers, err := engine.ContainerList(ctx, container.ListOptions{All: true})
	if client.IsErrConnectionFailed(err) && engine.DaemonHost() == client.DefaultDockerHost && len(cli.GlobPaths("/var/run/docker.sock")) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the Docker engine for its containers: %w; --no-docker goes without", err)
	}
	volumes, err := engine.VolumeList(ctx, volume.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask the Docker engine for its volumes: %w; --no-docker goes without", err)
	}
	var users []string
	for _, c := range containers {
		for _, m := range c.Mounts {
			users = append(users, m.Source)
			if m.Name != "" { // volumes of the plugin have another Source
				users = append(users, filepath.Join(dir, m.Name))
			}
		}
	}
	for _, v := range volumes.Volumes {
		if device := v.Options["device"]; device != "" {
			users = append(users, device)
		}
	}
	return users, nil
}
