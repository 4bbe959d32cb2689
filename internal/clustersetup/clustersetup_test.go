package clustersetup

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/deploy/etc"
)

func testConfig() ClusterConfig {
	return ClusterConfig{
		IP: "10.0.0.1", Masters: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, Schedulers: 1,
		MesosPrefix: "/usr/local", Module: "/usr/lib/libmesosgpumodule.so", Simulate: "2xV100",
		Secrets: map[string]string{agentPrincipal: "a", daemonPrincipal: "b", schedulerPrincipal: "c"},
	}
}

func parseOptions(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' {
			values[name] = value
		}
	}
	return values
}

// healthyFacts are those of a machine with all roles and the configuration that WriteFiles
// returns, on which everything runs.
func healthyFacts(t *testing.T, c ClusterConfig) *Facts {
	t.Helper()
	f := &Facts{
		Roles: Roles(), Env: map[string]map[string]string{}, Conf: map[string]map[string]string{}, Files: map[string]FileFacts{},
		LocalIPs: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.0.0.1")},
		Resolved: map[string][]netip.Addr{"10.0.0.1": {netip.MustParseAddr("10.0.0.1")}},
		Ports:    []PortFacts{{5050, "mesos-master", ""}, {5051, "mesos-agent", "mesos-agent"}},
		Clock:    ClockFacts{Known: true, Synchronized: true, Offsets: map[string]time.Duration{"10.0.0.2:5050": time.Second}},
		Cgroups:  CgroupFacts{V1: []string{"cpu", "cpuacct", "memory", "devices", "freezer"}},
		ZooKeepers: map[string]ServerFacts{
			"10.0.0.1:2181": {Mode: "leader"}, "10.0.0.2:2181": {Mode: "follower"}, "10.0.0.3:2181": {Mode: "follower"},
		},
		Mesos:  MesosFacts{Installed: "1.11.0", Masters: map[string]string{"10.0.0.1:5050": "1.11.0", "10.0.0.2:5050": "1.11.0", "10.0.0.3:5050": "1.11.0"}},
		Module: ModuleFacts{File: "/usr/lib/libmesosgpumodule.so", Mesos: "1.11.0", AgentAPI: "v1", Socket: DefaultSocket},
		Daemon: DaemonFacts{Version: "v0.1.0", AgentAPI: "v1", Socket: DefaultSocket},
	}
	for _, role := range Roles() {
		files, err := WriteFiles(role, c)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			switch file.Path {
			case MasterEnv, AgentEnv:
				f.Env[role] = parseOptions(file.Text)
			case SchedulerConf, AgentConf:
				f.Conf[role] = parseOptions(file.Text)
			}
			f.Files[file.Path] = FileFacts{Mode: file.Mode, Secret: strings.Contains(file.Path, "credential")}
		}
	}
	return f
}

// The configuration that is written has no findings.
func TestWrittenConfigurationPassesChecks(t *testing.T) {
	for name, change := range map[string]func(*ClusterConfig, *Facts){
		"plain":   func(*ClusterConfig, *Facts) {},
		"no auth": func(c *ClusterConfig, _ *Facts) { c.Secrets = nil },
		"TLS":     func(c *ClusterConfig, _ *Facts) { c.TLS = "/etc/mesos/tls" },
		"cgroup v2": func(c *ClusterConfig, f *Facts) {
			c.CgroupV2 = true
			f.Cgroups = CgroupFacts{V2Mounted: true, V2: []string{"cpu", "memory", "pids"}}
			f.Mesos.Installed, f.Module.Mesos = "1.12.0", "1.12.0"
			f.Mesos.Masters = nil
		},
		"one master": func(c *ClusterConfig, f *Facts) {
			c.Masters = c.Masters[:1]
			f.ZooKeepers = map[string]ServerFacts{"10.0.0.1:2181": {Mode: "standalone"}}
			f.Mesos.Masters = map[string]string{"10.0.0.1:5050": "1.11.0"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig()
			change(&c, &Facts{})
			f := healthyFacts(t, c)
			change(&c, f)
			if got := Check(f); len(got) > 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Each fault is found, by the check that is named, with a fix.
func TestFaultsAreFound(t *testing.T) {
	agentEnv := func(name, value string) func(*Facts) {
		return func(f *Facts) { f.Env[Agent][name] = value }
	}
	masterEnv := func(name, value string) func(*Facts) {
		return func(f *Facts) { f.Env[Master][name] = value }
	}
	for name, c := range map[string]struct {
		check, severity, problem string
		change                   func(*Facts)
	}{
		"unreadable file":        {"configuration", Error, "no such file", func(f *Facts) { f.ConfigErrors = []string{"open x: no such file"} }},
		"unknown name":           {"addresses", Error, "does not resolve", func(f *Facts) { f.Resolved["gpu1"] = nil }},
		"no address":             {"addresses", Warning, "127.0.1.1", masterEnv("MESOS_IP", "")},
		"loopback address":       {"addresses", Error, "this machine only", agentEnv("MESOS_IP", "127.0.0.1")},
		"address of another":     {"addresses", Error, "not an address of this machine", agentEnv("MESOS_IP", "10.9.9.9")},
		"no address at all":      {"addresses", Error, "not an address", agentEnv("MESOS_IP", "gpu1")},
		"hostname is loopback":   {"addresses", Error, "call themselves", func(f *Facts) { f.Resolved["10.0.0.1"] = []netip.Addr{netip.MustParseAddr("127.0.1.1")} }},
		"port in use":            {"ports", Error, "used by nginx", func(f *Facts) { f.Ports[0].Owner = "nginx" }},
		"clock not synchronized": {"clock", Warning, "not synchronized", func(f *Facts) { f.Clock.Synchronized = false }},
		"clock differs":          {"clock", Error, "differs by -1m0s", func(f *Facts) { f.Clock.Offsets["10.0.0.2:5050"] = -time.Minute }},
		"one ZooKeeper away":     {"zookeeper", Warning, "refused", func(f *Facts) { f.ZooKeepers["10.0.0.2:2181"] = ServerFacts{Problem: "refused"} }},
		"no ZooKeeper quorum": {"zookeeper", Error, "1 of 3", func(f *Facts) {
			f.ZooKeepers["10.0.0.2:2181"], f.ZooKeepers["10.0.0.3:2181"] = ServerFacts{Problem: "a"}, ServerFacts{Problem: "b"}
		}},
		"standalone ZooKeeper":   {"zookeeper", Error, "standalone", func(f *Facts) { f.ZooKeepers["10.0.0.2:2181"] = ServerFacts{Mode: "standalone"} }},
		"even ZooKeepers":        {"zookeeper", Warning, "4 ZooKeeper servers", func(f *Facts) { f.ZooKeepers["10.0.0.4:2181"] = ServerFacts{Mode: "follower"} }},
		"other ZooKeeper folder": {"zookeeper", Error, "the masters' MESOS_ZK is", masterEnv("MESOS_ZK", "zk://10.0.0.1:2181/other")},
		"missing file":           {"credentials", Error, "does not exist", func(f *Facts) { f.Files["/x"] = FileFacts{Missing: true} }},
		"readable secret":        {"credentials", Error, "0644", func(f *Facts) { f.Files["/x"] = FileFacts{Mode: 0o644, Secret: true} }},
		"no credential in file": {"credentials", Error, "no principal", func(f *Facts) {
			f.Files["/x"] = FileFacts{Mode: 0o600, Problem: "it names no principal"}
		}},
		"agent without secret":  {"authentication", Error, "no MESOS_CREDENTIAL", agentEnv("MESOS_CREDENTIAL", "")},
		"no credentials":        {"authentication", Error, "nothing can register", masterEnv("MESOS_CREDENTIALS", "")},
		"no authenticators":     {"authentication", Error, "MESOS_HTTP_FRAMEWORK_AUTHENTICATORS", masterEnv("MESOS_HTTP_FRAMEWORK_AUTHENTICATORS", "")},
		"scheduler without one": {"authentication", Error, "the scheduler has no credential", func(f *Facts) { f.Conf[Scheduler]["credential"] = "" }},
		"no executors' tokens":  {"authentication", Error, "tasks cannot start", agentEnv("MESOS_AUTHENTICATE_HTTP_EXECUTORS", "")},
		"daemon without secret": {"authentication", Error, "the daemon has no credential", func(f *Facts) { f.Conf[Agent]["credential"] = "" }},
		"TLS of the agent only": {"authentication", Error, "connects to http://10.0.0.1:5051", agentEnv("LIBPROCESS_SSL_ENABLED", "1")},
		"TLS without a socket": {"authentication", Error, "MESOS_HTTP_EXECUTOR_DOMAIN_SOCKETS is not set", func(f *Facts) {
			f.Env[Agent]["LIBPROCESS_SSL_ENABLED"], f.Conf[Agent]["agent"] = "1", "https://10.0.0.1:5051"
		}},
		"TLS on the socket": {"authentication", Error, "speaks TLS, which executors do not", func(f *Facts) {
			f.Env[Agent]["LIBPROCESS_SSL_ENABLED"], f.Conf[Agent]["agent"] = "1", "https://10.0.0.1:5051"
			f.Env[Agent]["MESOS_HTTP_EXECUTOR_DOMAIN_SOCKETS"] = "true"
		}},
		"small quorum": {"quorum", Error, "not more than half of the 3", masterEnv("MESOS_QUORUM", "1")},
		"no quorum":    {"quorum", Error, "not a number", masterEnv("MESOS_QUORUM", "")},
		"no Mesos":     {"mesos", Error, "not found", func(f *Facts) { f.Mesos.Problem = "not found" }},
		"other Mesos":  {"mesos", Warning, "has Mesos 1.9.0", func(f *Facts) { f.Mesos.Masters["10.0.0.2:5050"] = "1.9.0" }},
		"two GPU isolators": {"isolation", Error, "both gpu/nvidia", agentEnv("MESOS_ISOLATION",
			"gpu/nvidia,cgroups/devices,filesystem/linux,docker/runtime,"+IsolatorName)},
		"unused module":           {"isolation", Error, "not used", agentEnv("MESOS_ISOLATION", "filesystem/linux,docker/runtime")},
		"isolator without module": {"isolation", Error, "does not load it", agentEnv("MESOS_MODULES", "")},
		"posix launcher":          {"isolation", Error, "no cgroups", agentEnv("MESOS_LAUNCHER", "posix")},
		"no devices isolator":     {"isolation", Error, "which is missing", agentEnv("MESOS_ISOLATION", "filesystem/linux,docker/runtime,"+IsolatorName)},
		"v1 isolator on v2":       {"isolation", Error, "needs cgroup v1", func(f *Facts) { f.Cgroups.V2Mounted = true }},
		"images without runtime":  {"isolation", Error, "images are ignored", agentEnv("MESOS_ISOLATION", "cgroups/devices,"+IsolatorName)},
		"no memory controller":    {"cgroups", Error, "lacks the controllers memory", func(f *Facts) { f.Cgroups.V1 = []string{"cpu", "devices", "freezer"} }},
		"old Mesos on v2":         {"cgroups", Error, "Mesos 1.11.0 supports cgroup v1 only", func(f *Facts) { f.Cgroups.V2Mounted = true }},
		"no module":               {"module", Warning, "not confined", agentEnv("MESOS_MODULES", "")},
		"broken module":           {"module", Error, "no such file", func(f *Facts) { f.Module.Problem = "no such file" }},
		"module of other Mesos":   {"module", Error, "built for Mesos 1.10.0", func(f *Facts) { f.Module.Mesos = "1.10.0" }},
		"module of other API":     {"module", Error, "uses API v2", func(f *Facts) { f.Module.AgentAPI = "v2" }},
		"other socket":            {"module", Error, "calls /tmp/s", func(f *Facts) { f.Module.Socket = "/tmp/s" }},
		"stray container": {"daemon", Warning, "GPU GPU-a is not offered: container c holds it",
			func(f *Facts) { f.Daemon.StrayHolders = map[string]string{"GPU-a": "container c"} }},
		"no daemon":              {"daemon", Error, "no GPU container starts", func(f *Facts) { f.Daemon.Problem = "connection refused" }},
		"simulated next to real": {"driver", Warning, "4 real ones", func(f *Facts) { f.Driver.PCI = 4 }},
		"no GPU":                 {"driver", Error, "no NVIDIA GPU", func(f *Facts) { f.Conf[Agent]["simulate"] = "" }},
		"no kernel module":       {"driver", Error, "not loaded", func(f *Facts) { f.Conf[Agent]["simulate"], f.Driver = "", DriverFacts{PCI: 1} }},
		"broken library": {"driver", Error, "cannot open", func(f *Facts) {
			f.Conf[Agent]["simulate"], f.Driver = "", DriverFacts{PCI: 1, Kernel: "550.1", Problem: "cannot open"}
		}},
		"other library": {"driver", Error, "is 550.2, its kernel module 550.1", func(f *Facts) {
			f.Conf[Agent]["simulate"], f.Driver = "", DriverFacts{PCI: 1, Kernel: "550.1", Library: "550.2"}
		}},
		"no master": {"scheduler", Warning, "has no master", func(f *Facts) { f.Conf[Scheduler]["master"] = "" }},
		"open API":  {"scheduler", Error, "does not start", func(f *Facts) { f.Conf[Scheduler]["listen"] = "0.0.0.0:8080" }},
		"insecure API": {"scheduler", Warning, "may do everything", func(f *Facts) {
			f.Conf[Scheduler]["listen"], f.Conf[Scheduler]["insecure-api"] = "10.0.0.1:8080", "true"
		}},
		"weight that Mesos lacks": {"weights", Warning, "role gold has weight 3 in /etc/mesos-gpu/roles.yaml, but 1 in Mesos", func(f *Facts) {
			f.Weights = WeightFacts{
				RolesFile: "/etc/mesos-gpu/roles.yaml", Roles: map[string]float64{"gold": 3, "bronze": 1}, Mesos: map[string]float64{"gold": 1, "bronze": 1},
			}
		}},
		"other weight in Mesos": {"weights", Warning, "role gold has weight 1 in /etc/mesos-gpu/roles.yaml, but 2.5 in Mesos", func(f *Facts) {
			f.Weights = WeightFacts{
				RolesFile: "/etc/mesos-gpu/roles.yaml", Roles: map[string]float64{"gold": 1}, Mesos: map[string]float64{"gold": 2.5},
			}
		}},
		"unknown weights": {"weights", Warning, "those in Mesos are unknown: 501 Not Implemented", func(f *Facts) {
			f.Weights = WeightFacts{Roles: map[string]float64{"gold": 3}, Problem: "501 Not Implemented"}
		}},
		"open journal": {"scheduler", Warning, "change the journal", func(f *Facts) { f.Conf[Scheduler]["journal"] = "zk://10.0.0.1:2181/j" }},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthyFacts(t, testConfig())
			c.change(f)
			got := Check(f)
			if !slices.ContainsFunc(got, func(g Finding) bool {
				return g.Check == c.check && g.Severity == c.severity && strings.Contains(g.Problem, c.problem) && g.Fix != ""
			}) {
				t.Errorf("got %+v, want %s by %s with %q", got, c.severity, c.check, c.problem)
			}
		})
	}
}

// The fix of a weight that Mesos lacks is a command for the leading master. Equal weights are no finding.
func TestFixOfWeights(t *testing.T) {
	f := healthyFacts(t, testConfig())
	f.Weights = WeightFacts{
		RolesFile: "/etc/mesos-gpu/roles.yaml", Master: "http://10.0.0.2:5050",
		Roles: map[string]float64{"gold": 3, "lab/x": 0.5, "bronze": 1}, Mesos: map[string]float64{"gold": 1, "lab/x": 0.5, "bronze": 1},
	}
	got := Check(f)
	if len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
	for _, want := range []string{
		"systemctl reload mesos-gpu-scheduler", "permit update_weights to /etc/mesos-gpu/scheduler-credential.json",
		`curl -X POST -H 'Content-Type: application/json' http://10.0.0.2:5050/api/v1 -d '{"type": "UPDATE_WEIGHTS", ` +
			`"update_weights": {"weight_infos": [{"role": "gold", "weight": 3}]}}'`,
	} {
		if !strings.Contains(got[0].Fix, want) {
			t.Errorf("the fix is %q, want %q", got[0].Fix, want)
		}
	}
}

// Errors come first, and only the checks of the machine's roles are done.
func TestFindingsAreSorted(t *testing.T) {
	f := healthyFacts(t, testConfig())
	f.Clock.Synchronized = false
	f.Daemon.Problem = "refused"
	got := Check(f)
	if len(got) != 2 || got[0].Severity != Error || got[1].Severity != Warning {
		t.Errorf("got %+v", got)
	}
	f.Roles = []string{Scheduler}
	if got := Check(f); len(got) != 1 || got[0].Check != "clock" {
		t.Errorf("on a scheduler's machine: got %+v", got)
	}
}

// Every option has a comment; units, secrets and options have the right values.
func TestConfigurationIsCommented(t *testing.T) {
	c := testConfig()
	c.TLS, c.Schedulers = "/etc/mesos/tls", 3
	for _, role := range Roles() {
		files, err := WriteFiles(role, c)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			previous := ""
			for line := range strings.Lines(f.Text) {
				if strings.HasSuffix(f.Path, ".env") && strings.Contains(line, "=") && line[0] != '#' && !strings.HasPrefix(previous, "# ") {
					t.Errorf("%s: %q has no comment", f.Path, line)
				}
				previous = line
			}
			if strings.Contains(f.Path, "credential") && f.Mode&0o007 != 0 {
				t.Errorf("%s has mode %o", f.Path, f.Mode)
			}
		}
	}
}

func TestValuesOfConfiguration(t *testing.T) {
	c := testConfig()
	c.Schedulers, c.TLS = 2, "/tls"
	get := func(role, path string) string {
		files, err := WriteFiles(role, c)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(files, func(f File) bool { return f.Path == path })
		if i < 0 {
			t.Fatalf("%s has no %s", role, path)
		}
		return files[i].Text
	}
	if master := parseOptions(get(Master, MasterEnv)); master["MESOS_QUORUM"] != "2" ||
		master["MESOS_ZK"] != "zk://10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181/mesos" {
		t.Errorf("master: %v", master)
	}
	if zoo := get(ZooKeeper, ZooConf); !strings.Contains(zoo, "server.2=10.0.0.2:2888:3888\n") || get(ZooKeeper, "/var/lib/zookeeper/myid") != "1\n" {
		t.Errorf("ZooKeeper: %s", zoo)
	}
	scheduler := get(Scheduler, SchedulerConf)
	if got := parseOptions(scheduler); got["journal"] != "zk://10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181/mesos-gpu" ||
		got["listen"] != "10.0.0.1:8080" || got["access"] == "" {
		t.Errorf("scheduler: %v", got)
	}
	if strings.Count(scheduler, "\n") != strings.Count(etc.Scheduler, "\n") {
		t.Error("the scheduler's file lacks lines of the packages' file")
	}
	if agent := parseOptions(get(Agent, AgentConf)); agent["agent"] != "https://10.0.0.1:5051" || agent["simulate"] != "2xV100" {
		t.Errorf("daemon: %v", agent)
	}
}

func TestWrongConfigurationsAreRejected(t *testing.T) {
	for want, change := range map[string]func(*ClusterConfig){
		"no masters":                            func(c *ClusterConfig) { c.Masters = nil },
		"2 masters tolerate":                    func(c *ClusterConfig) { c.Masters = c.Masters[:2] },
		"is not an IP address":                  func(c *ClusterConfig) { c.IP = "gpu1" },
		"reachable on this machine only":        func(c *ClusterConfig) { c.IP = "127.0.0.1" },
		"lack the principal " + daemonPrincipal: func(c *ClusterConfig) { c.Secrets = maps.Clone(c.Secrets); delete(c.Secrets, daemonPrincipal) },
		"is not one of the masters":             func(c *ClusterConfig) { c.IP = "10.0.0.9" },
	} {
		c := testConfig()
		change(&c)
		if _, err := WriteFiles(Master, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	c := testConfig()
	c.Schedulers = 3
	if _, err := WriteFiles(Scheduler, c); err == nil || !strings.Contains(err.Error(), "give --tls DIR") {
		t.Errorf("several schedulers without TLS: got %v", err)
	}
	if _, err := WriteFiles("worker", c); err == nil || !strings.Contains(err.Error(), "zookeeper, master, agent, scheduler") {
		t.Errorf("another role: got %v", err)
	}
	c.ZooKeepers = []string{"zk1:2181"}
	if _, err := WriteFiles(ZooKeeper, c); err == nil || !strings.Contains(err.Error(), "is one of the ZooKeeper servers") {
		t.Errorf("another machine: got %v", err)
	}
}
