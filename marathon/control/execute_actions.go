package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
	"mesos-gpu/marathon/translate"
)

// maxConcurrentCalls bounds concurrent calls to the cluster, which records the changes of
// concurrent calls with one write.
const maxConcurrentCalls = 64

// executeActions executes the actions of each app in order and stops at the first that
// fails. The same action of many apps and one user is one call, if the cluster has such a call. It
// returns the errors by app.
func (l *controlLoop) executeActions(ctx context.Context, actions []deploy.Action) map[string]error {
	failed := map[string]error{}
	left := map[string][]deploy.Action{}
	for _, a := range actions {
		left[a.TargetApp()] = append(left[a.TargetApp()], a)
	}
	for len(left) > 0 && ctx.Err() == nil {
		var round []deploy.Action
		for _, app := range slices.Sorted(maps.Keys(left)) {
			round = append(round, left[app][0])
			if left[app] = left[app][1:]; len(left[app]) == 0 {
				delete(left, app)
			}
		}
		for app, err := range l.executeRound(ctx, round) {
			failed[app] = err
			delete(left, app)
		}
	}
	return failed
}

// executeRound executes one action of each app. It returns the errors by app.
func (l *controlLoop) executeRound(ctx context.Context, round []deploy.Action) map[string]error {
	failed := map[string]error{}
	var (
		specs []job.Spec
		stops = map[string][]string{} // by user
		kills = map[string][]string{} // by user
		one   []deploy.ScaleJob
	)
	for _, a := range round {
		switch a := a.(type) {
		case deploy.SubmitJob:
			spec, err := translate.JobSpec(a.App, l.settings)
			if err != nil {
				failed[a.TargetApp()] = err
				continue
			}
			specs = append(specs, spec)
		case deploy.StopInstances:
			stops[a.By] = append(stops[a.By], a.TaskIDs...)
		case deploy.KillJob:
			if name, ok := l.findLiveJob(a.AppID, a.Version); ok {
				kills[a.By] = append(kills[a.By], name)
			}
		case deploy.ScaleJob:
			one = append(one, a)
		}
	}
	fail := func(err error, apps ...string) {
		for _, app := range apps {
			failed[app] = err
		}
	}
	for _, by := range slices.Sorted(maps.Keys(kills)) {
		if err := l.cluster.KillJobs(ctx, by, kills[by]...); err != nil {
			fail(err, actionAppIDs[deploy.KillJob](round)...)
		}
	}
	for _, by := range slices.Sorted(maps.Keys(stops)) {
		if err := l.cluster.StopTasks(ctx, stops[by], true, by); err != nil {
			fail(err, actionAppIDs[deploy.StopInstances](round)...)
		}
	}
	l.submitJobs(ctx, specs, fail)
	l.scaleJobs(ctx, one, fail)
	return failed
}

func actionAppIDs[A deploy.Action](round []deploy.Action) []string {
	var apps []string
	for _, a := range round {
		if _, ok := a.(A); ok {
			apps = append(apps, a.TargetApp())
		}
	}
	return apps
}

// submitJobs submits all jobs together, and one by one if that fails. A live job of the same
// app and version is a success. If a user's job has the name, the app's job gets another one.
func (l *controlLoop) submitJobs(ctx context.Context, specs []job.Spec, fail func(error, ...string)) {
	specs = slices.DeleteFunc(specs, func(s job.Spec) bool {
		_, live := l.findLiveJob(s.Group, s.Labels[marathon.VersionLabel])
		return live
	})
	for i := range specs {
		if j, ok := l.cluster.FindJob(specs[i].Name); ok && !j.IsTerminal() {
			specs[i].Name = translate.RandomJobName(specs[i].Group)
		}
	}
	if len(specs) == 0 || l.cluster.SubmitJobs(ctx, specs...) == nil {
		return
	}
	doConcurrently(specs, func(s job.Spec) (string, error) { return s.Group, l.cluster.SubmitJobs(ctx, s) }, fail)
}

func (l *controlLoop) scaleJobs(ctx context.Context, actions []deploy.ScaleJob, fail func(error, ...string)) {
	doConcurrently(actions, func(a deploy.ScaleJob) (string, error) {
		name, ok := l.findLiveJob(a.AppID, a.Version)
		if !ok {
			return a.AppID, fmt.Errorf("scale %s: its job has ended", a.AppID)
		}
		return a.AppID, l.cluster.ScaleJob(ctx, name, a.Instances, a.By)
	}, fail)
}

// doConcurrently calls do for each item, up to maxConcurrentCalls at the same time.
func doConcurrently[T any](list []T, do func(T) (app string, err error), fail func(error, ...string)) {
	var (
		mu      sync.Mutex
		running sync.WaitGroup
		room    = make(chan struct{}, maxConcurrentCalls)
	)
	for _, one := range list {
		room <- struct{}{}
		running.Go(func() {
			defer func() { <-room }()
			if app, err := do(one); err != nil {
				mu.Lock()
				defer mu.Unlock()
				fail(err, app)
			}
		})
	}
	running.Wait()
}
