package jobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/proxyconfig"
)

const (
	// configSettleTime is the wait after an event before the jobs are read, so that the events
	// of several tasks cause one reload.
	configSettleTime = 200 * time.Millisecond
	// configRefreshTime is the time after which the jobs are read without an event: results of
	// health checks cause none.
	configRefreshTime = 5 * time.Second
	reloadTimeout     = time.Minute
	// reloadRepeatTime is the time within which a reload may be lost after another one, and after which it is repeated:
	// HAProxy ignores SIGUSR2 while it reloads.
	reloadRepeatTime = 2 * time.Second
)

// The states of a configuration that the load balancer may not have read.
const notReloaded, repeatReload = "not reloaded", "reload to be repeated"

// serviceConfigFlags are the flags of service-config.
type serviceConfigFlags struct {
	watch             bool
	file, reload      string
	role              string
	bind, stats, fqdn string
	format            string
	// loaded is the text that the load balancer has read, "" before the first, notReloaded or repeatReload. reloaded is when
	// it last read one.
	loaded   string
	reloaded time.Time
}

var (
	bindPattern   = regexp.MustCompile(`^[^\s#'"\\][ -!$-&(-\[\]-~]*$`)
	pathPattern   = regexp.MustCompile(`^/[A-Za-z0-9._/-]+$`)
	domainPattern = regexp.MustCompile(`^[A-Za-z0-9.-]*$`)
)

func (a *jobCommands) serviceConfigCommand() *cobra.Command {
	f := &serviceConfigFlags{}
	c := &cobra.Command{
		Use: "service-config haproxy|traefik", Short: "Write the configuration of a load balancer for the services", Args: cli.RequireArgs("haproxy|traefik"),
		Long: "Write the configuration of HAProxy, or of Traefik's file provider, with the addresses of all services' healthy tasks. Tasks that are\n" +
			"to be ended are left out. With --watch, FILE of --file is written again whenever tasks change, and --exec-reload is run.",
		ValidArgs: []string{"haproxy", "traefik"},
		RunE: func(c *cobra.Command, args []string) error {
			f.format = args[0]
			if err := f.validate(); err != nil {
				return err
			}
			api, err := a.NewClient()
			if err != nil {
				return err
			}
			if f.watch {
				return a.watchServiceConfig(c.Context(), api, f)
			}
			_, err = a.writeServiceConfig(c.Context(), api, f)
			return err
		},
	}
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "write the file again whenever tasks change, until interrupted")
	c.Flags().StringVar(&f.file, "file", "", "file to write, replaced as a whole (default: standard output)")
	c.Flags().StringVar(&f.reload, "exec-reload", "", "command line for /bin/sh that is run after the file has changed, such as 'systemctl reload haproxy'")
	c.Flags().StringVar(&f.role, "role", "", "only services of this role")
	c.Flags().StringVar(&f.bind, "bind", ":80",
		"haproxy: address at which HTTP services are selected by host name, with options such as 'ssl crt FILE'; empty: none")
	c.Flags().StringVar(&f.stats, "stats-socket", "", "haproxy: path of the socket by which a reload takes over the listening sockets")
	c.Flags().StringVar(&f.fqdn, "domain", "", "traefik: domain that follows the service's name in host names")
	return c
}

func (f *serviceConfigFlags) validate() error {
	switch {
	case f.format != "haproxy" && f.format != "traefik":
		return &cli.UsageError{Err: fmt.Errorf("%q: use haproxy or traefik", f.format)}
	case (f.watch || f.reload != "") && f.file == "":
		return &cli.UsageError{Err: fmt.Errorf("--watch and --exec-reload need --file: the file to write")}
	case f.bind != "" && !bindPattern.MatchString(f.bind):
		return &cli.UsageError{Err: fmt.Errorf("--bind %q: use an address such as :80, and options without quotes", f.bind)}
	case f.stats != "" && !pathPattern.MatchString(f.stats):
		return &cli.UsageError{Err: fmt.Errorf("--stats-socket %q: use an absolute path", f.stats)}
	case !domainPattern.MatchString(f.fqdn):
		return &cli.UsageError{Err: fmt.Errorf("--domain %q: use a domain such as gpu.example.org", f.fqdn)}
	}
	if folder := filepath.Dir(f.file); f.file != "" {
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			return &cli.UsageError{Err: fmt.Errorf("--file %s: %s does not exist", f.file, folder)}
		}
	}
	return nil
}

// writeServiceConfig writes the present configuration, and runs the reload command if the
// file has changed.
func (a *jobCommands) writeServiceConfig(ctx context.Context, c *client.Client, f *serviceConfigFlags) (changed bool, err error) {
	jobs, err := c.ListJobsByState(ctx, api.LiveJobs)
	if err != nil {
		return false, err
	}
	selected := jobs[:0]
	for _, j := range jobs {
		if f.role == "" || j.Spec.Role == f.role {
			selected = append(selected, j)
		}
	}
	list := proxyconfig.ListEndpoints(selected)
	text := ""
	if f.format == "haproxy" {
		text = proxyconfig.WriteHAProxy(list, proxyconfig.HAProxySettings{Bind: f.bind, StatsSocket: f.stats})
	} else if text, err = proxyconfig.WriteTraefik(list, f.fqdn); err != nil {
		return false, err
	}
	if f.file == "" {
		_, err := fmt.Fprint(a.Stdout, text)
		return true, err
	}
	if old, err := os.ReadFile(f.file); err == nil && string(old) == text && (f.loaded == "" || f.loaded == text) {
		f.loaded = text
		return false, nil
	}
	if err := replaceFile(f.file, text); err != nil {
		return false, err
	}
	if f.reload != "" {
		ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
		defer cancel()
		reload := exec.CommandContext(ctx, "/bin/sh", "-c", f.reload)
		reload.Stdout, reload.Stderr = a.Stderr, a.Stderr
		if err := reload.Run(); err != nil {
			f.loaded = notReloaded
			return true, fmt.Errorf("--exec-reload: %w", err)
		}
	}
	f.loaded = text
	if f.reload != "" && time.Since(f.reloaded) < reloadRepeatTime {
		f.loaded = repeatReload
	}
	f.reloaded = time.Now()
	return true, nil
}

// replaceFile writes a file so that readers see the old or the new content.
func replaceFile(path, text string) error {
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(next.Name())
	if _, err = next.WriteString(text); err == nil {
		err = next.Chmod(0o644)
	}
	if closed := next.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", next.Name(), err)
	}
	return os.Rename(next.Name(), path)
}

// watchServiceConfig writes the configuration after each change of a task, and from time to
// time, until ctx ends. Failures are printed and tried again.
func (a *jobCommands) watchServiceConfig(ctx context.Context, c *client.Client, f *serviceConfigFlags) error {
	changes := make(chan struct{}, 1)
	ended := make(chan error, 1)
	follow, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		var broke error
		for _, err := range c.FollowEvents(follow, "") {
			if broke = err; err != nil {
				break
			}
			select {
			case changes <- struct{}{}:
			default: // one is noted already
			}
		}
		ended <- broke
	}()
	refresh := time.NewTicker(configRefreshTime)
	defer refresh.Stop()
	for {
		changed, err := a.writeServiceConfig(ctx, c, f)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			fmt.Fprintf(a.Stderr, "%s: %v\n", f.file, err)
		case changed:
			fmt.Fprintf(a.Stderr, "%s: written\n", f.file)
		}
		next := configRefreshTime
		if f.loaded == repeatReload {
			next = reloadRepeatTime
		}
		refresh.Reset(next)
		select {
		case <-changes:
			settle := time.NewTimer(configSettleTime)
			select {
			case <-settle.C:
			case <-ctx.Done():
			}
			settle.Stop()
			select {
			case <-changes:
			default:
			}
		case <-refresh.C:
		case err := <-ended:
			if err != nil && ctx.Err() == nil {
				return err
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
