// Package translate turns Marathon's app definitions into jobs. It decides how
// each honoured field is said in a job.Spec, and which name the job has; it is
// pure, and refuses nothing that marathon.Parse has accepted but apps without
// instances.
package translate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// ErrSuspended is that an app has no instances.
var ErrSuspended = errors.New("the app is suspended: a job has one task at least")

// shortest stands for no time at all where a job takes 0 for its default.
const shortest = time.Millisecond

// Job is the job whose tasks are the instances of one version of an app, as
// Parse has read it with the same settings. It returns ErrSuspended for an app
// without instances.
func Job(app *marathon.App, s marathon.Settings) (job.Spec, error) {
	if app.Instances == 0 {
		return job.Spec{}, fmt.Errorf("translate %s: %w", app.ID, ErrSuspended)
	}
	version := Version(app)
	spec := job.Spec{
		Name: Name(app.ID, version), Group: app.ID, Role: app.Role,
		Tasks: app.Instances, Request: gpu.Request{GPUs: app.GPUs},
		CPUs: app.CPUs, MemMiB: app.MemMiB, DiskMiB: app.DiskMiB,
		Containerizer: job.Mesos,
		Container:     job.Container{User: app.User, Fetch: artifacts(app.Fetch), Limits: limits(app.ResourceLimits), Labels: labels(app, version)},
		KillGrace:     job.DefaultKillGrace,
		Service:       service(app),
	}
	if grace := app.TaskKillGracePeriodSeconds; grace != nil {
		spec.KillGrace = some(seconds(*grace))
	}
	container(&spec, app.Container)
	spec.Network, spec.Ports = network(app), ports(app)
	spec.Env = environment(app, version)
	command(&spec, app)
	checks(&spec, app)
	var err error
	if spec.Constraints, err = constraints(app, s); err != nil {
		return job.Spec{}, fmt.Errorf("translate %s: %w", app.ID, err)
	}
	spec.SetDefaults()
	if err := spec.Validate(); err != nil {
		return job.Spec{}, fmt.Errorf("translate %s: %w", app.ID, err)
	}
	return spec, nil
}

// Version is the version that an app's instances have: scaling does not
// change it.
func Version(app *marathon.App) string {
	if app.VersionInfo != nil {
		return app.VersionInfo.LastConfigChangeAt
	}
	return app.Version
}

func seconds[T int | int64](n T) time.Duration { return time.Duration(n) * time.Second }

// some is the time, or the shortest.
func some(d time.Duration) time.Duration { return max(d, shortest) }

// command has cmd read by a shell, as Marathon does.
func command(spec *job.Spec, app *marathon.App) {
	switch {
	case app.Cmd == "":
		spec.Command = slices.Clone(app.Args)
		spec.ImageEntrypoint = spec.Containerizer == job.Mesos && spec.Image != "" && len(app.Args) > 0
	case spec.Containerizer == job.Docker:
		spec.Entrypoint, spec.Command = "/bin/sh", []string{"-c", app.Cmd}
	default:
		spec.Command = shell(app.Cmd)
	}
}

func shell(line string) []string { return []string{"/bin/sh", "-c", line} }

func artifacts(fetch []marathon.Artifact) []job.Artifact {
	var all []job.Artifact
	for _, a := range fetch {
		all = append(all, job.Artifact{
			URI: a.URI, Path: a.DestPath, Executable: a.Executable, Cache: a.Cache,
			Extract: a.Extract && !a.Executable, // Mesos's fetcher does one of them too
		})
	}
	return all
}

func limits(l *marathon.ResourceLimits) job.Limits {
	if l == nil {
		return job.Limits{}
	}
	return job.Limits{CPUs: limit(l.CPUs), MemMiB: limit(l.Mem)}
}

func limit(l *marathon.Limit) float64 {
	switch {
	case l == nil:
		return 0
	case l.Unlimited:
		return job.Unlimited
	default:
		return l.Amount
	}
}

// labels are the app's own and those that Of reads.
func labels(app *marathon.App, version string) map[string]string {
	all := maps.Clone(app.Labels)
	if version == "" {
		return all
	}
	if all == nil {
		all = map[string]string{}
	}
	all[marathon.JobLabel], all[marathon.VersionLabel] = app.ID, version
	return all
}

// service has Marathon's pauses: none where its bound is 0.
func service(app *marathon.App) *job.Service {
	s := &job.Service{Backoff: job.Backoff{Factor: app.BackoffFactor, Max: some(seconds(app.MaxLaunchDelaySeconds))}}
	s.Backoff.Initial = min(some(seconds(app.BackoffSeconds)), s.Backoff.Max)
	switch u := app.UnreachableStrategy; {
	case u == nil:
		s.ReplaceAfter = shortest
	case u.Disabled:
		s.ReplaceAfter = -1
	default:
		s.ReplaceAfter = some(seconds(u.InactiveAfterSeconds))
	}
	return s
}

// constraints keep an app without GPUs off agents that offer some, unless its
// label allows them, and one that accepts one kind of reservation off those
// that offer the other.
func constraints(app *marathon.App, s marathon.Settings) ([]job.Constraint, error) {
	var all []job.Constraint
	for _, words := range app.Constraints {
		c, err := job.NewConstraint(words...)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	behavior := cmp.Or(app.Labels[marathon.GPULabel], s.GPUBehavior, marathon.GPURestricted)
	if app.GPUs == 0 && behavior == marathon.GPURestricted {
		all = append(all, job.Constraint{Field: "@gpus", Operator: job.Is, Value: "0"})
	}
	if is := reservation(app); is != "" {
		all = append(all, job.Constraint{Field: job.ReservationField, Operator: job.Is, Value: is})
	}
	return all, nil
}

// reservation is what the agents offer that an app accepts; "" is any. All
// that is for the role * is unreserved.
func reservation(app *marathon.App) string {
	accepted := app.AcceptedResourceRoles
	switch everybody, own := slices.Contains(accepted, "*"), slices.Contains(accepted, app.Role); {
	case everybody == own:
		return ""
	case everybody:
		return job.Unreserved
	default:
		return job.Reserved
	}
}

func container(spec *job.Spec, c *marathon.Container) {
	if c == nil {
		return
	}
	if c.Type == marathon.DockerType {
		spec.Containerizer = job.Docker
	}
	if d := c.Docker; d != nil {
		spec.Image, spec.ForcePull = d.Image, d.ForcePullImage
		for _, p := range d.Parameters {
			spec.Parameters = append(spec.Parameters, job.Parameter{Key: p.Key, Value: p.Value})
		}
	}
	if l := c.LinuxInfo; l != nil && l.IPCInfo != nil && l.IPCInfo.ShmSizeMiB != nil {
		spec.ShmMiB = float64(*l.IPCInfo.ShmSizeMiB)
	}
	for _, v := range c.Volumes {
		spec.Volumes = append(spec.Volumes, volume(v))
	}
}
