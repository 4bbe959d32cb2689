// Package clustersetup writes the configuration of a cluster's machines, and checks a
// machine's setup. It is pure: the caller collects the facts of the machine and writes
// the files.
package clustersetup

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"mesos-gpu/deploy/etc"
)

// Roles of machines. A machine may have several.
const (
	ZooKeeper = "zookeeper"
	Master    = "master"
	Agent     = "agent"
	Scheduler = "scheduler"
)

// Roles returns the roles, in the order in which a cluster is started.
func Roles() []string { return []string{ZooKeeper, Master, Agent, Scheduler} }

// ClusterConfig describes a cluster and one machine of it.
type ClusterConfig struct {
	// IP is the machine's address, which the others use; Hostname is its name.
	IP, Hostname string
	// Masters are the addresses of all masters. ZooKeepers are HOST:PORT of all
	// ZooKeeper servers; their default is the masters' machines.
	Masters, ZooKeepers []string
	// Schedulers is the number of schedulers. The journal of several is in ZooKeeper.
	Schedulers int
	// Secrets are the secrets of the cluster's principals, by name; nil disables
	// authentication.
	Secrets map[string]string
	// TLS is a folder with ca.pem, cert.pem and key.pem on each machine, or "".
	TLS string
	// InsecureAPI lets several schedulers listen without TLS and access control.
	InsecureAPI bool
	// CgroupV2 is set on machines with cgroup v2 only.
	CgroupV2 bool
	// MesosPrefix is the folder of Mesos, such as /usr/local. Module is the path of the
	// agents' module.
	MesosPrefix, Module string
	// Simulate simulates GPUs on an agent, such as 2xV100.
	Simulate string
}

// Principals that authenticate in a cluster with Secrets.
const (
	agentPrincipal     = "mesos-agent"
	daemonPrincipal    = "mesos-gpu-agent"
	schedulerPrincipal = "mesos-gpu-scheduler"
)

// Principals returns the principals that Secrets has to name.
func Principals() []string { return []string{agentPrincipal, daemonPrincipal, schedulerPrincipal} }

// File is a file of a machine's configuration.
type File struct {
	Path string
	// Mode has the permissions.
	Mode uint32
	Text string
	// Group is the group that may read it, "" for root.
	Group string
	// Packaged is the content with which the package installs the file, "" if it does not.
	Packaged string
}

// Paths of configuration files.
const (
	MasterEnv     = "/etc/mesos/master.env"
	AgentEnv      = "/etc/mesos/agent.env"
	SchedulerConf = "/etc/mesos-gpu/scheduler.conf"
	AgentConf     = "/etc/mesos-gpu/agent.conf"
	ModulesFile   = "/etc/mesos-gpu/modules.json"
	ZooConf       = "/etc/zookeeper/conf/zoo.cfg"
)

// WriteFiles returns the files of a machine with a role.
func WriteFiles(role string, c ClusterConfig) ([]File, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	switch role {
	case ZooKeeper:
		return c.zooKeeperFiles()
	case Master:
		return c.masterFiles()
	case Agent:
		return c.agentFiles()
	case Scheduler:
		return c.schedulerFiles()
	}
	return nil, fmt.Errorf("role %q: use %s", role, strings.Join(Roles(), ", "))
}

// complete sets defaults and checks that the addresses can be used by other machines.
func (c *ClusterConfig) complete() error {
	if len(c.Masters) == 0 {
		return errors.New("the cluster has no masters: name the addresses of all of them")
	}
	if len(c.Masters)%2 == 0 {
		return fmt.Errorf("%d masters tolerate no more failures than %d: use an odd number", len(c.Masters), len(c.Masters)-1)
	}
	if len(c.ZooKeepers) == 0 {
		for _, m := range c.Masters {
			c.ZooKeepers = append(c.ZooKeepers, m+":2181")
		}
	}
	ip, err := netip.ParseAddr(c.IP)
	if err != nil {
		return fmt.Errorf("the machine's address %q is not an IP address", c.IP)
	}
	if ip.IsLoopback() && (len(c.Masters) > 1 || c.Masters[0] != c.IP) {
		return fmt.Errorf("the address %s is reachable on this machine only: use the address that other machines use", ip)
	}
	if c.Hostname == "" {
		c.Hostname = c.IP
	}
	for _, p := range Principals() {
		if c.Secrets != nil && c.Secrets[p] == "" {
			return fmt.Errorf("the credentials lack the principal %s", p)
		}
	}
	return nil
}

func (c *ClusterConfig) zooKeeperURL(folder string) string {
	return "zk://" + strings.Join(c.ZooKeepers, ",") + folder
}

func (c *ClusterConfig) zooKeeperFiles() ([]File, error) {
	var b strings.Builder
	b.WriteString(`# The ZooKeeper servers of the cluster, the same file on each of them.
# Length of a tick in milliseconds; the next two values are in ticks.
tickTime=2000
initLimit=10
syncLimit=5
# Snapshots and transactions. They contain the registry of schedulers' journals:
# use a disk that is not shared with tasks.
dataDir=/var/lib/zookeeper
clientPort=2181
# Keep five snapshots, and remove older ones every day.
autopurge.snapRetainCount=5
autopurge.purgeInterval=24
# "srvr" is what mesos-gpu cluster check asks.
4lw.commands.whitelist=srvr
admin.enableServer=false
`)
	own := 0
	for i, server := range c.ZooKeepers {
		host, port, ok := strings.Cut(server, ":")
		if !ok || port != "2181" {
			return nil, fmt.Errorf("ZooKeeper server %q: use HOST:2181, the port of the servers", server)
		}
		if host == c.IP || host == c.Hostname {
			own = i + 1
		}
		if len(c.ZooKeepers) > 1 {
			fmt.Fprintf(&b, "server.%d=%s:2888:3888\n", i+1, host)
		}
	}
	if own == 0 {
		return nil, fmt.Errorf("neither %s nor %s is one of the ZooKeeper servers %s", c.IP, c.Hostname, strings.Join(c.ZooKeepers, ", "))
	}
	return []File{{Path: ZooConf, Mode: 0o644, Text: b.String()}, {Path: "/var/lib/zookeeper/myid", Mode: 0o644, Text: fmt.Sprintln(own)}}, nil
}

// option is a commented variable of an environment file.
type option struct{ comment, name, value string }

func formatEnv(head string, options []option) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", head)
	for _, o := range options {
		fmt.Fprintf(&b, "\n# %s\n%s=%s\n", o.comment, o.name, o.value)
	}
	return b.String()
}

// commonOptions are the options that masters and agents share.
func (c *ClusterConfig) commonOptions() []option {
	list := []option{
		{"Address on which it listens and at which the other machines reach it.", "MESOS_IP", c.IP},
		{"Name in URLs of the API. It must resolve on all machines.", "MESOS_HOSTNAME", c.Hostname},
	}
	if c.TLS != "" {
		list = append(list,
			option{"TLS for all connections.", "LIBPROCESS_SSL_ENABLED", "1"},
			option{"Reject connections without TLS; 1 while a cluster changes over.", "LIBPROCESS_SSL_SUPPORT_DOWNGRADE", "0"},
			option{"This machine's certificate. It names the addresses MESOS_IP and MESOS_HOSTNAME.", "LIBPROCESS_SSL_CERT_FILE", path.Join(c.TLS, "cert.pem")},
			option{"Its key, mode 0600; on a machine with a scheduler 0640, of the group mesos-gpu.", "LIBPROCESS_SSL_KEY_FILE", path.Join(c.TLS, "key.pem")},
			option{"The authority of the cluster's certificates.", "LIBPROCESS_SSL_CA_FILE", path.Join(c.TLS, "ca.pem")},
			option{"Verify the certificates of servers.", "LIBPROCESS_SSL_VERIFY_SERVER_CERT", "1"},
			option{"Compare the certificate with the address that was called, not with a name that a name server returns for it.",
				"LIBPROCESS_SSL_HOSTNAME_VALIDATION_SCHEME", "openssl"},
			option{"As above: masters and agents call each other by address.", "LIBPROCESS_SSL_VERIFY_IPADD", "1"},
			option{"Ciphers with forward secrecy. Clients of today reject Mesos's default, which has none.", "LIBPROCESS_SSL_CIPHERS", "ECDHE+AESGCM:ECDHE+CHACHA20"})
	}
	return list
}

// unit returns a systemd unit of a Mesos program. dependencies and service are lines of its sections.
func (c *ClusterConfig) unit(program, description, dependencies, env, service, command string) File {
	text := fmt.Sprintf(`[Unit]
Description=%s
%sAfter=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
EnvironmentFile=%s
%sExecStart=%s
Restart=always
RestartSec=5s
LimitNOFILE=65536

[Install]
WantedBy=multi-user.target
`, description, dependencies, env, service, command)
	return File{Path: "/etc/systemd/system/" + program + ".service", Mode: 0o644, Text: text}
}

func (c *ClusterConfig) masterFiles() ([]File, error) {
	if !slices.Contains(c.Masters, c.IP) {
		return nil, fmt.Errorf("%s is not one of the masters %s", c.IP, strings.Join(c.Masters, ", "))
	}
	options := append(c.commonOptions(),
		option{"The election of the leading master: the same on all masters, and --master of agents and schedulers.", "MESOS_ZK", c.zooKeeperURL("/mesos")},
		option{fmt.Sprintf("More than half of the %d masters: with fewer, two could lead.", len(c.Masters)), "MESOS_QUORUM", fmt.Sprint(len(c.Masters)/2 + 1)},
		option{"The registry of agents.", "MESOS_WORK_DIR", "/var/lib/mesos-master"},
		option{"Log to the journal of systemd.", "MESOS_LOGGING_LEVEL", "INFO"},
		option{"How long an agent without an answer may be away before its tasks are unreachable: 5 times 15 s.", "MESOS_MAX_AGENT_PING_TIMEOUTS", "5"},
		option{"GPUs are offered only to frameworks that can use them.", "MESOS_FILTER_GPU_RESOURCES", "true"})
	files := []File{}
	if c.Secrets != nil {
		options = append(options,
			option{"Only agents and frameworks with a secret.", "MESOS_AUTHENTICATE_AGENTS", "true"},
			option{"As above, for frameworks of the older API.", "MESOS_AUTHENTICATE_FRAMEWORKS", "true"},
			option{"As above, for frameworks of the HTTP API.", "MESOS_AUTHENTICATE_HTTP_FRAMEWORKS", "true"},
			option{"How HTTP frameworks authenticate.", "MESOS_HTTP_FRAMEWORK_AUTHENTICATORS", "basic"},
			option{"Operator requests need a secret. The scheduler sets the weights of its roles: with MESOS_ACLS, permit update_weights to its principal.",
				"MESOS_AUTHENTICATE_HTTP_READWRITE", "true"},
			option{"The principals and their secrets.", "MESOS_CREDENTIALS", "file:///etc/mesos/credentials.json"})
		text, err := c.formatCredentials()
		if err != nil {
			return nil, err
		}
		files = append(files, File{Path: "/etc/mesos/credentials.json", Mode: 0o600, Text: text})
	}
	return append(files,
		File{
			Path: MasterEnv,
			Mode: 0o644,
			Text: formatEnv("Options of mesos-master. To apply a change: systemctl restart mesos-master. Tasks keep running.", options),
		},
		c.unit("mesos-master", "Mesos master", "After=zookeeper.service\n", MasterEnv, "", path.Join(c.MesosPrefix, "sbin/mesos-master"))), nil
}

type credential struct {
	Principal string `json:"principal"`
	Secret    string `json:"secret"`
}

func (c *ClusterConfig) formatCredentials() (string, error) {
	all := struct {
		Credentials []credential `json:"credentials"`
	}{}
	for _, p := range Principals() {
		all.Credentials = append(all.Credentials, credential{p, c.Secrets[p]})
	}
	text, err := json.MarshalIndent(all, "", "  ")
	return string(text) + "\n", err
}

func (c *ClusterConfig) formatCredential(principal string) (string, error) {
	text, err := json.Marshal(credential{principal, c.Secrets[principal]})
	return string(text) + "\n", err
}

// isolators returns the agent's --isolation: what the keys of job files need.
func (c *ClusterConfig) isolators() string {
	list := []string{
		"cgroups/devices", "cgroups/cpu", "cgroups/mem", "filesystem/linux", "docker/runtime", "disk/du",
		"volume/host_path", "posix/rlimits", "namespaces/ipc", "network/cni", "io_mesosgpu_GpuIsolator",
	}
	if c.CgroupV2 {
		list = list[1:] // the daemon attaches the programs that deny devices
	}
	return strings.Join(list, ",")
}

// domainSocketLocation is the option of the agent's socket for executors.
const domainSocketLocation = "MESOS_DOMAIN_SOCKET_LOCATION"

// executorSocketUnit is the socket of executors, which systemd passes to the agent: the only kind on which an agent with TLS speaks
// plain HTTP. A failed handshake would end the server of a socket that the agent creates.
var executorSocketUnit = File{Path: "/etc/systemd/system/mesos-agent.socket", Mode: 0o644, Text: `[Unit]
Description=Executors' socket of the Mesos agent

[Socket]
ListenStream=/run/mesos/agent.sock
FileDescriptorName=executors
# Executors authenticate by a token of the agent.
SocketMode=0666
`}

func (c *ClusterConfig) agentFiles() ([]File, error) {
	options := append(c.commonOptions(),
		option{"The masters' --zk.", "MESOS_MASTER", c.zooKeeperURL("/mesos")},
		option{"Sandboxes, images and the state that survives a restart.", "MESOS_WORK_DIR", "/var/lib/mesos"},
		option{"State of running containers. A reboot deletes it, as it ends the containers.", "MESOS_RUNTIME_DIR", "/run/mesos"},
		option{"Docker containers are started by mesos-gpu's executor, in Mesos's own containers.", "MESOS_CONTAINERIZERS", "mesos"},
		option{"Images of docker registries for jobs with container: mesos.", "MESOS_IMAGE_PROVIDERS", "docker"},
		option{"Containers in cgroups.", "MESOS_LAUNCHER", "linux"},
		option{"The unit has KillMode=process and Delegate=yes, so Mesos need not create scopes.", "MESOS_SYSTEMD_ENABLE_SUPPORT", "false"},
		option{"GPU isolation is the last one. Not gpu/nvidia, Mesos's own, which does not know gpu_ids.", "MESOS_ISOLATION", c.isolators()},
		option{"Loads the module that calls the daemon, mesos-gpu-agent.service.", "MESOS_MODULES", "file://" + ModulesFile})
	conf := map[string]string{"agent": "http://" + c.IP + ":5051", "simulate": c.Simulate}
	var files []File
	if c.Secrets != nil {
		options = append(options, option{"This agent's principal and secret.", "MESOS_CREDENTIAL", "file:///etc/mesos/agent-credential.json"},
			option{"Operator requests to the agent need a secret: those of the daemon and of the scheduler.", "MESOS_AUTHENTICATE_HTTP_READWRITE", "true"},
			option{"Tasks could not start otherwise: their executors authenticate by tokens of the agent.", "MESOS_AUTHENTICATE_HTTP_EXECUTORS", "true"},
			option{"The key of these tokens.", "MESOS_JWT_SECRET_KEY", "/etc/mesos/executor-key"},
			option{"The principals that may send such requests.", "MESOS_HTTP_CREDENTIALS", "file:///etc/mesos/agent-http-credentials.json"})
		conf["credential"] = "/etc/mesos-gpu/daemon-credential.json"
		own, err := c.formatCredential(agentPrincipal)
		daemon, derr := c.formatCredential(daemonPrincipal)
		all, aerr := c.formatCredentials()
		if err := errors.Join(err, derr, aerr); err != nil {
			return nil, err
		}
		files = append(files, File{Path: "/etc/mesos/agent-credential.json", Mode: 0o600, Text: own},
			File{Path: "/etc/mesos/agent-http-credentials.json", Mode: 0o600, Text: all},
			File{
				Path: "/etc/mesos/executor-key",
				Mode: 0o600,
				Text: c.Secrets[agentPrincipal] + c.Secrets[daemonPrincipal] + "\n",
			}, File{Path: "/etc/mesos-gpu/daemon-credential.json", Mode: 0o600, Text: daemon})
	}
	if c.TLS != "" {
		options = append(options, option{"Executors call the agent by a unix socket: the agent passes them neither TLS nor its authority.",
			"MESOS_HTTP_EXECUTOR_DOMAIN_SOCKETS", "true"},
			option{"The socket is that of mesos-agent.socket. One that the agent creates would speak TLS, which executors do not.",
				domainSocketLocation, "systemd:executors"})
		files = append(files, executorSocketUnit)
		conf["agent"] = "https://" + c.IP + ":5051"
		conf["tls-ca"] = path.Join(c.TLS, "ca.pem")
	}
	text, err := setOptions(etc.Agent, conf)
	if err != nil {
		return nil, err
	}
	modules := fmt.Sprintf("{\"libraries\": [{\"file\": %q, \"modules\": [{\"name\": \"io_mesosgpu_GpuIsolator\", \"parameters\": "+
		"[\n  {\"key\": \"socket\", \"value\": \"/run/mesos-gpu/agent.sock\"},\n  {\"key\": \"runtime_dir\", \"value\": \"/run/mesos\"}]}]}]}\n",
		c.Module)
	flags := "mesos-gpu agent flags"
	if c.Simulate != "" {
		flags += " --simulate " + c.Simulate
	}
	service := "# Tasks survive a restart of the agent, in cgroups that systemd leaves alone.\nKillMode=process\nDelegate=yes\n"
	dependencies := "After=mesos-gpu-agent.service\n"
	if c.TLS != "" {
		dependencies += "Requires=mesos-agent.socket\n"
	}
	return append(files, File{Path: AgentConf, Mode: 0o644, Text: text, Packaged: etc.Agent}, File{Path: ModulesFile, Mode: 0o644, Text: modules},
		File{
			Path: AgentEnv,
			Mode: 0o644,
			Text: formatEnv("Options of mesos-agent. To apply a change: systemctl restart mesos-agent. Some need an empty MESOS_WORK_DIR/meta, which ends the tasks.",
				options),
		},
		c.unit("mesos-agent", "Mesos agent", dependencies, AgentEnv, service, fmt.Sprintf("/bin/sh -c 'exec %s $(%s)'",
			path.Join(c.MesosPrefix, "sbin/mesos-agent"), flags))), nil
}

func (c *ClusterConfig) schedulerFiles() ([]File, error) {
	conf := map[string]string{"master": c.zooKeeperURL("/mesos")}
	var files []File
	if c.Schedulers > 1 {
		conf["journal"] = c.zooKeeperURL("/mesos-gpu")
	}
	if c.Schedulers > 1 || c.TLS != "" {
		conf["listen"] = c.IP + ":8080"
		switch {
		case c.InsecureAPI:
			conf["insecure-api"] = "true"
		case c.TLS == "":
			return nil,
				errors.New("several schedulers listen on the network, which needs certificates and an access file: " +
					"give --tls DIR, or let every client do everything by --insecure-api")
		default:
			conf["access"] = "/etc/mesos-gpu/access.yaml"
		}
	}
	if c.TLS != "" {
		conf["tls-ca"], conf["api-tls-cert"], conf["api-tls-key"] = path.Join(c.TLS, "ca.pem"), path.Join(c.TLS, "cert.pem"), path.Join(c.TLS, "key.pem")
		conf["api-tls-ca"] = conf["tls-ca"]
	}
	if c.Secrets != nil {
		conf["credential"] = "/etc/mesos-gpu/scheduler-credential.json"
		text, err := c.formatCredential(schedulerPrincipal)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Path: conf["credential"], Mode: 0o640, Text: text, Group: "mesos-gpu"})
	}
	text, err := setOptions(etc.Scheduler, conf)
	if err != nil {
		return nil, err
	}
	return append(files, File{Path: SchedulerConf, Mode: 0o644, Text: text, Packaged: etc.Scheduler}), nil
}

// setOptions sets options in a commented configuration file. Empty values remain unset.
func setOptions(text string, values map[string]string) (string, error) {
	for name, value := range values {
		line := regexp.MustCompile(`(?m)^#?` + regexp.QuoteMeta(name) + `=.*$`)
		if !line.MatchString(text) {
			return "", fmt.Errorf("the configuration has no option %s", name)
		}
		if value != "" {
			text = line.ReplaceAllLiteralString(text, name+"="+value)
		}
	}
	return text, nil
}
