package clustersetup

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Severities of findings.
const (
	Error   = "error"
	Warning = "warning"
)

// Finding is something wrong with a machine's setup, and what corrects it.
type Finding struct {
	Severity string `json:"severity"`
	// Check is the name of the check, such as clock.
	Check   string `json:"check"`
	Problem string `json:"problem"`
	Fix     string `json:"fix"`
}

// Facts describes a machine that has a role in a cluster.
type Facts struct {
	// Roles are the machine's roles.
	Roles []string
	// Env are the options of Mesos's programs by role and variable, Conf those of
	// scheduler and agent daemon by role and option. ConfigErrors are files that could
	// not be read.
	Env, Conf    map[string]map[string]string
	ConfigErrors []string
	// LocalIPs are the machine's addresses. Resolved are the addresses of names in the
	// configuration; an empty list is a name that does not resolve.
	LocalIPs []netip.Addr
	Resolved map[string][]netip.Addr
	Ports    []PortFacts
	Clock    ClockFacts
	Cgroups  CgroupFacts
	// Files are the files that the configuration names.
	Files map[string]FileFacts
	// ZooKeepers are the servers that the configuration names, by HOST:PORT.
	ZooKeepers map[string]ServerFacts
	Mesos      MesosFacts
	Module     ModuleFacts
	Daemon     DaemonFacts
	Driver     DriverFacts
	Weights    WeightFacts
}

// PortFacts is a port that a role needs.
type PortFacts struct {
	Port int
	// Program is the program that should listen on it, Owner the one that does, "" if
	// the port is free.
	Program, Owner string
}

// ClockFacts is the state of the machine's clock.
type ClockFacts struct {
	// Known is false if the kernel does not report whether the clock is synchronized.
	Known, Synchronized bool
	// Offsets are the differences from the clocks of other machines.
	Offsets map[string]time.Duration
}

// CgroupFacts is how control groups are mounted.
type CgroupFacts struct {
	// V1 are the controllers of version 1, V2 those of version 2, which is mounted at
	// /sys/fs/cgroup if V2Mounted.
	V1, V2    []string
	V2Mounted bool
}

// FileFacts is the state of a file.
type FileFacts struct {
	Missing bool
	// Mode has the permissions. Secret is set for credentials and keys.
	Mode   uint32
	Secret bool
	// Problem is why its content cannot be used, "" if it can.
	Problem string
}

// ServerFacts is the answer of a ZooKeeper server.
type ServerFacts struct {
	// Mode is leader, follower, standalone or observer. Problem is why there is no
	// answer.
	Mode, Problem string
}

// MesosFacts are the versions of Mesos.
type MesosFacts struct {
	// Installed is the version of the program on this machine; Problem is why it is
	// unknown. Masters are the versions of the masters that answer, by address.
	Installed, Problem string
	Masters            map[string]string
}

// ModuleFacts describes the agents' module.
type ModuleFacts struct {
	File, Mesos, AgentAPI, Problem string
	// Socket is the daemon's socket that the module's parameters name.
	Socket string
}

// DaemonFacts is the answer of the agent daemon.
type DaemonFacts struct {
	Version, AgentAPI, Problem string
	Socket                     string
	// StrayHolders describes the containers that hold GPUs and are no tasks of the agent, by GPU.
	StrayHolders map[string]string
}

// DriverFacts describes the GPU driver.
type DriverFacts struct {
	// PCI is the number of NVIDIA GPUs on the bus. Kernel is the version of the loaded
	// kernel module, Library that of the driver's library.
	PCI             int
	Kernel, Library string
	Problem         string
	// Unlinked are the driver's nodes in /dev that have no link in /dev/char, on a machine with systemd.
	Unlinked []string
}

// WeightFacts are the weights of the scheduler's roles.
type WeightFacts struct {
	// RolesFile is the file that gives the roles their weights, Roles has these, nil if it gives none. Mesos has the
	// weights of the same roles in Mesos.
	RolesFile    string
	Roles, Mesos map[string]float64
	// Master is the URL of the leading master. Problem is why the weights there are unknown.
	Master, Problem string
}

// setupCheck is a check of one subject.
type setupCheck struct {
	name string
	// roles have the check; none means all.
	roles []string
	run   func(*Facts, func(severity, problem, fix string))
}

func setupChecks() []setupCheck {
	return []setupCheck{
		{"configuration", nil, checkConfigFiles},
		{"addresses", nil, checkAddresses},
		{"ports", nil, checkPorts},
		{"clock", nil, checkClock},
		{"zookeeper", []string{ZooKeeper, Master, Agent, Scheduler}, checkZooKeeper},
		{"credentials", nil, checkFiles},
		{"authentication", []string{Master, Agent, Scheduler}, checkAuthentication},
		{"quorum", []string{Master}, checkQuorum},
		{"mesos", []string{Master, Agent}, checkMesosVersions},
		{"isolation", []string{Agent}, checkIsolation},
		{"cgroups", []string{Agent}, checkCgroups},
		{"module", []string{Agent}, checkModule},
		{"daemon", []string{Agent}, checkDaemon},
		{"driver", []string{Agent}, checkDriver},
		{"scheduler", []string{Scheduler}, checkScheduler},
		{"weights", []string{Scheduler}, checkWeights},
	}
}

// Check returns what is wrong with a machine, errors first.
func Check(f *Facts) []Finding {
	var list []Finding
	for _, c := range setupChecks() {
		if len(c.roles) > 0 && !slices.ContainsFunc(c.roles, f.has) {
			continue
		}
		c.run(f, func(severity, problem, fix string) {
			list = append(list, Finding{severity, c.name, problem, fix})
		})
	}
	slices.SortStableFunc(list, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	return list
}

func (f *Facts) has(role string) bool { return slices.Contains(f.Roles, role) }

func checkConfigFiles(f *Facts, report func(severity, problem, fix string)) {
	for _, e := range f.ConfigErrors {
		report(Error, e, "write the configuration by mesos-gpu cluster config, or name the right file by --env or --conf")
	}
}

func checkAddresses(f *Facts, report func(severity, problem, fix string)) {
	for _, name := range slices.Sorted(maps.Keys(f.Resolved)) {
		if len(f.Resolved[name]) == 0 {
			report(Error, fmt.Sprintf("the name %s does not resolve", name), "add it to DNS or to /etc/hosts on all machines, or use IP addresses")
		}
	}
	for _, role := range []string{Master, Agent} {
		env := f.Env[role]
		if env == nil {
			continue
		}
		ip, err := netip.ParseAddr(env["MESOS_IP"])
		several := strings.Contains(env["MESOS_ZK"]+env["MESOS_MASTER"], ",")
		switch {
		case env["MESOS_IP"] == "":
			report(Warning,
				fmt.Sprintf("MESOS_IP of the %s is not set: Mesos uses what the hostname resolves to, often 127.0.1.1", role),
				"set MESOS_IP to the address that the other machines use")
		case err != nil:
			report(Error, fmt.Sprintf("MESOS_IP=%s of the %s is not an address", env["MESOS_IP"], role), "set it to an IP address of this machine")
		case !slices.Contains(f.LocalIPs, ip):
			report(Error, fmt.Sprintf("MESOS_IP=%s of the %s is not an address of this machine, which has %s", ip, role, joinAddrs(f.LocalIPs)), "set it to one of them")
		case ip.IsLoopback() && several:
			report(Error, fmt.Sprintf("MESOS_IP=%s of the %s is reachable on this machine only", ip, role), "set it to the address that the other machines use")
		}
		host := env["MESOS_HOSTNAME"]
		if addrs := f.Resolved[host]; several && slices.ContainsFunc(addrs, netip.Addr.IsLoopback) {
			report(Error,
				fmt.Sprintf("MESOS_HOSTNAME=%s resolves to %s: other machines would call themselves", host, joinAddrs(addrs)),
				"remove the line of 127.0.1.1 from /etc/hosts, or set MESOS_HOSTNAME to the address")
		}
	}
}

func joinAddrs(list []netip.Addr) string {
	var texts []string
	for _, a := range list {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ", ")
}

func checkPorts(f *Facts, report func(severity, problem, fix string)) {
	for _, p := range f.Ports {
		if p.Owner != "" && !strings.Contains(p.Owner, p.Program) {
			report(Error, fmt.Sprintf("port %d of %s is used by %s", p.Port, p.Program, p.Owner), "stop that program, or configure another port")
		}
	}
}

// maxClockOffset is the largest difference between machines that does not confuse
// certificates, logs and timeouts.
const maxClockOffset = 2 * time.Second

func checkClock(f *Facts, report func(severity, problem, fix string)) {
	if f.Clock.Known && !f.Clock.Synchronized {
		report(Warning, "the clock is not synchronized", "install chrony or enable systemd-timesyncd: timedatectl set-ntp true")
	}
	for _, host := range slices.Sorted(maps.Keys(f.Clock.Offsets)) {
		if d := f.Clock.Offsets[host]; d.Abs() > maxClockOffset {
			report(Error, fmt.Sprintf("the clock differs by %s from that of %s", d.Round(time.Second), host),
				"synchronize the clocks of both machines with the same servers")
		}
	}
}

func checkZooKeeper(f *Facts, report func(severity, problem, fix string)) {
	servers := slices.Sorted(maps.Keys(f.ZooKeepers))
	answers := 0
	for _, s := range servers {
		z := f.ZooKeepers[s]
		if z.Problem != "" {
			report(Warning, fmt.Sprintf("the ZooKeeper server %s does not answer: %s", s, z.Problem),
				"start it (systemctl start zookeeper) and open ports 2181, 2888 and 3888 between the machines")
			continue
		}
		answers++
		if z.Mode == "standalone" && len(servers) > 1 {
			report(Error, fmt.Sprintf("the ZooKeeper server %s is standalone, not one of %d", s, len(servers)),
				"list all servers as server.N in "+ZooConf+" and restart it")
		}
	}
	if n := len(servers); n > 0 && answers <= n/2 {
		report(Error,
			fmt.Sprintf("%d of %d ZooKeeper servers answer: masters and schedulers cannot elect a leader", answers, n),
			fmt.Sprintf("let at least %d run", n/2+1))
	}
	if n := len(servers); n > 0 && n%2 == 0 {
		report(Warning, fmt.Sprintf("%d ZooKeeper servers tolerate no more failures than %d", n, n-1), "use an odd number of servers")
	}
	urls := map[string]string{
		"the masters' MESOS_ZK":    f.Env[Master]["MESOS_ZK"],
		"the agent's MESOS_MASTER": f.Env[Agent]["MESOS_MASTER"],
		"the scheduler's master":   f.Conf[Scheduler]["master"],
	}
	first := ""
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		url := urls[name]
		if !strings.HasPrefix(url, "zk://") {
			continue
		}
		if first == "" {
			first = name
		} else if url != urls[first] {
			report(Error, fmt.Sprintf("%s is %s, but %s is %s", name, url, first, urls[first]), "use the same address in both, with the same folder")
		}
	}
}

func checkFiles(f *Facts, report func(severity, problem, fix string)) {
	for _, file := range slices.Sorted(maps.Keys(f.Files)) {
		i := f.Files[file]
		switch {
		case i.Missing:
			report(Error, fmt.Sprintf("%s, which the configuration names, does not exist", file),
				"write it as docs/guides/cluster.md describes, or copy it from another machine of the cluster")
		case i.Problem != "":
			fix := "correct the file"
			if i.Secret {
				fix += `; a credential is {"principal": "NAME", "secret": "TEXT"}`
			}
			report(Error, fmt.Sprintf("%s: %s", file, i.Problem), fix)
		case i.Secret && i.Mode&0o077&^0o040 != 0:
			report(Error, fmt.Sprintf("%s has mode %04o: other users may read its secret", file, i.Mode), "chmod 600 "+file)
		}
	}
}

func checkAuthentication(f *Facts, report func(severity, problem, fix string)) {
	isSet := func(role, name string) bool { v := f.Env[role][name]; return v == "true" || v == "1" }
	if isSet(Master, "MESOS_AUTHENTICATE_AGENTS") && f.has(Agent) && f.Env[Agent]["MESOS_CREDENTIAL"] == "" {
		report(Error, "the master requires MESOS_AUTHENTICATE_AGENTS, but the agent has no MESOS_CREDENTIAL", "set MESOS_CREDENTIAL in "+AgentEnv)
	}
	for _, name := range []string{"MESOS_AUTHENTICATE_AGENTS", "MESOS_AUTHENTICATE_HTTP_FRAMEWORKS"} {
		if isSet(Master, name) && f.Env[Master]["MESOS_CREDENTIALS"] == "" {
			report(Error, name+" is set without MESOS_CREDENTIALS: nothing can register", "set MESOS_CREDENTIALS in "+MasterEnv)
		}
	}
	if isSet(Master, "MESOS_AUTHENTICATE_HTTP_FRAMEWORKS") && f.Env[Master]["MESOS_HTTP_FRAMEWORK_AUTHENTICATORS"] == "" {
		report(Error,
			"MESOS_AUTHENTICATE_HTTP_FRAMEWORKS is set without MESOS_HTTP_FRAMEWORK_AUTHENTICATORS: the master does not start",
			"set MESOS_HTTP_FRAMEWORK_AUTHENTICATORS=basic")
	}
	if isSet(Master, "MESOS_AUTHENTICATE_HTTP_FRAMEWORKS") && f.has(Scheduler) && f.Conf[Scheduler]["credential"] == "" {
		report(Error, "the master requires frameworks to authenticate, but the scheduler has no credential", "set credential in "+SchedulerConf)
	}
	if isSet(Agent, "MESOS_AUTHENTICATE_HTTP_READWRITE") && !isSet(Agent, "MESOS_AUTHENTICATE_HTTP_EXECUTORS") {
		report(Error,
			"MESOS_AUTHENTICATE_HTTP_READWRITE is set without MESOS_AUTHENTICATE_HTTP_EXECUTORS: tasks cannot start",
			"set MESOS_AUTHENTICATE_HTTP_EXECUTORS=true and MESOS_JWT_SECRET_KEY")
	}
	if isSet(Agent, "MESOS_AUTHENTICATE_HTTP_READWRITE") && f.Conf[Agent]["credential"] == "" {
		report(Error, "the agent requires authentication, but the daemon has no credential", "set credential in "+AgentConf)
	}
	if tls := isSet(Agent, "LIBPROCESS_SSL_ENABLED"); f.has(Agent) && f.Conf[Agent] != nil && tls != strings.HasPrefix(f.Conf[Agent]["agent"], "https://") {
		report(Error,
			fmt.Sprintf("LIBPROCESS_SSL_ENABLED of the agent is %v, but the daemon connects to %s", tls, cmp.Or(f.Conf[Agent]["agent"], "http://127.0.0.1:5051")),
			"set agent in "+AgentConf+" to the address with the right scheme")
	} else if tls && f.has(Agent) {
		socket := f.Env[Agent][domainSocketLocation]
		switch {
		case !isSet(Agent, "MESOS_HTTP_EXECUTOR_DOMAIN_SOCKETS"):
			report(Error, "the agent has TLS, and MESOS_HTTP_EXECUTOR_DOMAIN_SOCKETS is not set: executors cannot register, so no task starts",
				"run mesos-gpu cluster config again, which sets it and writes mesos-agent.socket")
		case !strings.HasPrefix(socket, "systemd:"):
			report(Error, fmt.Sprintf("the agent has TLS, and %s is %q: a socket that the agent creates speaks TLS, which executors do not, so no task starts",
				domainSocketLocation, socket), "run mesos-gpu cluster config again, which sets it to systemd:executors and writes mesos-agent.socket")
		}
	}
}

func checkQuorum(f *Facts, report func(severity, problem, fix string)) {
	env := f.Env[Master]
	quorum, err := strconv.Atoi(env["MESOS_QUORUM"])
	if env["MESOS_ZK"] == "" || env["MESOS_REGISTRY"] == "in_memory" {
		return
	}
	if err != nil {
		report(Error, fmt.Sprintf("MESOS_QUORUM=%s is not a number, but MESOS_ZK is set", env["MESOS_QUORUM"]), "set it to more than half of the number of masters")
		return
	}
	if n := len(f.Mesos.Masters); n > 0 && quorum <= n/2 {
		report(Error,
			fmt.Sprintf("MESOS_QUORUM=%d is not more than half of the %d masters: two could lead, and the registry be lost", quorum, n),
			fmt.Sprintf("set it to %d on all masters", n/2+1))
	}
}

func checkMesosVersions(f *Facts, report func(severity, problem, fix string)) {
	if f.Mesos.Problem != "" {
		report(Error, "the version of Mesos is unknown: "+f.Mesos.Problem, "install Mesos, or name its folder by --mesos")
	}
	for _, m := range slices.Sorted(maps.Keys(f.Mesos.Masters)) {
		if v := f.Mesos.Masters[m]; v != "" && f.Mesos.Installed != "" && majorMinor(v) != majorMinor(f.Mesos.Installed) {
			report(Warning, fmt.Sprintf("master %s has Mesos %s, this machine %s", m, v, f.Mesos.Installed), "upgrade masters first, then agents, to the same version")
		}
	}
}

func majorMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// IsolatorName is the name of the isolator in the agents' module.
const IsolatorName = "io_mesosgpu_GpuIsolator"

// DefaultSocket is the daemon's socket if the configuration names none.
const DefaultSocket = "/run/mesos-gpu/agent.sock"

func checkIsolation(f *Facts, report func(severity, problem, fix string)) {
	env := f.Env[Agent]
	if env == nil {
		return
	}
	list := strings.Split(env["MESOS_ISOLATION"], ",")
	has := func(name string) bool { return slices.Contains(list, name) }
	set := "in MESOS_ISOLATION of " + AgentEnv
	if has("gpu/nvidia") && has(IsolatorName) {
		report(Error, "both gpu/nvidia and "+IsolatorName+" isolate GPUs: they would give one GPU to two containers", "remove gpu/nvidia "+set)
	}
	if env["MESOS_MODULES"] != "" && !has(IsolatorName) {
		report(Error, "the module is loaded but not used: containers can open all GPUs", "add "+IsolatorName+" "+set)
	}
	if has(IsolatorName) && env["MESOS_MODULES"] == "" {
		report(Error, IsolatorName+" is in the isolation but MESOS_MODULES does not load it: the agent does not start", "set MESOS_MODULES=file://"+ModulesFile)
	}
	if env["MESOS_LAUNCHER"] != "" && env["MESOS_LAUNCHER"] != "linux" {
		report(Error, fmt.Sprintf("MESOS_LAUNCHER=%s puts containers in no cgroups", env["MESOS_LAUNCHER"]), "set MESOS_LAUNCHER=linux")
	}
	if has(IsolatorName) && !f.Cgroups.V2Mounted && !has("cgroups/devices") {
		report(Error, "on cgroup v1 devices are denied by cgroups/devices, which is missing", "add cgroups/devices "+set)
	}
	if has("cgroups/devices") && f.Cgroups.V2Mounted {
		report(Error, "cgroups/devices needs cgroup v1, this machine has v2: the agent does not start", "remove cgroups/devices "+set+": the daemon denies devices")
	}
	if env["MESOS_IMAGE_PROVIDERS"] != "" && !(has("filesystem/linux") && has("docker/runtime")) {
		report(Error, "MESOS_IMAGE_PROVIDERS is set without filesystem/linux and docker/runtime: images are ignored", "add both "+set)
	}
}

func checkCgroups(f *Facts, report func(severity, problem, fix string)) {
	c := f.Cgroups
	need, got, fix := []string{"cpu", "memory", "devices", "freezer"}, c.V1, "boot with systemd.unified_cgroup_hierarchy=0, or enable the controllers"
	if c.V2Mounted {
		need, got, fix = []string{"cpu", "memory", "pids"}, c.V2, "enable them in the root group: echo +cpu +memory +pids > /sys/fs/cgroup/cgroup.subtree_control"
		if v := f.Mesos.Installed; v != "" && compareVersions(v, "1.12") < 0 {
			report(Error, fmt.Sprintf("Mesos %s supports cgroup v1 only, this machine has v2", v),
				"install Mesos 1.12 or newer, or boot with systemd.unified_cgroup_hierarchy=0")
		}
	}
	var missing []string
	for _, controller := range need {
		if !slices.Contains(got, controller) {
			missing = append(missing, controller)
		}
	}
	if len(missing) > 0 {
		report(Error, fmt.Sprintf("cgroup %s lacks the controllers %s", map[bool]string{true: "v2", false: "v1"}[c.V2Mounted], strings.Join(missing, ", ")), fix)
	}
}

// compareVersions compares dotted numbers.
func compareVersions(a, b string) int {
	numbers := func(v string) (list []int) {
		for part := range strings.SplitSeq(v, ".") {
			n, _ := strconv.Atoi(part)
			list = append(list, n)
		}
		return list
	}
	return slices.Compare(numbers(a), numbers(b))
}

func checkModule(f *Facts, report func(severity, problem, fix string)) {
	m := f.Module
	build := "build it for this Mesos: make module MESOS_PREFIX=…, and install it to " + cmp.Or(m.File, "the path in "+ModulesFile)
	if f.Env[Agent] != nil && f.Env[Agent]["MESOS_MODULES"] == "" {
		report(Warning, "the agent loads no module: containers are not confined to their GPUs",
			"set MESOS_MODULES and MESOS_ISOLATION as mesos-gpu cluster config writes them")
		return
	}
	switch {
	case m.Problem != "":
		report(Error, m.Problem, build)
	case f.Mesos.Installed != "" && m.Mesos != f.Mesos.Installed:
		report(Error, fmt.Sprintf("%s is built for Mesos %s, this machine has %s: the agent does not start", m.File, m.Mesos, f.Mesos.Installed), build)
	case f.Daemon.AgentAPI != "" && m.AgentAPI != f.Daemon.AgentAPI:
		report(Error, fmt.Sprintf("%s uses API %s, the daemon has %s", m.File, m.AgentAPI, f.Daemon.AgentAPI), "install module and package of the same release")
	}
	if m.Socket != "" && f.Daemon.Socket != "" && m.Socket != f.Daemon.Socket {
		report(Error, fmt.Sprintf("the module calls %s, the daemon listens on %s", m.Socket, f.Daemon.Socket), "use one path in "+ModulesFile+" and "+AgentConf)
	}
}

func checkDaemon(f *Facts, report func(severity, problem, fix string)) {
	for _, device := range slices.Sorted(maps.Keys(f.Daemon.StrayHolders)) {
		report(Warning,
			fmt.Sprintf("GPU %s is not offered: %s holds it and is no task of the agent", device, f.Daemon.StrayHolders[device]),
			"end that container; mesos-gpu agent devices shows when the GPU is free")
	}
	if f.Daemon.Problem != "" {
		report(Error, "the agent daemon does not answer, so no GPU container starts: "+f.Daemon.Problem,
			"systemctl enable --now mesos-gpu-agent; its log says why it does not start: journalctl -u mesos-gpu-agent")
	}
}

func checkDriver(f *Facts, report func(severity, problem, fix string)) {
	d := f.Driver
	simulated := f.Conf[Agent]["simulate"] != ""
	switch {
	case simulated && d.PCI > 0:
		report(Warning, fmt.Sprintf("GPUs are simulated, but this machine has %d real ones", d.PCI), "remove simulate from "+AgentConf)
	case simulated:
	case d.PCI == 0:
		report(Error, "this machine has no NVIDIA GPU, and the daemon simulates none", "use the role agent only on machines with GPUs, or set simulate in "+AgentConf)
	case d.Kernel == "":
		report(Error, fmt.Sprintf("%d GPUs have no driver: its kernel module is not loaded", d.PCI),
			"install NVIDIA's driver; then modprobe nvidia, and systemctl restart mesos-gpu-agent")
	case d.Problem != "":
		report(Error, "the driver's library does not work: "+d.Problem, "install library and kernel module of the same version, "+d.Kernel)
	case d.Library != d.Kernel:
		report(Error, fmt.Sprintf("the driver's library is %s, its kernel module %s", d.Library, d.Kernel),
			"reboot, or reload the module after an upgrade of the driver")
	}
	if !simulated && len(d.Unlinked) > 0 {
		report(Warning, fmt.Sprintf("%s have no link in /dev/char: with Docker's cgroup driver systemd, containers lose their GPUs at systemctl daemon-reload",
			strings.Join(d.Unlinked, ", ")), "nvidia-ctk system create-dev-char-symlinks --create-all, after each boot; or Docker's option native.cgroupdriver=cgroupfs")
	}
}

func checkScheduler(f *Facts, report func(severity, problem, fix string)) {
	conf := f.Conf[Scheduler]
	if conf == nil {
		return
	}
	if conf["master"] == "" {
		report(Warning, "the scheduler has no master, and looks for one on this machine", "set master=zk://HOST:2181,…/mesos in "+SchedulerConf)
	}
	host, _, _ := strings.Cut(conf["listen"], ":")
	ip, err := netip.ParseAddr(host)
	open := conf["listen"] != "" && (err != nil || !ip.IsLoopback())
	if open && conf["insecure-api"] != "true" && (conf["access"] == "" || conf["api-tls-cert"] == "") {
		report(Error,
			fmt.Sprintf("the scheduler listens on %s without access control or certificate, and does not start", conf["listen"]),
			"set access, api-tls-cert and api-tls-key, or listen on 127.0.0.1")
	}
	if open && conf["insecure-api"] == "true" {
		report(Warning, fmt.Sprintf("every client that reaches %s may do everything", conf["listen"]),
			"set access, api-tls-cert and api-tls-key, and remove insecure-api")
	}
	if strings.HasPrefix(conf["journal"], "zk://") && conf["journal-auth-file"] == "" {
		report(Warning, "every client of ZooKeeper may change the journal", "set journal-auth-file to a file with USER:PASSWORD")
	}
}

func checkWeights(f *Facts, report func(severity, problem, fix string)) {
	w := &f.Weights
	permit := fmt.Sprintf("let the master's ACLs permit update_weights to %s", cmp.Or(f.Conf[Scheduler]["credential"], "every client"))
	if len(w.Roles) > 0 && w.Problem != "" {
		report(Warning, fmt.Sprintf("%s gives roles weights, but those in Mesos are unknown: %s", w.RolesFile, w.Problem),
			"start the master; "+permit)
		return
	}
	for _, role := range slices.Sorted(maps.Keys(w.Roles)) {
		inMesos := w.Mesos[role]
		if inMesos == w.Roles[role] {
			continue
		}
		report(Warning,
			fmt.Sprintf("role %s has weight %g in %s, but %g in Mesos: returned offers leave GPUs idle", role, w.Roles[role], w.RolesFile, inMesos),
			fmt.Sprintf("systemctl reload mesos-gpu-scheduler; if its log says that the master refuses, %s, or set it as its operator: "+
				`curl -X POST -H 'Content-Type: application/json' %s/api/v1 -d '{"type": "UPDATE_WEIGHTS", "update_weights": `+
				`{"weight_infos": [{"role": %q, "weight": %g}]}}'`, permit, w.Master, role, w.Roles[role]))
	}
}
