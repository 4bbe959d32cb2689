package setup

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"mesos-gpu/framework"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/internal/clustersetup"
	"mesos-gpu/isolator/module"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/socket"
)

// collector collects the facts of this machine.
type collector struct {
	// root is prepended to the paths of files, for tests.
	root string
	// mesos is the folder of Mesos, "" to look for it.
	mesos string
	facts clustersetup.Facts
}

// networkTimeout is how long another machine may take to answer.
const networkTimeout = 3 * time.Second

// findRoles returns the roles for which this machine has configuration files.
func (c *collector) findRoles() (roles []string) {
	for _, role := range clustersetup.Roles() {
		if _, err := os.Stat(c.root + configFile(role)); err == nil {
			roles = append(roles, role)
		}
	}
	return roles
}

func configFile(role string) string {
	return map[string]string{
		clustersetup.ZooKeeper: clustersetup.ZooConf, clustersetup.Master: clustersetup.MasterEnv,
		clustersetup.Agent: clustersetup.AgentEnv, clustersetup.Scheduler: clustersetup.SchedulerConf,
	}[role]
}

// collectFacts reads everything that the checks of the roles use.
func (c *collector) collectFacts(ctx context.Context, roles []string) *clustersetup.Facts {
	f := &c.facts
	*f = clustersetup.Facts{Roles: roles, Env: map[string]map[string]string{}, Conf: map[string]map[string]string{}, Resolved: map[string][]netip.Addr{},
		Files: map[string]clustersetup.FileFacts{}, ZooKeepers: map[string]clustersetup.ServerFacts{}}
	for _, role := range roles {
		switch role {
		case clustersetup.Master:
			f.Env[role] = c.readOptions(clustersetup.MasterEnv)
			c.addPort(5050, "mesos-master")
		case clustersetup.Agent:
			f.Env[role] = c.readOptions(clustersetup.AgentEnv)
			f.Conf[role] = c.readOptions(clustersetup.AgentConf)
			c.addPort(5051, "mesos-agent")
		case clustersetup.Scheduler:
			f.Conf[role] = c.readOptions(clustersetup.SchedulerConf)
			c.addPort(8080, "mesos-gpu")
		case clustersetup.ZooKeeper:
			c.addPort(2181, "java")
		}
	}
	c.readAddresses(ctx)
	c.readClock()
	c.readCgroups()
	c.readFiles()
	c.askServers(ctx)
	c.readMesos(ctx)
	c.readWeights(ctx)
	if _, ok := f.Env[clustersetup.Agent]; ok {
		c.readModule()
		c.askDaemon(ctx)
		c.readDriver()
	}
	return f
}

// readOptions reads a file of NAME=VALUE lines, nil if it cannot be read.
func (c *collector) readOptions(path string) map[string]string {
	text, err := os.ReadFile(c.root + path)
	if err != nil {
		c.facts.ConfigErrors = append(c.facts.ConfigErrors, err.Error())
		return nil
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			c.facts.ConfigErrors = append(c.facts.ConfigErrors, fmt.Sprintf("%s: the line %q is not NAME=VALUE", path, line))
			continue
		}
		values[name] = strings.Trim(value, `"'`)
	}
	return values
}

func (c *collector) addPort(port int, program string) {
	c.facts.Ports = append(c.facts.Ports, clustersetup.PortFacts{Port: port, Program: program, Owner: c.portOwner(port)})
}

// portOwner returns the name of the process that listens on a port, "another program" if
// it cannot be read, and "" if the port is free.
func (c *collector) portOwner(port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(c.root + table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			field := strings.Fields(line)
			if len(field) > 9 && strings.HasSuffix(field[1], fmt.Sprintf(":%04X", port)) && field[3] == "0A" { // LISTEN
				inodes["socket:["+field[9]+"]"] = true
			}
		}
	}
	if len(inodes) == 0 {
		return ""
	}
	links, _ := filepath.Glob(c.root + "/proc/[0-9]*/fd/*")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && inodes[target] {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(link)), "comm"))
			return strings.TrimSpace(string(name))
		}
	}
	return "another program"
}

func (c *collector) readAddresses(ctx context.Context) {
	f := &c.facts
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			f.LocalIPs = append(f.LocalIPs, p.Addr())
		}
	}
	names := []string{f.Env[clustersetup.Master]["MESOS_HOSTNAME"], f.Env[clustersetup.Agent]["MESOS_HOSTNAME"]}
	for _, server := range c.zooKeepers() {
		host, _, _ := net.SplitHostPort(server)
		names = append(names, host)
	}
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	for _, name := range names {
		if name == "" {
			continue
		}
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		if err != nil {
			found = nil
		}
		for i := range found {
			found[i] = found[i].Unmap()
		}
		f.Resolved[name] = found
	}
}

// readClock reads whether the kernel considers the clock synchronized.
func (c *collector) readClock() {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	const unsynchronized, stateError = 0x40, 5 // STA_UNSYNC, TIME_ERROR
	c.facts.Clock = clustersetup.ClockFacts{
		Known:        err == nil,
		Synchronized: state != stateError && t.Status&unsynchronized == 0,
		Offsets:      map[string]time.Duration{},
	}
}

func (c *collector) readCgroups() {
	text, err := os.ReadFile(c.root + "/proc/self/mountinfo")
	if err != nil {
		return
	}
	g := &c.facts.Cgroups
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		mounted, kind := strings.Fields(before), strings.Fields(after)
		switch {
		case len(mounted) < 5 || len(kind) < 3:
		case kind[0] == "cgroup":
			g.V1 = append(g.V1, strings.Split(kind[2], ",")...)
		case kind[0] == "cgroup2" && mounted[4] == "/sys/fs/cgroup":
			g.V2Mounted = true
		}
	}
	if text, err := os.ReadFile(c.root + "/sys/fs/cgroup/cgroup.controllers"); err == nil {
		g.V2 = strings.Fields(string(text))
	}
}

// readFiles examines the files that the configuration names.
func (c *collector) readFiles() {
	for _, options := range []map[string]map[string]string{c.facts.Env, c.facts.Conf} {
		for _, values := range options {
			for name, value := range values {
				c.readNamedFile(name, strings.TrimPrefix(value, "file://"))
			}
		}
	}
}

var (
	credentialOption = regexp.MustCompile(`^(MESOS_(HTTP_)?CREDENTIALS?|credential)$`)
	secretOption     = regexp.MustCompile(`KEY|key|auth-file`)
	fileOption       = regexp.MustCompile(`^(LIBPROCESS_SSL_(CERT|KEY|CA)_FILE|` +
		`(api-)?tls-(ca|cert|key)|access|(zk|journal)-auth-file|roles|MESOS_JWT_SECRET_KEY)$`)
)

func (c *collector) readNamedFile(option, path string) {
	credential := credentialOption.MatchString(option)
	if path == "" || !credential && !fileOption.MatchString(option) {
		return
	}
	info, err := os.Stat(c.root + path)
	if err != nil {
		c.facts.Files[path] = clustersetup.FileFacts{Missing: errors.Is(err, fs.ErrNotExist), Problem: err.Error()}
		return
	}
	file := clustersetup.FileFacts{Mode: uint32(info.Mode().Perm()), Secret: credential || secretOption.MatchString(option)}
	if credential {
		file.Problem = c.credentialProblem(path)
	}
	c.facts.Files[path] = file
}

// credentialProblem returns why a file has no credentials of Mesos's format, or "".
func (c *collector) credentialProblem(path string) string {
	text, err := os.ReadFile(c.root + path)
	if err != nil {
		return err.Error()
	}
	var one struct {
		Principal, Secret string
		Credentials       []struct{ Principal, Secret string }
	}
	if err := json.Unmarshal(text, &one); err != nil {
		return "not JSON: " + err.Error()
	}
	if one.Principal == "" && len(one.Credentials) == 0 {
		return "it names no principal"
	}
	return ""
}

// zooKeepers returns the HOST:PORT of the servers that the configuration names.
func (c *collector) zooKeepers() (servers []string) {
	f := &c.facts
	for _, text := range []string{
		f.Env[clustersetup.Master]["MESOS_ZK"], f.Env[clustersetup.Agent]["MESOS_MASTER"],
		f.Conf[clustersetup.Scheduler]["master"], f.Conf[clustersetup.Scheduler]["journal"],
	} {
		rest, ok := strings.CutPrefix(text, "zk://")
		if !ok {
			continue
		}
		hosts, _, _ := strings.Cut(rest, "/")
		if at := strings.LastIndex(hosts, "@"); at >= 0 {
			hosts = hosts[at+1:]
		}
		servers = append(servers, strings.Split(hosts, ",")...)
	}
	return servers
}

// askServers asks ZooKeeper's servers for their state, and the masters, which usually run
// on the same machines, for their version and time.
func (c *collector) askServers(ctx context.Context) {
	f := &c.facts
	f.Mesos.Masters = map[string]string{}
	for _, server := range c.zooKeepers() {
		if _, ok := f.ZooKeepers[server]; ok {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, networkTimeout)
		f.ZooKeepers[server] = askZooKeeper(limited, server)
		cancel()
		if host, _, err := net.SplitHostPort(server); err == nil {
			c.askMaster(ctx, net.JoinHostPort(host, "5050"))
		}
	}
	if u, err := url.Parse(f.Conf[clustersetup.Scheduler]["master"]); err == nil && strings.HasPrefix(u.Scheme, "http") {
		c.askMaster(ctx, u.Host)
	}
}

// askZooKeeper asks a server for its state, until ctx's deadline.
func askZooKeeper(ctx context.Context, server string) clustersetup.ServerFacts {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", server)
	if err != nil {
		return clustersetup.ServerFacts{Problem: err.Error()}
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return clustersetup.ServerFacts{Problem: err.Error()}
	}
	lines := bufio.NewScanner(io.LimitReader(conn, 1<<16))
	answer := ""
	for lines.Scan() {
		if mode, ok := strings.CutPrefix(lines.Text(), "Mode: "); ok {
			return clustersetup.ServerFacts{Mode: mode}
		}
		answer += lines.Text()
	}
	return clustersetup.ServerFacts{Problem: fmt.Sprintf("its answer to srvr is %q", answer)}
}

func (c *collector) askMaster(ctx context.Context, address string) {
	scheme, transport := "http", &http.Transport{}
	defer transport.CloseIdleConnections()
	if authority := c.masterAuthority(); authority != "" {
		encryption := master.TLSFiles{CAFile: c.root + authority}
		config, err := encryption.ClientConfig()
		if err != nil {
			return // the check of the files reports it
		}
		scheme, transport.TLSClientConfig = "https", config
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/version", nil)
	if err != nil {
		return
	}
	client := http.Client{Timeout: networkTimeout, Transport: transport}
	begun := time.Now()
	resp, err := client.Do(r)
	if err != nil {
		return // ZooKeeper may run on machines without a master
	}
	defer resp.Body.Close()
	var v struct{ Version string }
	if json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&v) != nil || v.Version == "" {
		return
	}
	c.facts.Mesos.Masters[address] = v.Version
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		// The header has whole seconds; the answer was written between begun and now.
		switch own := time.Now(); {
		case date.After(own):
			c.facts.Clock.Offsets[address] = own.Sub(date)
		case date.Add(time.Second).Before(begun):
			c.facts.Clock.Offsets[address] = begun.Sub(date.Add(time.Second))
		}
	}
}

// masterAuthority returns the file of the certificates that the configuration trusts for masters, "" if they use no TLS.
func (c *collector) masterAuthority() string {
	for _, role := range []string{clustersetup.Master, clustersetup.Agent} {
		if env := c.facts.Env[role]; env["LIBPROCESS_SSL_ENABLED"] != "" {
			return env["LIBPROCESS_SSL_CA_FILE"]
		}
	}
	return c.facts.Conf[clustersetup.Scheduler]["tls-ca"]
}

var mesosVersion = regexp.MustCompile(`mesos ([0-9.]+)`)

func (c *collector) readMesos(ctx context.Context) {
	f := &c.facts
	program := ""
	switch { // an agent needs the version for its module
	case f.Env[clustersetup.Agent] != nil:
		program = "mesos-agent"
	case f.Env[clustersetup.Master] != nil:
		program = "mesos-master"
	default:
		return
	}
	path := filepath.Join(c.mesos, "sbin", program)
	if c.mesos == "" {
		path = program
	}
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	if m := mesosVersion.FindSubmatch(out); m != nil {
		f.Mesos.Installed = string(m[1])
	} else {
		f.Mesos.Problem = fmt.Sprintf("%s --version: %v %s", path, err, bytes.TrimSpace(out))
	}
}

// readWeights reads the weights of the roles file and those in Mesos.
func (c *collector) readWeights(ctx context.Context) {
	f := &c.facts
	conf, w := f.Conf[clustersetup.Scheduler], &f.Weights
	w.RolesFile = conf["roles"]
	if w.RolesFile == "" || f.Files[w.RolesFile].Missing {
		return
	}
	roles, err := framework.LoadRoles(c.root + w.RolesFile)
	if err != nil {
		file := f.Files[w.RolesFile]
		file.Problem = err.Error()
		f.Files[w.RolesFile] = file
		return
	}
	if w.Roles = queue.MesosWeights(roles); w.Roles == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	if w.Master, w.Mesos, err = c.listMesosWeights(ctx, conf, maps.Keys(w.Roles)); err != nil {
		w.Problem = err.Error()
	}
}

// listMesosWeights returns the URL of the leading master and the weights of roles there. It connects as the scheduler with this
// configuration does.
func (c *collector) listMesosWeights(
	ctx context.Context, conf map[string]string, roles iter.Seq[string],
) (leader string, weights map[string]float64, err error) {
	file := func(option string) string {
		if conf[option] == "" {
			return ""
		}
		return c.root + conf[option]
	}
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	cfg := master.ConnectionConfig{Master: cmp.Or(conf["master"], "http://127.0.0.1:5050"), ZKAuthFile: file("zk-auth-file"), ExecutorPath: "/", Log: quiet}
	if conf["tls-ca"] != "" || conf["tls-cert"] != "" {
		cfg.TLS = &master.TLSFiles{CAFile: file("tls-ca"), CertFile: file("tls-cert"), KeyFile: file("tls-key"), ServerName: conf["tls-server-name"]}
	}
	if path := file("credential"); path != "" {
		if cfg.Credential, _, err = master.LoadCredential(path); err != nil {
			return "", nil, err
		}
	}
	client, err := master.New(cfg)
	if err != nil {
		return "", nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { client.FollowLeader(ctx) })
	if leader, err = client.CurrentLeader(ctx); err != nil {
		return "", nil, err
	}
	weights, err = client.ListWeights(ctx, roles)
	return leader, weights, err
}

// readModule reads the file that modules.json names.
func (c *collector) readModule() {
	m := &c.facts.Module
	file := strings.TrimPrefix(c.facts.Env[clustersetup.Agent]["MESOS_MODULES"], "file://")
	if file == "" {
		return
	}
	text, err := os.ReadFile(c.root + file)
	if err != nil {
		m.Problem = err.Error()
		return
	}
	var list struct {
		Libraries []struct {
			File    string
			Modules []struct {
				Name       string
				Parameters []struct{ Key, Value string }
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		m.Problem = fmt.Sprintf("%s: %v", file, err)
		return
	}
	m.Socket = clustersetup.DefaultSocket
	for _, l := range list.Libraries {
		for _, one := range l.Modules {
			if one.Name != clustersetup.IsolatorName {
				continue
			}
			m.File = l.File
			for _, p := range one.Parameters {
				if p.Key == "socket" {
					m.Socket = p.Value
				}
			}
		}
	}
	if m.File == "" {
		m.Problem = fmt.Sprintf("%s has no module %s", file, clustersetup.IsolatorName)
		return
	}
	info, err := module.ReadInfo(c.root + m.File)
	if err != nil {
		m.Problem = err.Error()
		return
	}
	m.Mesos, m.AgentAPI = info.Mesos, info.AgentAPI
}

func (c *collector) askDaemon(ctx context.Context) {
	d := &c.facts.Daemon
	d.Socket = c.facts.Conf[clustersetup.Agent]["socket"]
	if d.Socket == "" {
		d.Socket = clustersetup.DefaultSocket
	}
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	daemon := socket.NewDaemonClient(c.root + d.Socket)
	version, err := daemon.DaemonVersion(ctx)
	if err != nil {
		d.Problem = err.Error()
		return
	}
	d.Version, d.AgentAPI = version, socket.APIVersion
	devices, err := daemon.ListDevices(ctx)
	if err != nil {
		d.Problem = err.Error()
		return
	}
	d.StrayHolders = map[string]string{}
	for _, device := range devices {
		if holder := device.Condition.Holder; holder != "" {
			d.StrayHolders[device.Device.UUID] = holder
		}
	}
}

var kernelModule = regexp.MustCompile(`Kernel Module.*?\s([0-9]+\.[0-9.]+)`)

func (c *collector) readDriver() {
	d := &c.facts.Driver
	vendors, _ := filepath.Glob(c.root + "/sys/bus/pci/devices/*/vendor")
	for _, v := range vendors {
		vendor, _ := os.ReadFile(v)
		class, _ := os.ReadFile(filepath.Join(filepath.Dir(v), "class"))
		if strings.TrimSpace(string(vendor)) == "0x10de" && strings.HasPrefix(string(class), "0x03") {
			d.PCI++
		}
	}
	if _, err := os.Stat(c.root + "/run/systemd/system"); err == nil {
		d.Unlinked = c.listUnlinkedNodes()
	}
	text, err := os.ReadFile(c.root + "/proc/driver/nvidia/version")
	if err != nil {
		return
	}
	if m := kernelModule.FindSubmatch(text); m != nil {
		d.Kernel = string(m[1])
	}
	host, err := nvml.DiscoverHost(nvml.LibraryConfig{})
	if err != nil {
		d.Problem = err.Error()
		return
	}
	d.Library = host.Driver
}
