package job

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func validContainer() Spec {
	s := Spec{Name: "x", Image: "debian:12"}
	s.SetDefaults()
	return s
}

func TestContainerDefaults(t *testing.T) {
	c := Container{
		HealthCheck: &HealthCheck{Check: Check{HTTP: &HTTPCheck{}}},
		Check:       &Check{Command: []string{"true"}, Interval: time.Second},
	}
	c.setDefaults()
	want := Container{
		HealthCheck: &HealthCheck{
			Check: Check{HTTP: &HTTPCheck{Path: "/"}, Interval: DefaultCheckInterval, Timeout: DefaultCheckTimeout},
			Grace: DefaultHealthGrace, Failures: DefaultHealthFailures,
		},
		Check: &Check{Command: []string{"true"}, Interval: time.Second, Timeout: DefaultCheckTimeout},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestValidateAcceptsContainers(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"everything of docker": func(s *Spec) {
			s.Container = Container{
				Volumes: []Volume{{Source: "/data", Target: "/data"}, {Source: "v.1", Target: "/v", Driver: "nfs"}},
				Network: "weave", Ports: []Port{{Name: "a", Container: 80, Protocol: TCP}, {Name: "b", Protocol: UDP}, {}, {}}, ShmMiB: 256, IPC: PrivateIPC,
				Ulimits: []Ulimit{{"nofile", 1, 2}, {"core", 0, 0}, {"memlock", Unlimited, Unlimited}, {"stack", 5, Unlimited}}, Labels: map[string]string{"a": ""},
				HealthCheck:      &HealthCheck{Check: Check{HTTP: &HTTPCheck{CheckPort: CheckPort{Index: 3}, TLS: true}}, Failures: Unlimited},
				MoreHealthChecks: []HealthCheck{{Check: Check{Command: []string{"true"}}}, {Check: Check{TCP: &TCPCheck{}}, Grace: 1}},
				Check:            &Check{TCP: &TCPCheck{CheckPort{Port: 65535}}},
			}
		},
		"what mesos has of it": func(s *Spec) {
			s.Containerizer = Mesos
			s.Container = Container{
				Volumes: []Volume{{Source: "/data", Target: "/data"}}, Network: HostNetwork, Ports: []Port{{Host: 8080}, {}, {Host: 1}}, ForcePull: true, ShmMiB: 1,
				Ulimits: []Ulimit{{"nofile", 1, 1}}, Labels: map[string]string{"a": "b"}, Check: &Check{Command: []string{"true"}},
			}
		},
		"no image": func(s *Spec) {
			s.Containerizer, s.Image, s.Command = Mesos, "", []string{"true"}
			s.Ports, s.Ulimits = make([]Port, 1), []Ulimit{{"nofile", 1, 1}}
		},
		"a command where there is no network": func(s *Spec) {
			s.Network, s.HealthCheck = NoNetwork, &HealthCheck{Check: Check{Command: []string{"true"}}}
		},
		"devices":            func(s *Spec) { s.Devices = []string{"/dev/infiniband", "/dev/nvidia-fs0"} },
		"the agent's memory": func(s *Spec) { s.IPC = HostIPC },
	} {
		t.Run(name, func(t *testing.T) {
			s := validContainer()
			change(&s)
			s.SetDefaults()
			if err := s.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestValidateRejectsContainers checks each rule by its error.
func TestValidateRejectsContainers(t *testing.T) {
	volume := func(v Volume) func(*Spec) { return func(s *Spec) { s.Volumes = []Volume{v} } }
	ulimit := func(u Ulimit) func(*Spec) { return func(s *Spec) { s.Ulimits = []Ulimit{u} } }
	health := func(h HealthCheck) func(*Spec) { return func(s *Spec) { s.HealthCheck = &h } }
	mesos := func(c Container) func(*Spec) {
		return func(s *Spec) { s.Containerizer, s.Container = Mesos, c }
	}
	command := Check{Command: []string{"true"}}
	for want, change := range map[string]func(*Spec){
		`volumes: 101 are more than 100`:                                       func(s *Spec) { s.Volumes = make([]Volume, 101) },
		`a colon separates paths`:                                              volume(Volume{Source: "/a:b", Target: "/a"}),
		`"data" is not a path of a container such as /data, or a reserved one`: volume(Volume{Source: "/a", Target: "data"}),
		`"/a/../b" is not a path of a container`:                               volume(Volume{Source: "/a", Target: "/a/../b"}),
		`"/proc" is not a path of a container`:                                 volume(Volume{Source: "/a", Target: "/proc"}),
		`"/usr/local/nvidia" is not a path of a container`:                     volume(Volume{Source: "/a", Target: "/usr/local/nvidia"}),
		`/a has no source: write SOURCE:/a`:                                    volume(Volume{Target: "/a"}),
		`"/a/" is not a plain absolute path: write /a`:                         volume(Volume{Source: "/a/", Target: "/a"}),
		`"/data/../etc" is not a plain absolute path: write /etc`:              volume(Volume{Source: "/data/../etc", Target: "/a"}),
		`/a is a path of the agent, which takes no driver nfs`:                 volume(Volume{Source: "/a", Target: "/a", Driver: "nfs"}),
		`"../a" is neither an absolute path of the agent nor a volume's nam`:   volume(Volume{Source: "../a", Target: "/a"}),
		`volumes: two are at /b`: func(s *Spec) {
			s.Volumes = []Volume{{Source: "a", Target: "/b"}, {Source: "c", Target: "/b"}}
		},
		`volumes: drivers nfs and ceph: the Docker engine takes one`: func(s *Spec) {
			s.Volumes = []Volume{{Source: "a", Target: "/a", Driver: "nfs"}, {Source: "b", Target: "/b", Driver: "ceph"}}
		},
		`devices: "/dev" is not a plain path below /dev`:   func(s *Spec) { s.Devices = []string{"/dev"} },
		`devices: "/dev/../etc" is not a plain path below`: func(s *Spec) { s.Devices = []string{"/dev/../etc"} },
		`devices: /dev/nvidia0 belongs to GPUs`:            func(s *Spec) { s.Devices = []string{"/dev/nvidia0"} },
		`devices: /dev/dri belongs to GPUs`:                func(s *Spec) { s.Devices = []string{"/dev/dri"} },
		`devices: /dev/fuse is given twice`:                func(s *Spec) { s.Devices = []string{"/dev/fuse", "/dev/fuse"} },
		`devices needs container: docker`:                  func(s *Spec) { s.Containerizer, s.Devices = Mesos, []string{"/dev/fuse"} },
		`network: "a b" is not a network's name`:           func(s *Spec) { s.Network = "a b" },
		`ports: 1001 are more than 1000`:                   func(s *Spec) { s.Ports = make([]Port, 1001) },
		`ports: 65536 is not between 0 and 65535`:          func(s *Spec) { s.Network, s.Ports = BridgeNetwork, []Port{{Container: 65536}} },
		`ports: -1 is not between 0 and 65535`:             func(s *Spec) { s.Ports = []Port{{Host: -1}} },
		`ports: host port 80 is given twice`:               func(s *Spec) { s.Ports = []Port{{Host: 80}, {}, {Host: 80, Protocol: UDP}} },
		`own port 80 needs network: bridge`:                func(s *Spec) { s.Ports = []Port{{Container: 80}} },
		`ports: "sctp" is neither tcp nor udp`:             func(s *Spec) { s.Ports = []Port{{Protocol: "sctp"}} },
		`ports: the name "a" is used twice`:                func(s *Spec) { s.Ports = []Port{{Name: "a"}, {Name: "a"}} },
		`ports: the name "a b" is used twice, or has`:      func(s *Spec) { s.Ports = []Port{{Name: "a b"}} },
		`ports: 1, and network: none reaches none`:         func(s *Spec) { s.Network, s.Ports = NoNetwork, make([]Port, 1) },
		`shm_size: -1 MiB is not between`:                  func(s *Spec) { s.ShmMiB = -1 },
		`shm_size: 257 MiB are more than the task's me`:    func(s *Spec) { s.ShmMiB = 257 },
		`ipc: "shareable" is neither private nor host`:     func(s *Spec) { s.IPC = "shareable" },
		`shm_size: ipc: host shares the agent's`:           func(s *Spec) { s.IPC, s.ShmMiB = HostIPC, 1 },
		`ulimits: "mem" is not one of core, cpu`:           ulimit(Ulimit{Name: "mem"}),
		`nofile: -2:1 is below 0: unlimited is -1`:         ulimit(Ulimit{"nofile", -2, 1}),
		`the soft limit 3 is above the hard limit 2`:       ulimit(Ulimit{"nofile", 3, 2}),
		`the soft limit -1 is above the hard limit 2`:      ulimit(Ulimit{"nofile", Unlimited, 2}),
		`ulimits: nofile is given twice`:                   func(s *Spec) { s.Ulimits = []Ulimit{{"nofile", 1, 1}, {"nofile", 2, 2}} },
		`labels: 101 are more than 100`: func(s *Spec) {
			s.Labels = map[string]string{}
			for i := range 101 {
				s.Labels[strings.Repeat("a", i+1)] = ""
			}
		},
		`labels: "" is empty`:            func(s *Spec) { s.Labels = map[string]string{"": "a"} },
		`labels: "mesos-gpu.job" is emp`: func(s *Spec) { s.Labels = map[string]string{"mesos-gpu.job": "a"} },
		`labels: a holds a NUL byte`:     func(s *Spec) { s.Labels = map[string]string{"a": "\x00"} },

		`health_check: has 0 of command, http and tcp`: health(HealthCheck{}),
		`health_check: has 2 of command, http and tcp`: health(HealthCheck{Check: Check{Command: []string{"true"}, TCP: &TCPCheck{CheckPort{Port: 1}}}}),
		`health_check: command: its first word, the`:   health(HealthCheck{Check: Check{Command: []string{""}}}),
		`health_check: http: path "health" does not b`: health(HealthCheck{Check: Check{HTTP: &HTTPCheck{CheckPort{Port: 1}, "health", false}}}),
		`health_check: http: path "/a b" does not beg`: health(HealthCheck{Check: Check{HTTP: &HTTPCheck{CheckPort{Port: 1}, "/a b", false}}}),
		`health_check: http: port 65536 is not betwee`: health(HealthCheck{Check: Check{HTTP: &HTTPCheck{CheckPort{Port: 65536}, "/", false}}}),
		`health_check: tcp: port_index 0, and the job`: health(HealthCheck{Check: Check{TCP: &TCPCheck{}}}),
		`health_check: grace: -1s is not between`:      health(HealthCheck{Check: command, Grace: -time.Second}),
		`health_check: failures: 1001 is not between`:  health(HealthCheck{Check: command, Failures: 1001}),
		`health_check: failures: -2 is not between 1 `: health(HealthCheck{Check: command, Failures: -2}),
		`health_check: interval: -1s is not between `:  health(HealthCheck{Check: Check{Command: []string{"true"}, Interval: -time.Second}}),
		`health_check: timeout: 1ns is not between 1m`: health(HealthCheck{Check: Check{Command: []string{"true"}, Timeout: 1}}),
		`health_check: delay: -1s is not between 0s `:  health(HealthCheck{Check: Check{Command: []string{"true"}, Delay: -time.Second}}),
		`health_check: item 2: has 0 of command, http`: func(s *Spec) {
			s.HealthCheck, s.MoreHealthChecks = &HealthCheck{Check: command}, []HealthCheck{{}}
		},
		`health_check: 21 are more than 20`: func(s *Spec) {
			s.HealthCheck, s.MoreHealthChecks = &HealthCheck{Check: command}, make([]HealthCheck, 20)
		},
		`more_health_checks: 1, and there is no health`: func(s *Spec) { s.MoreHealthChecks = []HealthCheck{{Check: command}} },
		`check: has 0 of command, http and tcp`:         func(s *Spec) { s.Check = &Check{} },
		`check: command: word 2 holds a NUL byte`:       func(s *Spec) { s.Check = &Check{Command: []string{"a", "\x00"}} },
		`check: http: tls: Mesos has no words for it`: func(s *Spec) {
			s.Check = &Check{HTTP: &HTTPCheck{CheckPort{Port: 1}, "/", true}}
		},
		`check: tcp: network: none has no ports: use`: func(s *Spec) {
			s.Network, s.Check = NoNetwork, &Check{TCP: &TCPCheck{CheckPort{Port: 1}}}
		},

		`network: bridge needs container: docker; with`:       mesos(Container{Network: BridgeNetwork}),
		`network: none needs container: docker; with c`:       mesos(Container{Network: NoNetwork}),
		`ipc needs container: docker`:                         mesos(Container{IPC: PrivateIPC}),
		`own port 80 needs network: bridge, or the name`:      mesos(Container{Ports: []Port{{Container: 80}}}),
		`volumes: the named volume v needs container: docker`: mesos(Container{Volumes: []Volume{{Source: "v", Target: "/v"}}}),
		`network_labels: 1, which only the plugins of `:       mesos(Container{NetworkLabels: map[string]string{"a": "b"}}),
		`network_labels: 2, which only the plugins of `: func(s *Spec) {
			s.Network, s.NetworkLabels = "front", map[string]string{"a": "b", "c": "d"}
		},
		`network_labels: a name is empty`:    mesos(Container{Network: "front", NetworkLabels: map[string]string{"": "b"}}),
		`network_labels: a holds a NUL byte`: mesos(Container{Network: "front", NetworkLabels: map[string]string{"a": "\x00"}}),
		`network_labels: 101 are more than 100`: func(s *Spec) {
			s.Containerizer, s.Network, s.NetworkLabels = Mesos, "front", map[string]string{}
			for i := range 101 {
				s.NetworkLabels[strings.Repeat("a", i+1)] = ""
			}
		},
		`volumes and shm_size need an image`: func(s *Spec) {
			s.Containerizer, s.Image, s.Command, s.ShmMiB = Mesos, "", []string{"true"}, 1
		},
	} {
		t.Run(want, func(t *testing.T) {
			s := validContainer()
			change(&s)
			s.SetDefaults()
			if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want …%s…", err, want)
			}
		})
	}
}
