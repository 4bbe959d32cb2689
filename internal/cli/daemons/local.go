package daemons

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/leader"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/cli/agent"
	"mesos-gpu/internal/cli/jobs"
	"mesos-gpu/internal/local"
	embedded "mesos-gpu/internal/local/agent"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/share"
	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// Defaults of the artifacts of a cluster on one machine, whose disk its tasks use as well: MiB of one owner and of all, and how
// long they are kept.
const (
	localOwnerArtifacts = 20 << 10
	localTotalArtifacts = 50 << 10
	localKeepArtifacts  = 7 * 24 * time.Hour
)

// localFlags are the flags of "mesos-gpu local".
type localFlags struct {
	gpus, agents, listen, master, agent, executor, workDir, imageDir, jobFile, level string
	share                                                                            agent.ShareFlags
	freePorts, keepTasks                                                             bool
	keepSandboxes                                                                    time.Duration
	scheduler                                                                        framework.SchedulerConfig
	settings                                                                         marathon.ParseSettings
	isSet                                                                            func(string) bool
}

func (a *daemonCommands) localCommand() *cobra.Command {
	var f localFlags
	c := &cobra.Command{
		Use: "local", Short: "Run a cluster on this machine, with simulated GPUs if there is no driver", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			f.isSet = c.Flags().Changed
			return a.runLocal(c.Context(), f)
		},
	}
	c.Flags().StringVar(&f.gpus, "gpus", "4xV100", "GPUs to simulate, such as 2xV100,1xK80; if not set, this machine's GPUs are used, if any")
	c.Flags().StringVar(&f.agents, "agents", "", "agents to simulate, as AGENTSxGPUSxTYPE such as 2x4xV100,1x8xA100; they share this machine's CPUs and memory")
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8080", "address of the API")
	c.Flags().StringVar(&f.master, "master", "127.0.0.1:5050", "address of the embedded master")
	c.Flags().StringVar(&f.agent, "agent", "127.0.0.1:5051", "address of the embedded agent; each other agent has the next loopback address")
	c.Flags().StringVar(&f.executor, "executor", "", "path of the mesos-gpu that runs the tasks; default: this program")
	_ = c.Flags().MarkHidden("executor") // for a daemon with the race detector, whose tasks then run without it
	c.Flags().BoolVar(&f.freePorts, "free-ports", false, "use free ports for addresses that are not set")
	c.Flags().StringVar(&f.workDir, "work-dir", "",
		"directory for sandboxes and state, in which tasks survive a crash of this command; default: a temporary one, removed at the end")
	c.Flags().BoolVar(&f.keepTasks, "keep-tasks", false,
		"with --work-dir: leave tasks running when this command is stopped; the next one adopts them if it starts within 15 minutes")
	c.Flags().DurationVar(&f.keepSandboxes, "keep-sandboxes", embedded.DefaultKeepSandboxes,
		"how long the sandboxes of ended tasks and unused images are kept on an empty disk; the fuller it is, the shorter")
	c.Flags().StringVar(&f.imageDir, "images", "", "directory of docker archives NAME:TAG.tar, the images of jobs with container: mesos")
	f.share.Register(c.Flags())
	c.Flags().StringVar(&f.jobFile, "run", "", "run this job file, then stop the cluster and exit with the job's exit status")
	addPolicyFlags(c.Flags(), &f.scheduler)
	addAPIFlags(c.Flags(), &f.scheduler.API)
	c.Flags().StringVar(&f.scheduler.API.Socket, "socket", "",
		"unix socket of the API, which identifies users; their tasks without an image run as themselves. Other addresses then need a token. Needs root")
	c.Flags().StringVar(&f.scheduler.API.OperatorsGroup, "operators-group", "", "with --socket: group of this machine that has all permissions, as root has them")
	addProcessUserFlag(c.Flags(), &f.scheduler, "")
	processUser := c.Flags().Lookup("process-user")
	processUser.Usage = "user of tasks without an image that name none; root gives them this machine. Without root they run as the user of this command"
	processUser.DefValue = framework.DefaultProcessUser
	addAutoscaleFlag(c.Flags(), &f.scheduler)
	addPredictFlag(c.Flags(), &f.scheduler)
	addNotificationsFlag(c.Flags(), &f.scheduler)
	addArtifactFlags(c.Flags(), &f.scheduler, localOwnerArtifacts, localTotalArtifacts, localKeepArtifacts)
	for _, file := range []string{"roles", "access", "notifications"} { // SIGHUP ends this command and does not reload files
		flag := c.Flags().Lookup(file)
		flag.Usage = strings.Replace(flag.Usage, "; read again on SIGHUP", "", 1)
	}
	addAllowFlags(c.Flags(), &f.scheduler.Sched.Policy.Permissions)
	addSharedFoldersFlag(c.Flags(), &f.scheduler, []string{"/home", leader.OwnerHome})
	jobs.AddMarathonFlags(c.Flags(), &f.settings)
	addServicePortsFlag(c.Flags(), &f.settings)
	cli.AddLogLevelFlag(c, &f.level)
	c.Flags().Lookup("log-level").DefValue = "warn"
	f.level = "warn"
	return c
}

func (a *daemonCommands) runLocal(ctx context.Context, f localFlags) error {
	log, err := a.NewLogger(f.level)
	if err != nil {
		return err
	}
	if err := checkListenAddress(f.listen); err != nil {
		return err
	}
	var spec *job.Spec
	if f.jobFile != "" {
		if spec, err = jobs.ReadJobFile(a.App, f.jobFile); err != nil {
			return err
		}
	}
	if f.keepTasks && (f.workDir == "" || spec != nil) {
		return &cli.UsageError{Err: errors.New("--keep-tasks: the next command finds the tasks by --work-dir, which is needed, and not with --run")}
	}
	if f.keepSandboxes <= 0 {
		return &cli.UsageError{Err: fmt.Errorf("--keep-sandboxes %s: must be above 0", f.keepSandboxes)}
	}
	if f.scheduler.API.Socket != "" && os.Geteuid() != 0 {
		return &cli.UsageError{Err: errors.New("--socket: needs root, because tasks run as the users who submit them")}
	}
	if info, err := os.Stat(cmp.Or(f.imageDir, "/")); err != nil || !info.IsDir() {
		return &cli.UsageError{Err: fmt.Errorf("--images %s: no such folder", f.imageDir)}
	}
	binary := f.executor
	if binary == "" {
		if binary, err = os.Executable(); err != nil {
			return fmt.Errorf("find own program: %w", err)
		}
	}
	hosts, err := a.localHosts(f)
	if err != nil {
		return err
	}
	work, release, err := prepareWorkDir(f.workDir)
	if err != nil {
		return err
	}
	if f.scheduler.ProcessUser, err = prepareProcessUser(f, work); err != nil {
		return errors.Join(err, release())
	}
	f.scheduler.Extension = newMarathonExtension(a.Version, f.settings, &f.scheduler, log.WithField("part", "marathon"))
	cfg := local.ClusterConfig{
		WorkDir:       work,
		Hosts:         hosts,
		API:           f.listenAddress("listen", f.listen),
		Master:        f.listenAddress("master", f.master),
		Agent:         f.listenAddress("agent", f.agent),
		Binary:        binary,
		Images:        f.imageDir,
		Isolate:       os.Geteuid() == 0,
		Recover:       f.workDir != "" && spec == nil,
		KeepTasks:     f.keepTasks,
		KeepSandboxes: f.keepSandboxes,
		Log:           log,
		Scheduler:     f.scheduler,
		Share:         f.share.List,
		ShareLimit:    f.share.Limit,
		Scaling:       f.share.Scaling,
		ExecutorEnv: a.passedEnv("DOCKER_HOST", "GODEBUG", "GORACE", "GOTRACEBACK",
			"MESOS_GPU_LOG_SIZE", "MESOS_GPU_LOG_FILES", "MESOS_GPU_DOCKER_CONFIG", "MESOS_GPU_SECRETS", "MESOS_GPU_ALLOW_HOST_IPC", "MESOS_GPU_ALLOW_DEVICES"),
	}
	cfg.NewLimiters = func(dir string) ([]share.Limiter, error) {
		return f.share.NewLimiters(dir, hosts[0].Simulated, func() string { return hosts[0].Driver }, log)
	}
	if !cfg.Isolate {
		fmt.Fprintln(a.Stderr, "not root: tasks run as plain processes, devices are not isolated")
	}
	if spec == nil {
		systemd := cli.NewNotifier("starting")
		err = local.Run(ctx, cfg, func(at local.ClusterURLs) {
			systemd.NotifyReady()
			systemd.SetStatus(describeHosts(hosts) + "; API " + at.API)
			fmt.Fprintf(a.Stdout, "mesos-gpu local is up: API %s, master %s, %s %s\n", at.API, at.Master,
				gpu.Plural(len(at.Agents), "agent"), strings.Join(at.Agents, ", "))
			fmt.Fprintf(a.Stdout, "open %s in a browser to see it\n", at.API)
		})
	}
	if spec != nil {
		err = a.runOnce(ctx, cfg, spec)
	}
	if f.keepTasks {
		return err // the lock ends with the process, in which parts still run
	}
	return errors.Join(err, release())
}

// prepareWorkDir locks the named work directory, or creates a temporary one if named is
// empty. The caller must call release.
func prepareWorkDir(named string) (dir string, release func() error, err error) {
	if named == "" {
		return local.TempWorkDir()
	}
	if dir, err = filepath.Abs(named); err != nil {
		return "", nil, fmt.Errorf("work directory %s: %w", named, err)
	}
	release, err = local.LockWorkDir(dir)
	return dir, release, err
}

// prepareProcessUser returns the user of tasks without an image, and lets it enter the work
// directory. Without root, tasks can only run as the user of this command.
func prepareProcessUser(f localFlags, work string) (string, error) {
	user := f.scheduler.ProcessUser
	if os.Geteuid() != 0 {
		return user, nil
	}
	if !f.isSet("process-user") {
		user = framework.DefaultProcessUser
	}
	if user == "" || user == "root" {
		return user, nil
	}
	return user, local.OpenWorkDir(work, user)
}

// listenAddress returns the value of an address flag, or any free loopback port if
// freePorts is set and the user has not set the flag.
func (f *localFlags) listenAddress(flag, value string) string {
	if f.freePorts && !f.isSet(flag) {
		return "127.0.0.1:0"
	}
	return value
}

// passedEnv returns those of the environment variables that are set.
func (a *daemonCommands) passedEnv(names ...string) map[string]string {
	env := map[string]string{}
	for _, name := range names {
		if v := a.Getenv(name); v != "" {
			env[name] = v
		}
	}
	return env
}

// localHosts uses the machine's GPUs unless the user asks for simulated ones.
func (a *daemonCommands) localHosts(f localFlags) (hosts []gpu.Host, err error) {
	switch one, several := f.isSet("gpus"), f.agents != ""; {
	case one && several:
		return nil, &cli.UsageError{Err: errors.New("--gpus is the GPUs of one agent, --agents several agents: give one of them")}
	case !one && !several:
		host, err := nvml.DiscoverHost(nvml.LibraryConfig{})
		if err == nil || !errors.Is(err, nvml.ErrNoDriver) {
			return []gpu.Host{host}, err
		}
		if f.keepTasks { // a service whose driver is not loaded yet must not run jobs on simulated GPUs
			return nil, fmt.Errorf("%w: install or load the driver, or simulate GPUs by --gpus (gpus= in local.conf)", err)
		}
	}
	spec := cmp.Or(f.agents, f.gpus)
	if f.agents == "" {
		hosts = make([]gpu.Host, 1)
		hosts[0], err = cli.DiscoverHost(spec)
	} else {
		hosts, err = cli.SimulateHosts(spec)
	}
	if err == nil {
		n := countGPUs(hosts)
		fmt.Fprintf(a.Stderr, "simulating %d %s (%s): no driver serves them\n", n, gpu.Plural(n, "GPU"), spec)
	}
	return hosts, err
}

func countGPUs(hosts []gpu.Host) (n int) {
	for _, h := range hosts {
		n += len(h.Devices)
	}
	return n
}

// describeHosts returns the number of GPUs for the status of the service.
func describeHosts(hosts []gpu.Host) string {
	n := countGPUs(hosts)
	text := fmt.Sprintf("%d %s", n, gpu.Plural(n, "GPU"))
	if hosts[0].Simulated {
		text += ", simulated"
	}
	return text
}

// runOnce starts the cluster, runs one job and stops the cluster.
func (a *daemonCommands) runOnce(ctx context.Context, cfg local.ClusterConfig, spec *job.Spec) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	up := func(at local.ClusterURLs) {
		api, err := a.ConnectTo(at.API)
		if err != nil {
			ended <- err
			cancel()
			return
		}
		go func() {
			ended <- a.followToEnd(ctx, api, spec)
			cancel()
		}()
	}
	err := local.Run(ctx, cfg, up)
	select {
	case jobErr := <-ended:
		return errors.Join(jobErr, err)
	default:
		return err
	}
}

// followToEnd follows the job and returns its exit code as an ExitStatus.
func (a *daemonCommands) followToEnd(ctx context.Context, api *client.Client, spec *job.Spec) error {
	if _, err := jobs.SubmitWithWorkdir(ctx, a.App, spec, api.UploadWorkdir, api.SubmitJob); err != nil {
		return err
	}
	f := jobs.NewFollower(a.App, api, spec.Name)
	f.States = f.Outputs[0].To
	view, err := f.FollowToEnd(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "job %s %s\n", spec.Name, view.State)
	if code := *view.ExitCode; code != 0 {
		return &cli.ExitStatus{Code: code}
	}
	return nil
}
