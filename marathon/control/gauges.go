package control

import (
	"context"

	"mesos-gpu/job"
)

// counts are what there is to count of the apps.
type counts struct {
	apps, deployments, healthy, unhealthy, queue int

	instances map[job.State]int
}

// Gauges adds what is counted of the apps, for those who watch the scheduler.
func (c *Control) Gauges(ctx context.Context, add func(name, help string, labels map[string]string, value float64)) error {
	var n counts
	if err := c.ask(ctx, func(k *keeper) error { n = k.count(); return nil }); err != nil {
		return err
	}
	add("marathon_apps", "Apps there are.", nil, float64(n.apps))
	add("marathon_deployments", "Deployments under way.", nil, float64(n.deployments))
	for _, s := range job.States() {
		if s.Live() {
			add("marathon_instances", "Instances that have not ended, by state.", map[string]string{"state": string(s)}, float64(n.instances[s]))
		}
	}
	add("marathon_instances_healthy", "Instances whose health check found them healthy last.", nil, float64(n.healthy))
	add("marathon_instances_unhealthy", "Instances whose health check found them unhealthy last.", nil, float64(n.unhealthy))
	add("marathon_queue", "Instances that wait to be placed.", nil, float64(n.queue))
	return nil
}

func (k *keeper) count() counts {
	n := counts{deployments: len(k.state.Deployments()), instances: map[job.State]int{}}
	for _, a := range k.state.Apps() {
		n.apps++
		for _, in := range k.state.Instances(a.ID) {
			if !in.State.Live() {
				continue
			}
			n.instances[in.State]++
			switch {
			case in.Healthy == nil || !in.State.Placed():
			case *in.Healthy:
				n.healthy++
			default:
				n.unhealthy++
			}
		}
	}
	for _, q := range k.state.Queue() {
		n.queue += q.Count
	}
	return n
}
