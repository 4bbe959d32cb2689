package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/volumemgr"
)

// volumeFlags are what the volume commands share.
type volumeFlags struct{ dir, root string }

func (f *volumeFlags) rootFlag(c *cobra.Command) {
	c.Flags().StringVar(&f.root, "driver-root", "/", "file system that holds the driver")
}

// search looks on PATH as well where it means folders of that file system.
func (a *app) search(root string) volumemgr.Search {
	s := volumemgr.Search{Root: root}
	if root == "/" {
		s.Path = a.getenv("PATH")
	}
	return s
}

func (a *app) volumeCommand() *cobra.Command {
	var f volumeFlags
	c := &cobra.Command{
		Use: "volume", Short: "Make, check and share driver volumes", Args: knownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&f.dir, "dir", "/var/lib/mesos-gpu/volumes", "folder that holds the volumes")
	c.AddCommand(a.volumeCreate(&f), a.volumeList(&f), a.volumeInspect(&f), a.volumeVerify(&f), a.volumeGC(&f), a.volumeCDI(&f), a.volumePlugin(&f))
	return c
}

func (a *app) volumeCreate(f *volumeFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "create", Short: "Make the volume of this machine's driver, unless it is there", Args: args(),
		RunE: func(c *cobra.Command, _ []string) error {
			driver, err := a.search(f.root).Find()
			if err != nil {
				return err
			}
			var total int64
			for _, file := range driver.Files {
				total += file.Size
			}
			progress, done := a.progress("copying", total)
			volume, err := volumemgr.Store{Dir: f.dir, Progress: progress}.Create(c.Context(), driver)
			done()
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
	f.rootFlag(c)
	a.outputFlag(c)
	return c
}

func (a *app) volumeList(f *volumeFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the volumes", Args: args(),
		RunE: func(*cobra.Command, []string) error {
			volumes, err := volumemgr.Store{Dir: f.dir}.List()
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(append([]volumemgr.Volume{}, volumes...))
			}
			return a.table("NAME\tFILES\tSIZE\tPATH", len(volumes), func(i int) string {
				v := volumes[i]
				return fmt.Sprintf("%s\t%d\t%s\t%s", v.Name, v.Files, mib(v.Bytes), v.Path)
			})
		},
	}
	a.outputFlag(c)
	return c
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

func (a *app) volumeInspect(f *volumeFlags) *cobra.Command {
	c := &cobra.Command{
		Use: "inspect NAME", Short: "Show a volume's files, what they are for and how they came in", Args: args("a volume's name"),
		RunE: func(_ *cobra.Command, got []string) error {
			m, err := volumemgr.Store{Dir: f.dir}.Inspect(got[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(m)
			}
			err = a.table("FILE\tFOR\tSIZE\tHOW\tSHA256\tLINKS", len(m.Files), func(i int) string {
				e := m.Files[i]
				return strings.Join([]string{
					e.Path, orDash(string(e.Capability)), mib(e.Size), string(e.How), orDash(fmt.Sprintf("%.12s", e.SHA256)), orDash(strings.Join(e.Links, " ")),
				}, "\t")
			}, "SHA256", "LINKS", "HOW")
			if err != nil || len(m.HostFiles) == 0 {
				return err
			}
			fmt.Fprintln(a.out)
			return a.table("ON THE HOST\tFOR\tSIZE", len(m.HostFiles), func(i int) string {
				h := m.HostFiles[i]
				return fmt.Sprintf("%s\t%s\t%s", h.Path, h.Capability, mib(h.Size))
			})
		},
	}
	a.outputFlag(c)
	return c
}

// verified is what verify tells about one volume.
type verified struct {
	volumemgr.Volume
	Damage []volumemgr.Damage `json:"damage"`
}

func (a *app) volumeVerify(f *volumeFlags) *cobra.Command {
	var repair bool
	c := &cobra.Command{
		Use: "verify [NAME...]", Short: "Read the volumes' files and compare them with the manifests",
		RunE: func(c *cobra.Command, names []string) error {
			if repair {
				if err := a.repair(c, f); err != nil {
					return err
				}
			}
			volumes, err := named(f.dir, names)
			if err != nil {
				return err
			}
			results := []verified{}
			damaged := 0
			for _, v := range volumes {
				progress, done := a.progress("reading "+v.Name, v.Bytes)
				damage, err := volumemgr.Store{Dir: f.dir, Progress: progress}.Verify(c.Context(), v.Name)
				done()
				if err != nil {
					return err
				}
				results = append(results, verified{v, damage})
				damaged += min(1, len(damage))
			}
			if err := a.printVerified(results); err != nil {
				return err
			}
			if damaged > 0 {
				return fmt.Errorf("%d of %d volumes are damaged; --repair mends the running driver's", damaged, len(volumes))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "first put the driver's own files in place of damaged ones")
	f.rootFlag(c)
	a.outputFlag(c)
	return c
}

func (a *app) repair(c *cobra.Command, f *volumeFlags) error {
	damage, err := mend(c.Context(), a.search(f.root), f.dir)
	for _, d := range damage {
		fmt.Fprintln(a.err, printable("repair: "+d))
	}
	return err
}

// mend repairs the volume of the driver that is found, and tells what was
// damaged.
func mend(ctx context.Context, s volumemgr.Search, dir string) ([]string, error) {
	driver, err := s.Find()
	if err != nil {
		return nil, err
	}
	_, damage, err := volumemgr.Store{Dir: dir}.Repair(ctx, driver)
	var told []string
	for _, d := range damage {
		told = append(told, d.String())
	}
	return told, err
}

// named finds volumes, all where none is named.
func named(dir string, names []string) ([]volumemgr.Volume, error) {
	all, err := volumemgr.Store{Dir: dir}.List()
	if err != nil || len(names) == 0 {
		return all, err
	}
	byName := map[string]volumemgr.Volume{}
	for _, v := range all {
		byName[v.Name] = v
	}
	var found []volumemgr.Volume
	for _, name := range names {
		v, ok := byName[name]
		if !ok {
			return nil, fmt.Errorf("find volume %s in %s: %w", name, dir, volumemgr.ErrNoVolume)
		}
		found = append(found, v)
	}
	return found, nil
}

func (a *app) printVerified(results []verified) error {
	if a.json {
		return a.printJSON(results)
	}
	for _, r := range results {
		state := "whole"
		if len(r.Damage) > 0 {
			state = fmt.Sprintf("damaged, %d faults", len(r.Damage))
		}
		fmt.Fprintf(a.out, "%s\t%d files\t%s\n", r.Name, r.Files, state)
		for _, d := range r.Damage {
			fmt.Fprintln(a.out, printable("  "+d.String()))
		}
	}
	return nil
}
