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

// abreast bounds the calls to the cluster at one time: it records those that
// come together with one write.
const abreast = 64

// carryOut does the actions, those of one app in their order and what is left
// of it not after one that failed. The same action of many apps is one call
// where the cluster has one. It returns what failed.
func (k *keeper) carryOut(ctx context.Context, actions []deploy.Action) map[string]error {
	failed := map[string]error{}
	left := map[string][]deploy.Action{}
	for _, a := range actions {
		left[appOf(a)] = append(left[appOf(a)], a)
	}
	for len(left) > 0 && ctx.Err() == nil {
		var round []deploy.Action
		for _, app := range slices.Sorted(maps.Keys(left)) {
			round = append(round, left[app][0])
			if left[app] = left[app][1:]; len(left[app]) == 0 {
				delete(left, app)
			}
		}
		for app, err := range k.together(ctx, round) {
			failed[app] = err
			delete(left, app)
		}
	}
	return failed
}

// together does one action of each app, and returns what failed.
func (k *keeper) together(ctx context.Context, round []deploy.Action) map[string]error {
	failed := map[string]error{}
	var (
		specs []job.Spec
		stops []string
		kills []string
		one   []deploy.Scale
	)
	for _, a := range round {
		switch a := a.(type) {
		case deploy.Submit:
			spec, err := translate.Job(a.App, k.settings)
			if err != nil {
				failed[appOf(a)] = err
				continue
			}
			specs = append(specs, spec)
		case deploy.Stop:
			stops = append(stops, a.TaskIDs...)
		case deploy.Kill:
			kills = append(kills, translate.Name(a.AppID, a.Version))
		case deploy.Scale:
			one = append(one, a)
		}
	}
	fail := func(err error, apps ...string) {
		for _, app := range apps {
			failed[app] = err
		}
	}
	if len(kills) > 0 {
		if err := k.cluster.Kill(ctx, kills...); err != nil {
			fail(err, appsOf[deploy.Kill](round)...)
		}
	}
	if len(stops) > 0 {
		if err := k.cluster.Stop(ctx, stops, true); err != nil {
			fail(err, appsOf[deploy.Stop](round)...)
		}
	}
	k.submit(ctx, specs, fail)
	k.scale(ctx, one, fail)
	return failed
}

func appOf(a deploy.Action) string {
	switch a := a.(type) {
	case deploy.Submit:
		return a.App.ID
	case deploy.Stop:
		return a.AppID
	case deploy.Kill:
		return a.AppID
	case deploy.Scale:
		return a.AppID
	}
	return ""
}

func appsOf[A deploy.Action](round []deploy.Action) []string {
	var apps []string
	for _, a := range round {
		if _, ok := a.(A); ok {
			apps = append(apps, appOf(a))
		}
	}
	return apps
}

// submit submits all at once; should one be refused, each by itself. A job of
// the app's version that is there already is what was wanted, one of somebody
// else's is in the way.
func (k *keeper) submit(ctx context.Context, specs []job.Spec, fail func(error, ...string)) {
	specs = slices.DeleteFunc(specs, func(s job.Spec) bool {
		j, there := k.cluster.Job(s.Name)
		there = there && !j.Terminal()
		if app, version, ours := translate.Of(&j.Spec); there && (!ours || app != s.Group || version != s.Labels[marathon.VersionLabel]) {
			fail(fmt.Errorf("start the job %s: another job of that name runs, which is not of this app: end it, or change the app", s.Name), s.Group)
		}
		return there
	})
	if len(specs) == 0 || k.cluster.Submit(ctx, specs...) == nil {
		return
	}
	abreastDo(specs, func(s job.Spec) (string, error) { return s.Group, k.cluster.Submit(ctx, s) }, fail)
}

func (k *keeper) scale(ctx context.Context, actions []deploy.Scale, fail func(error, ...string)) {
	abreastDo(actions, func(a deploy.Scale) (string, error) {
		return a.AppID, k.cluster.Scale(ctx, translate.Name(a.AppID, a.Version), a.Instances)
	}, fail)
}

// abreastDo does each, which names its app, some at the same time.
func abreastDo[T any](list []T, do func(T) (app string, err error), fail func(error, ...string)) {
	var (
		mu      sync.Mutex
		running sync.WaitGroup
		room    = make(chan struct{}, abreast)
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
