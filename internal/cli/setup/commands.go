// Package setup has the commands that set up and check the machines of a cluster. It
// collects facts and writes files; internal/clustersetup decides.
package setup

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/clustersetup"
	"mesos-gpu/isolator/module"
)

type setupCommands struct{ *cli.App }

// Command returns "mesos-gpu cluster".
func Command(app *cli.App) *cobra.Command {
	a := &setupCommands{app}
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Set up and check the machines of a cluster on Apache Mesos",
		Args:  cli.RejectUnknownCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.checkCommand(), a.configCommand())
	return c
}

func (a *setupCommands) checkCommand() *cobra.Command {
	var roles []string
	var collect collector
	c := &cobra.Command{
		Use: "check", Short: "Report what is wrong with this machine's setup, and what corrects it", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			if len(roles) == 0 {
				roles = collect.findRoles()
			}
			if len(roles) == 0 {
				return fmt.Errorf("this machine has no configuration of a cluster: write it by mesos-gpu cluster config, or name its role by --role")
			}
			findings := clustersetup.Check(collect.collectFacts(c.Context(), roles))
			return a.printFindings(roles, findings)
		},
	}
	c.Flags().StringSliceVar(&roles, "role", nil, "roles of this machine: "+cli.JoinWithOr(clustersetup.Roles())+"; if not set, those with configuration files")
	c.Flags().StringVar(&collect.mesos, "mesos", "", "folder of Mesos, such as /usr/local; if not set, it is on PATH")
	c.Flags().StringVar(&collect.root, "root", "", "folder whose files are checked, instead of the machine's")
	a.AddOutputFlag(c)
	return c
}

// printFindings prints the findings. The exit status is 1 if one of them is an error.
func (a *setupCommands) printFindings(roles []string, findings []clustersetup.Finding) error {
	failed := 0
	for _, f := range findings {
		if f.Severity == clustersetup.Error {
			failed++
		}
	}
	if a.ForPrograms {
		if err := a.PrintJSON(append([]clustersetup.Finding{}, findings...)); err != nil {
			return err
		}
	} else {
		for _, f := range findings {
			fmt.Fprintf(a.Stdout, "%-8s %-14s %s\n%24sfix: %s\n", f.Severity, f.Check, f.Problem, "", f.Fix)
		}
		fmt.Fprintf(a.Stdout, "checked %s: %d %s, %d %s\n", strings.Join(roles, ", "), failed,
			gpu.Plural(failed, "error"), len(findings)-failed, gpu.Plural(len(findings)-failed, "warning"))
	}
	if failed > 0 {
		return &cli.ExitStatus{Code: 1}
	}
	return nil
}

type configFlags struct {
	clustersetup.ClusterConfig
	role, credentials, out string
	force                  bool
}

func (a *setupCommands) configCommand() *cobra.Command {
	var f configFlags
	c := &cobra.Command{
		Use: "config", Short: "Write the configuration of a machine with a role in a cluster", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			for _, required := range []string{"role", "ip", "masters"} {
				if !c.Flags().Changed(required) {
					return &cli.UsageError{Err: fmt.Errorf("%s: give --%s: see %s --help", cli.CommandName(c), required, c.CommandPath())}
				}
			}
			return a.writeConfig(f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.role, "role", "", "role of the machine: "+cli.JoinWithOr(clustersetup.Roles()))
	flags.StringVar(&f.IP, "ip", "", "address of the machine, at which the others reach it")
	flags.StringVar(&f.Hostname, "hostname", "", "its name in URLs, which all machines resolve; if not set, its address")
	flags.StringSliceVar(&f.Masters, "masters", nil, "addresses of all masters of the cluster")
	flags.StringSliceVar(&f.ZooKeepers, "zookeeper", nil, "HOST:2181 of all ZooKeeper servers; if not set, the masters' machines")
	flags.IntVar(&f.Schedulers, "schedulers", 1, "number of schedulers; several have their journal in ZooKeeper")
	flags.StringVar(&f.credentials, "credentials", "",
		"file of the cluster's principals and secrets, which is created if it does not exist; use the same file on all machines; "+
			"if not set, there is no authentication")
	flags.StringVar(&f.TLS, "tls", "", "folder with ca.pem, cert.pem and key.pem on each machine; if not set, there is no TLS")
	flags.BoolVar(&f.InsecureAPI, "insecure-api", false, "several schedulers listen without TLS and access control")
	flags.StringVar(&f.MesosPrefix, "mesos", "/usr/local", "folder of Mesos on the machine")
	flags.StringVar(&f.Module, "module", module.InstalledPath, "file of the agents' module on the machine")
	flags.BoolVar(&f.CgroupV2, "cgroup-v2", false, "the agent has cgroup v2 only")
	flags.StringVar(&f.Simulate, "simulate", "", "simulate GPUs on an agent, such as 2xV100")
	flags.StringVar(&f.out, "out", "", "folder to write to, / for this machine; if not set, the files are printed")
	flags.BoolVar(&f.force, "force", false, "replace files that exist")
	_ = c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(clustersetup.Roles(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *setupCommands) writeConfig(f configFlags) (err error) {
	if f.credentials != "" {
		if f.Secrets, err = a.readOrCreateSecrets(f.credentials); err != nil {
			return err
		}
	}
	files, err := clustersetup.WriteFiles(f.role, f.ClusterConfig)
	if err != nil {
		return &cli.UsageError{Err: err}
	}
	if f.out == "" {
		for _, file := range files {
			fmt.Fprintf(a.Stdout, "==== %s (mode %04o)\n%s\n", file.Path, file.Mode, file.Text)
		}
		return nil
	}
	if !f.force {
		for _, file := range files {
			if old, err := os.ReadFile(filepath.Join(f.out, file.Path)); err == nil && string(old) != file.Text && string(old) != file.Packaged {
				return fmt.Errorf("%s exists with another content: nothing was written; --force replaces it", filepath.Join(f.out, file.Path))
			}
		}
	}
	for _, file := range files {
		path := filepath.Join(f.out, file.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
		if err := writeFile(path, file); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
		fmt.Fprintln(a.Stdout, path)
		if file.Group != "" && !giveToGroup(path, file.Group) {
			fmt.Fprintf(a.Stderr, "group %s may not read %s yet: after the installation of the package run chgrp %[1]s %[2]s\n", file.Group, path)
		}
	}
	return nil
}

// writeFile replaces a file. Its content is never readable with other permissions.
func writeFile(path string, file clustersetup.File) error {
	mode := fs.FileMode(file.Mode)
	f, err := os.CreateTemp(filepath.Dir(path), ".mesos-gpu-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(file.Text)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// giveToGroup changes the group of a file. It returns false if the machine has no such
// group or the caller may not use it.
func giveToGroup(path, name string) bool {
	g, err := user.LookupGroup(name)
	if err != nil {
		return false
	}
	id, err := strconv.Atoi(g.Gid)
	return err == nil && os.Chown(path, -1, id) == nil
}

// readOrCreateSecrets reads the secrets of the cluster's principals, or creates a file of
// random ones. It reports a new file, because a machine with secrets of its own cannot
// register with the others.
func (a *setupCommands) readOrCreateSecrets(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	secrets := map[string]string{}
	if errors.Is(err, fs.ErrNotExist) {
		for _, p := range clustersetup.Principals() {
			secrets[p] = rand.Text()
		}
		if text, err = json.MarshalIndent(secrets, "", "  "); err != nil {
			return nil, err
		}
		if err := writeFile(path, clustersetup.File{Mode: 0o600, Text: string(text) + "\n"}); err != nil {
			return nil, fmt.Errorf("create credentials: %w", err)
		}
		fmt.Fprintf(a.Stderr, "created %s with new secrets: copy it to all other machines of the cluster\n", path)
		return secrets, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	if err := json.Unmarshal(text, &secrets); err != nil {
		return nil, fmt.Errorf("read credentials %s: %w", path, err)
	}
	return secrets, nil
}
