//go:build mesos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// nemesis injects faults into a cluster. Equal seeds and leaders give equal faults, if the
// later leaders of a group, which depend on the run, are the same. It leaves the clocks alone:
// processes share the machine's.
type nemesis struct {
	cluster *chaosCluster
	work    *workload
	random  *rand.Rand
	// agentRandom chooses the faults of agents and launches, and when; nil means none. It is a
	// generator of its own, so that the other faults of a seed are the same without them.
	agentRandom *rand.Rand
	faults      int
}

// run injects faults, with pauses between them, until ctx ends. All faults are healed then.
func (n *nemesis) run(ctx context.Context) {
	for round := 1; ; round++ {
		quiet := seconds(n.random, 4, 12)
		if round%6 == 0 {
			quiet = seconds(n.random, 70, 100) // a due time of the schedules falls into it, with time to recover
		}
		if !wait(ctx, quiet) {
			return
		}
		if n.agentRandom != nil && n.agentRandom.IntN(2) == 0 {
			n.injectAgentFault(ctx)
			continue
		}
		kinds := n.random.IntN(3)
		var heals []func()
		if kinds != 0 {
			heals = append(heals, n.injectNetworkFault())
		}
		if kinds != 1 {
			heals = append(heals, n.injectProcessFault())
		}
		wait(ctx, seconds(n.random, 4, 20))
		for _, heal := range heals {
			heal()
		}
	}
}

func seconds(random *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+random.IntN(most-least)) * time.Second
}

// wait reports whether ctx has not ended after the time.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// begin records a fault and returns a function that heals it and records that.
func (n *nemesis) begin(detail string, heal func()) func() {
	n.faults++
	name, history := fmt.Sprint(n.faults), n.cluster.history
	history.record(Event{Kind: FaultStarted, Job: name, Detail: detail})
	n.cluster.t.Logf("%.1f fault %s: %s", uptime(), name, detail)
	return func() {
		heal()
		history.record(Event{Kind: FaultEnded, Job: name})
	}
}

func (n *nemesis) injectNetworkFault() func() {
	network, hosts := n.cluster.network, n.cluster.hosts
	shuffled := slices.Clone(hosts)
	n.random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	half := shuffled[:len(shuffled)/2]
	group := []string{"zookeeper", "master", "scheduler"}[n.random.IntN(3)]
	switch n.random.IntN(5) {
	case 0, 1:
		heal := n.begin("partition: "+hostNames(half)+" from the others", func() { network.heal(hosts) })
		network.separate(half, shuffled[len(half):])
		return heal
	case 2, 3:
		leader := n.cluster.findLeader(group)
		if leader == nil {
			leader = shuffled[0]
		}
		heal := n.begin("isolated: "+leader.name, func() { network.heal(hosts) })
		network.separate([]*host{leader}, slices.DeleteFunc(shuffled, func(h *host) bool { return h == leader }))
		return heal
	default:
		delay, loss := 50+n.random.IntN(400), 5+n.random.IntN(25)
		detail := fmt.Sprintf("%d%% loss, %d ms delay: %s", loss, delay, hostNames(half))
		if !network.netem {
			detail = fmt.Sprintf("%d%% loss: %s", loss, hostNames(half))
		}
		heal := n.begin(detail, func() { network.heal(hosts) })
		network.disturb(half, delay, loss)
		return heal
	}
}

// injectProcessFault stops or kills one to four programs of any groups.
func (n *nemesis) injectProcessFault() func() {
	programs := n.cluster.programs
	var chosen []*program
	var names []string
	for _, i := range n.random.Perm(len(programs))[:1+n.random.IntN(4)] {
		chosen = append(chosen, programs[i])
		names = append(names, programs[i].name)
	}
	if n.random.IntN(2) == 0 {
		heal := n.begin("stopped: "+strings.Join(names, " "), func() {
			for _, p := range chosen {
				p.signal(syscall.SIGCONT)
			}
		})
		for _, p := range chosen {
			p.signal(syscall.SIGSTOP)
		}
		return heal
	}
	heal := n.begin("killed: "+strings.Join(names, " "), func() {
		for _, p := range chosen {
			p.setHeld(false)
		}
	})
	for _, p := range chosen {
		p.setHeld(true)
		p.signal(syscall.SIGKILL)
	}
	return heal
}

// pingLimit is how long an agent may be unreachable before a master removes it, with the
// interval to its next ping.
const pingLimit = pingTimeout * pingTimeouts

// injectAgentFault injects a fault of agents, or one of their masters while tasks are launched,
// and heals it.
func (n *nemesis) injectAgentFault(ctx context.Context) {
	random := n.agentRandom
	agent := n.cluster.programsOf("agent")[random.IntN(agents)]
	switch random.IntN(5) {
	case 0: // longer than the ping limit
		length := pingLimit + seconds(random, 1, 12)
		heal := n.begin(fmt.Sprintf("stopped for %s: %s", length, agent.name), func() { agent.signal(syscall.SIGCONT) })
		agent.signal(syscall.SIGSTOP)
		wait(ctx, length)
		heal()
	case 1:
		heal := n.begin("killed, without its work directory: "+agent.name, func() { agent.setHeld(false) })
		agent.setHeld(true)
		agent.signal(syscall.SIGKILL)
		agent.awaitEnd()
		if err := os.RemoveAll(n.cluster.agentWorkDir(agent.host)); err != nil {
			n.cluster.t.Error(err)
		}
		wait(ctx, seconds(random, 1, 20))
		heal()
	case 2:
		n.failOverDuringLaunches(ctx)
	default:
		n.cutOneDirection(ctx)
	}
}

// cutOneDirection drops the packets from some agents to the leading master, or those from the
// master, for 1 to 120 s: every other time within a second of the ping limit.
func (n *nemesis) cutOneDirection(ctx context.Context) {
	random := n.agentRandom
	var from []*host
	for _, i := range random.Perm(agents)[:1+random.IntN(3)] {
		from = append(from, n.cluster.programsOf("agent")[i].host)
	}
	length := pingLimit - time.Second + time.Duration(random.IntN(2000))*time.Millisecond
	if random.IntN(2) == 0 {
		length = seconds(random, 1, 1+[]int{10, 30, 120}[random.IntN(3)])
	}
	reverse := random.IntN(2) == 0
	master := n.cluster.findLeader("master")
	if master == nil {
		master = n.cluster.programsOf("master")[0].host
	}
	to := []*host{master}
	if reverse {
		from, to = to, from
	}
	heal := n.begin(fmt.Sprintf("one direction for %s: %s to %s", length, hostNames(from), hostNames(to)), func() { n.cluster.network.heal(to) })
	n.cluster.network.dropPackets(from, to)
	wait(ctx, length)
	heal()
}

// failOverDuringLaunches kills the leading master while 32 tasks are being launched.
func (n *nemesis) failOverDuringLaunches(ctx context.Context) {
	length := seconds(n.agentRandom, 1, 15)
	n.work.submitBurst(ctx, 32)
	leader := n.cluster.findLeader("master")
	if leader == nil {
		return
	}
	p := n.cluster.findProgram("master", leader)
	heal := n.begin("killed during launches: "+p.name, func() { p.setHeld(false) })
	p.setHeld(true)
	p.signal(syscall.SIGKILL)
	wait(ctx, length)
	heal()
}

func hostNames(hosts []*host) string {
	var names []string
	for _, h := range hosts {
		names = append(names, h.name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
