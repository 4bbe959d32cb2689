package volumes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/volumemgr"
)

// volumeFlags are the flags that the volume commands share.
type volumeFlags struct{ dir, root string }

func (f *volumeFlags) addRootFlag(c *cobra.Command) {
	c.Flags().StringVar(&f.root, "driver-root", "/", "root of the file system with the driver")
}

// driverSearch returns the search for the driver in a root file system. It includes
// PATH only for the root of this machine, which PATH refers to.
func (a *volumeCommands) driverSearch(root string) volumemgr.DriverSearch {
	s := volumemgr.DriverSearch{Root: root, Warn: func(path string, reason error) {
		fmt.Fprintln(a.Stderr, term.EscapeControls(fmt.Sprintf("left out: %s: %v", path, reason)))
	}}
	if root == "/" {
		s.Path = a.Getenv("PATH")
	}
	return s
}

func (a *volumeCommands) volumeCommand() *cobra.Command {
	var f volumeFlags
	c := &cobra.Command{
		Use: "volume", Short: "Create, check and share driver volumes", Args: cli.RejectUnknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&f.dir, "dir", "/var/lib/mesos-gpu/volumes", "folder with the volumes")
	c.AddCommand(a.volumeCreate(&f), a.volumeList(&f), a.volumeInspect(&f), a.volumeVerify(&f), a.volumeGC(&f), a.volumeCDI(&f), a.volumePlugin(&f))
	return c
}

func (a *volumeCommands) volumeCreate(f *volumeFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "create", Short: "Create the volume of this machine's driver if it does not exist", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			driver, err := a.driverSearch(f.root).Find()
			if errors.Is(err, volumemgr.ErrNoDriver) {
				return fmt.Errorf("%w: install the driver, or name the root of its file system by --driver-root", err)
			}
			volume, err := a.createVolume(c.Context(), f.dir, driver, err)
			if err != nil {
				return err
			}
			if a.ForPrograms {
				return a.PrintJSON(volume)
			}
			fmt.Fprintf(a.Stdout, "%s\t%d files\t%s\n", volume.Name, volume.Files, volume.Path)
			return nil
		},
	}
	f.addRootFlag(c)
	a.AddOutputFlag(c)
	return c
}

// createVolume creates the volume of a driver. If findErr says that its libraries are not
// installed any more, it returns the volume that exists.
func (a *volumeCommands) createVolume(ctx context.Context, dir string, driver volumemgr.InstalledDriver, findErr error) (volumemgr.DriverVolume, error) {
	if findErr != nil {
		volume, err := volumemgr.Store{Dir: dir}.ExistingVolume(findErr)
		if err == nil {
			fmt.Fprintln(a.Stderr, term.EscapeControls(fmt.Sprintf("the existing volume is used as it is: %v", findErr)))
		}
		return volume, err
	}
	var total int64
	for _, file := range driver.Files {
		total += file.Size
	}
	progress, done := a.StartProgress("copying", total)
	defer done()
	return volumemgr.Store{Dir: dir, Progress: progress}.Create(ctx, driver)
}

func (a *volumeCommands) volumeList(f *volumeFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the volumes", Args: cli.RequireArgs(),
		RunE: func(*cobra.Command, []string) error {
			volumes, err := volumemgr.Store{Dir: f.dir}.List()
			if err != nil {
				return err
			}
			if a.ForPrograms {
				return a.PrintJSON(append([]volumemgr.DriverVolume{}, volumes...))
			}
			return a.PrintRows("NAME\tFILES\tSIZE\tPATH", len(volumes), func(i int) string {
				v := volumes[i]
				return fmt.Sprintf("%s\t%d\t%s\t%s", v.Name, v.Files, term.FormatMiB(v.Bytes), v.Path)
			})
		},
	}
	a.AddOutputFlag(c)
	return c
}

func (a *volumeCommands) volumeInspect(f *volumeFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "inspect NAME", Short: "Show a volume's files, their purpose and their origin", Args: cli.RequireArgs("a volume's name"),
		RunE: func(_ *cobra.Command, got []string) error {
			m, err := volumemgr.Store{Dir: f.dir}.Inspect(got[0])
			if err != nil {
				return err
			}
			if a.ForPrograms {
				return a.PrintJSON(m)
			}
			err = a.PrintRows("FILE\tFOR\tSIZE\tHOW\tSHA256\tLINKS", len(m.Files), func(i int) string {
				e := m.Files[i]
				return strings.Join([]string{
					e.Path, term.DashIfEmpty(string(e.Capability)), term.FormatMiB(e.Size), string(e.How),
					term.DashIfEmpty(fmt.Sprintf("%.12s", e.SHA256)), term.DashIfEmpty(strings.Join(e.Links, " ")),
				}, "\t")
			}, "SHA256", "LINKS", "HOW")
			if err != nil || len(m.HostFiles) == 0 {
				return err
			}
			fmt.Fprintln(a.Stdout)
			return a.PrintRows("ON THE HOST\tFOR\tSIZE", len(m.HostFiles), func(i int) string {
				h := m.HostFiles[i]
				return fmt.Sprintf("%s\t%s\t%s", h.Path, h.Capability, term.FormatMiB(h.Size))
			})
		},
	}
	a.AddOutputFlag(c)
	return c
}

// verifiedVolume is the result of verify for one volume.
type verifiedVolume struct {
	volumemgr.DriverVolume
	Damage []volumemgr.FileDamage `json:"damage"`
}

func (a *volumeCommands) volumeVerify(f *volumeFlags) *cobra.Command {
	var repair bool
	c := &cobra.Command{
		Use: "verify [NAME...]", Short: "Check that tasks can use the volumes, and compare their files with the manifests",
		RunE: func(c *cobra.Command, names []string) error {
			if repair {
				if err := a.repairVolume(c, f); err != nil {
					return err
				}
			}
			volumes, err := findVolumes(f.dir, names)
			if err != nil {
				return err
			}
			results := []verifiedVolume{}
			damaged := 0
			for _, v := range volumes {
				progress, done := a.StartProgress("reading "+v.Name, v.Bytes)
				damage, err := volumemgr.Store{Dir: f.dir, Progress: progress}.Verify(c.Context(), v.Name)
				done()
				if err != nil {
					return err
				}
				results = append(results, verifiedVolume{v, damage})
				damaged += min(1, len(damage))
			}
			if err := a.printVerified(results); err != nil {
				return err
			}
			if damaged > 0 {
				return fmt.Errorf("%d of %d volumes are damaged; --repair repairs the volume of the running driver", damaged, len(volumes))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "first replace damaged files by the driver's own")
	f.addRootFlag(c)
	a.AddOutputFlag(c)
	return c
}

func (a *volumeCommands) repairVolume(c *cobra.Command, f *volumeFlags) error {
	damage, err := RepairDriverVolume(c.Context(), a.driverSearch(f.root), f.dir)
	for _, d := range damage {
		fmt.Fprintln(a.Stderr, term.EscapeControls("repair: "+d))
	}
	return err
}

// RepairDriverVolume repairs the volume of the installed driver and returns the damage
// that it found.
func RepairDriverVolume(ctx context.Context, s volumemgr.DriverSearch, dir string) ([]string, error) {
	damage, err := volumemgr.RepairVolume(ctx, s, volumemgr.Store{Dir: dir})
	var told []string
	for _, d := range damage {
		told = append(told, d.String())
	}
	return told, err
}

// findVolumes returns the named volumes, or all volumes if names is empty. It returns
// ErrNoVolume, wrapped, for an unknown name.
func findVolumes(dir string, names []string) ([]volumemgr.DriverVolume, error) {
	all, err := volumemgr.Store{Dir: dir}.List()
	if err != nil || len(names) == 0 {
		return all, err
	}
	byName := map[string]volumemgr.DriverVolume{}
	for _, v := range all {
		byName[v.Name] = v
	}
	var found []volumemgr.DriverVolume
	for _, name := range names {
		v, ok := byName[name]
		if !ok {
			return nil, fmt.Errorf("find volume %s in %s: %w", name, dir, volumemgr.ErrNoVolume)
		}
		found = append(found, v)
	}
	return found, nil
}

func (a *volumeCommands) printVerified(results []verifiedVolume) error {
	if a.ForPrograms {
		return a.PrintJSON(results)
	}
	for _, r := range results {
		state := "whole"
		if len(r.Damage) > 0 {
			state = fmt.Sprintf("damaged, %d faults", len(r.Damage))
		}
		fmt.Fprintf(a.Stdout, "%s\t%d files\t%s\n", r.Name, r.Files, state)
		for _, d := range r.Damage {
			fmt.Fprintln(a.Stdout, term.EscapeControls("  "+d.String()))
		}
	}
	return nil
}
