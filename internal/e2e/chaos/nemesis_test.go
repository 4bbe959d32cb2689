//go:build mesos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"
)

// nemesis injects faults into a cluster. Equal seeds give equal faults, except that the leader of
// a group depends on the run. It leaves the clocks alone: processes share the machine's.
type nemesis struct {
	cluster *chaosCluster
	random  *rand.Rand
	faults  int
}

// run injects faults, with pauses between them, until ctx ends. All faults are healed then.
func (n *nemesis) run(ctx context.Context) {
	for round := 1; ; round++ {
		quiet := n.seconds(4, 12)
		if round%6 == 0 {
			quiet = n.seconds(70, 100) // a due time of the schedules falls into it, with time to recover
		}
		if !wait(ctx, quiet) {
			return
		}
		kinds := n.random.IntN(3)
		var heals []func()
		if kinds != 0 {
			heals = append(heals, n.injectNetworkFault())
		}
		if kinds != 1 {
			heals = append(heals, n.injectProcessFault())
		}
		wait(ctx, n.seconds(4, 20))
		for _, heal := range heals {
			heal()
		}
	}
}

func (n *nemesis) seconds(least, most int) time.Duration {
	return time.Duration(least+n.random.IntN(most-least)) * time.Second
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

func hostNames(hosts []*host) string {
	var names []string
	for _, h := range hosts {
		names = append(names, h.name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
