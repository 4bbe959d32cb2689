package control

import (
	"context"

	"mesos-gpu/job"
)

// appCounts are the numbers that Gauges reports.
type appCounts struct {
	apps, deployments, healthy, unhealthy, queue int

	instances map[job.State]int
}

// Gauges adds the numbers of apps, deployments and instances to the scheduler's metrics.
func (c *Controller) Gauges(ctx context.Context, add func(name, help string, labels map[string]string, value float64)) error {
	var n appCounts
	if err := c.runInLoop(ctx, func(k *controlLoop) error { n = k.countApps(); return nil }); err != nil {
		return err
	}
	add("marathon_apps", "Number of apps.", nil, float64(n.apps))
	add("marathon_deployments", "Deployments that have not ended.", nil, float64(n.deployments))
	for _, s := range job.States() {
		if s.IsLive() {
			add("marathon_instances", "Instances that have not ended, by state.", map[string]string{"state": string(s)}, float64(n.instances[s]))
		}
	}
	add("marathon_instances_healthy", "Instances whose last health check succeeded.", nil, float64(n.healthy))
	add("marathon_instances_unhealthy", "Instances whose last health check failed.", nil, float64(n.unhealthy))
	add("marathon_queue", "Instances that wait to be placed.", nil, float64(n.queue))
	return nil
}

func (l *controlLoop) countApps() appCounts {
	n := appCounts{deployments: len(l.state.Deployments()), instances: map[job.State]int{}}
	for _, a := range l.state.Apps() {
		n.apps++
		for _, in := range l.instancesOf(a.ID) {
			if !in.State.IsLive() {
				continue
			}
			n.instances[in.State]++
			switch {
			case in.Healthy == nil || !in.State.IsPlaced():
			case *in.Healthy:
				n.healthy++
			default:
				n.unhealthy++
			}
		}
	}
	for _, q := range l.state.QueuedApps() {
		n.queue += q.Count
	}
	return n
}
