//go:build mesos

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

const (
	// prefix begins the names of all namespaces, interfaces, cgroups and folders of a run.
	prefix = "mgchaos-"
	// switchSpace is the namespace with the bridge. It is not the machine's, whose firewall may
	// drop bridged packets (br_netfilter, with Docker's rules).
	switchSpace = prefix + "net"
	hostLink    = prefix + "host"
	subnet      = "10.214.77."
)

// network is a bridge with a network namespace for each host, and this machine as 10.214.77.1.
type network struct {
	t *testing.T
	// netem reports whether the kernel has the netem queueing discipline.
	netem bool
}

// startNetwork creates the bridge, after it has removed what a killed run has left.
func startNetwork(t *testing.T) *network {
	t.Helper()
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "ip", "iproute2")
	testneeds.RequireProgram(t, "iptables", "iptables")
	testneeds.RequireProgram(t, "nsenter", "util-linux")
	n := &network{t: t}
	removeNetwork(t)
	t.Cleanup(func() { removeNetwork(t) })
	runShell(t, `ip netns add `+switchSpace+`
		ip -n `+switchSpace+` link add br0 type bridge
		ip -n `+switchSpace+` link set br0 up
		ip link add `+hostLink+` type veth peer name host netns `+switchSpace+`
		ip addr add `+subnet+`1/24 dev `+hostLink+`
		ip link set `+hostLink+` up
		ip -n `+switchSpace+` link set host master br0 up`)
	n.netem = exec.Command("ip", "netns", "exec", switchSpace, "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms").Run() == nil
	return n
}

// addHost creates a namespace, named prefix and name, with an address on the bridge.
func (n *network) addHost(name, ip string) {
	n.t.Helper()
	space := prefix + name
	runShell(n.t, fmt.Sprintf(`ip netns add %[1]s
		ip -n %[1]s link add eth0 type veth peer name %[2]s netns %[3]s
		ip -n %[1]s addr add %[4]s/24 dev eth0
		ip -n %[1]s link set eth0 up
		ip -n %[1]s link set lo up
		ip -n %[3]s link set %[2]s master br0 up`, space, name, switchSpace, ip))
}

// separate drops all packets between two groups of hosts.
func (n *network) separate(these, those []*host) {
	n.t.Helper()
	n.dropPackets(these, those)
	n.dropPackets(those, these)
}

// dropPackets drops the packets from some hosts to others, but not those of the other direction.
func (n *network) dropPackets(from, to []*host) {
	n.t.Helper()
	var sources []string
	for _, h := range from {
		sources = append(sources, h.ip)
	}
	for _, h := range to {
		n.runIn(h, "iptables -w -A INPUT -s "+strings.Join(sources, ",")+" -j DROP")
	}
}

// disturb delays packets of the hosts and drops some; a kernel without netem only drops.
func (n *network) disturb(hosts []*host, delayMillis, lossPercent int) {
	n.t.Helper()
	for _, h := range hosts {
		if n.netem {
			n.runIn(h, fmt.Sprintf("tc qdisc replace dev eth0 root netem delay %dms %dms loss %d%%", delayMillis, delayMillis/2, lossPercent))
		} else {
			n.runIn(h, fmt.Sprintf("iptables -w -A INPUT -i eth0 -m statistic --mode random --probability %.2f -j DROP", float64(lossPercent)/100))
		}
	}
}

// heal ends all faults of the hosts' networks.
func (n *network) heal(hosts []*host) {
	n.t.Helper()
	for _, h := range hosts {
		script := "iptables -w -F INPUT"
		if n.netem {
			script += "; tc qdisc del dev eth0 root 2>/dev/null || true"
		}
		n.runIn(h, script)
	}
}

func (n *network) runIn(h *host, script string) {
	n.t.Helper()
	runShell(n.t, "nsenter --net=/run/netns/"+prefix+h.name+" sh -ec '"+script+"'")
}

// removeNetwork removes the namespaces and ends the processes in them.
func removeNetwork(t *testing.T) {
	t.Helper()
	spaces, err := os.ReadDir("/run/netns")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, space := range spaces {
		if !strings.HasPrefix(space.Name(), prefix) {
			continue
		}
		pids, _ := exec.Command("ip", "netns", "pids", space.Name()).Output() // the namespace may be half removed
		for pid := range strings.FieldsSeq(string(pids)) {
			if n, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended
			}
		}
		runShell(t, "ip netns del "+space.Name())
	}
	// The kernel removes the link some time after the namespace of its peer.
	runShell(t, "ip link del "+hostLink+" 2>/dev/null || ! ip link show "+hostLink+" 2>/dev/null")
}

func runShell(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}
