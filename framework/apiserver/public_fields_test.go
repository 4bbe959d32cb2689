package apiserver

import (
	"context"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/internal/testing/documenttest"
)

// TestPublicFieldsAreListed checks which keys remain of documents in which every field is set, where output is private and the
// requester may not read it. A key that is added to one of the types is absent until public_fields.go and this list have it: it
// must not contain what a job keeps to itself.
func TestPublicFieldsAreListed(t *testing.T) {
	view, event, notification := filledValue[api.JobView](), filledValue[api.TaskEvent](), filledValue[api.NotificationView]()
	schedule := filledValue[api.ScheduleView]()
	ctx := withGrant(t, &access.AccessPolicy{PrivateOutput: true}, "viewer")
	const spec = `after.job after.met after.run after.state constraints.field constraints.operator constraints.value containerizer cpus disk_mib
		gang group guaranteed idle_timeout image ipc kill_grace labels.x limits.cpus limits.mem_mib max_parallel max_wait mem_mib
		min_run_time name network on_timeout owner ports.container ports.host ports.name ports.protocol ports.service preempt_after
		preemptible priority request.devices.exclude request.devices.include request.gpus request.min_cuda request.min_driver
		request.min_mem_mib request.share.cores request.share.mem_mib request.share.mem_percent request.topology
		request.types.exclude request.types.include request.types.same retries role run_time schedule.cron schedule.history
		schedule.overlap schedule.time_zone service.autoscaling.cooldown service.autoscaling.max service.autoscaling.min
		service.autoscaling.stabilization.down service.autoscaling.stabilization.up service.autoscaling.target.gpu_duty
		service.autoscaling.target.metric service.autoscaling.target.port_index service.autoscaling.target.requests_per_second
		service.autoscaling.target.value service.backoff.factor service.backoff.initial service.backoff.max service.replace_after
		service.shutdown_delay shm_mib stdin tasks timeout tty user`
	const task = `addresses agent_id agent_url attempt changed device_ids ended exit_code failures finished_as gpu_products.x gpu_types.x
		health_failure.check health_failure.failures healthy hostname id index job kill_forced kill_reason kill_wanted killed_by
		launched losses not_before ports queued ran reason run shares.cores shares.limit shares.mem_mib shares.milli shares.product shares.type
		shares.uuid started state unfit.field unfit.operator unfit.value version`
	for name, c := range map[string]struct {
		readable any
		want     []string
	}{
		"job": {readableView(ctx, &view), slices.Concat(below("spec", spec), below("tasks", task), below("attempts", task), strings.Fields(`autoscaling.load
			autoscaling.measured autoscaling.metric autoscaling.reason autoscaling.recommended autoscaling.target autoscaling.time differs_from exit_code
			hold.by hold.reason hold.since number revision run scalings.by scalings.from scalings.reason scalings.time scalings.to start.agents
			start.expected start.within_50.from start.within_50.to start.within_90.from start.within_90.to state submitted task_states.RUNNING
			terminal version waits warnings`))},
		"tasks":        {readableTasks(ctx, &view, view.Tasks), strings.Fields(task)},
		"schedule":     {readableSchedule(ctx, schedule), append(below("spec", spec), "created", "next", "runs.due", "runs.job")},
		"notification": {readableNotification(ctx, notification), strings.Fields(`attempts event given_up id job next owner role run state time`)},
		"event":        {publicEvent(&event), strings.Fields(`by job run state task time`)},
	} {
		slices.Sort(c.want)
		if diff := gocmp.Diff(c.want, documenttest.ListKeys(t, c.readable)); diff != "" {
			t.Errorf("%s (-listed +readable):\n%s", name, diff)
		}
	}
}

// withGrant returns the context of a request of a user.
func withGrant(t *testing.T, p *access.AccessPolicy, user string) context.Context {
	return apihttp.WithGrant(t.Context(), p.GrantFor(access.Identity{Name: user}))
}

// below returns keys with the prefix of their object.
func below(object, keys string) (list []string) {
	for _, key := range strings.Fields(keys) {
		list = append(list, object+"."+key)
	}
	return list
}
