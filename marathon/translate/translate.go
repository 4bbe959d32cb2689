// Package translate converts Marathon's app definitions to jobs. It defines the job.Spec for
// each honoured field, and the name of the job. It is pure. It accepts every app that
// marathon.ParseApp accepts, except apps without instances.
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

// ErrSuspended is returned for an app without instances.
var ErrSuspended = errors.New("the app is suspended: a job has one task at least")

// minDuration replaces 0 in fields of a job where 0 means the default.
const minDuration = time.Millisecond

// JobSpec returns the completed job whose tasks are the instances of one version of an app,
// which marathon.ParseApp has parsed with the same settings. It returns ErrSuspended for an
// app without instances.
func JobSpec(app *marathon.App, s marathon.ParseSettings) (job.Spec, error) {
	if app.Instances == 0 {
		return job.Spec{}, fmt.Errorf("translate %s: %w", app.ID, ErrSuspended)
	}
	version := ConfigVersion(app)
	spec := job.Spec{
		Name: JobName(app.ID, version), Group: app.ID, Role: app.Role,
		Tasks: app.Instances, Request: gpu.Request{GPUs: app.GPUs},
		CPUs: app.CPUs, MemMiB: app.MemMiB, DiskMiB: app.DiskMiB,
		Containerizer: job.Mesos,
		Container:     job.Container{User: app.User, Fetch: fetchArtifacts(app.Fetch), Limits: resourceLimits(app.ResourceLimits), Labels: jobLabels(app, version)},
		KillGrace:     job.DefaultKillGrace,
		Service:       servicePolicy(app),
	}
	if grace := app.TaskKillGracePeriodSeconds; grace != nil {
		spec.KillGrace = nonZero(toDuration(*grace))
	}
	setContainer(&spec, app.Container)
	setNetwork(&spec, app, s)
	spec.Env, spec.Secrets, spec.SecretFiles = buildEnvironment(app, version), app.SecretVariables(), app.SecretFiles()
	spec.PullSecret = app.PullSecret()
	setCommand(&spec, app)
	addChecks(&spec, app)
	var err error
	if spec.Constraints, err = placementConstraints(app, s); err != nil {
		return job.Spec{}, fmt.Errorf("translate %s: %w", app.ID, err)
	}
	if err := spec.Complete(); err != nil {
		return job.Spec{}, fmt.Errorf("translate %s: %w", app.ID, err)
	}
	return spec, nil
}

// ConfigVersion returns the version that determines an app's instances. Scaling does not
// change it.
func ConfigVersion(app *marathon.App) string {
	if app.VersionInfo != nil {
		return app.VersionInfo.LastConfigChangeAt
	}
	return app.Version
}

func toDuration[T int | int64](n T) time.Duration { return time.Duration(n) * time.Second }

// nonZero returns the duration, or minDuration for 0.
func nonZero(d time.Duration) time.Duration { return max(d, minDuration) }

// setCommand runs cmd by a shell, as Marathon does.
func setCommand(spec *job.Spec, app *marathon.App) {
	switch {
	case app.Cmd == "":
		spec.Command = slices.Clone(app.Args)
		spec.ImageEntrypoint = spec.Containerizer == job.Mesos && spec.Image != "" && len(app.Args) > 0
	case spec.Containerizer == job.Docker:
		spec.Entrypoint, spec.Command = "/bin/sh", []string{"-c", app.Cmd}
	default:
		spec.Command = shellCommand(app.Cmd)
	}
}

func shellCommand(line string) []string { return []string{"/bin/sh", "-c", line} }

func fetchArtifacts(fetch []marathon.Artifact) []job.FetchArtifact {
	var all []job.FetchArtifact
	for _, a := range fetch {
		all = append(all, job.FetchArtifact{
			URI: a.URI, Path: a.DestPath, Executable: a.Executable, Cache: a.Cache,
			Extract: a.Extract && !a.Executable, // Mesos's fetcher supports only one of them
		})
	}
	return all
}

func resourceLimits(l *marathon.ResourceLimits) job.ResourceLimits {
	if l == nil {
		return job.ResourceLimits{}
	}
	return job.ResourceLimits{CPUs: resourceLimit(l.CPUs), MemMiB: resourceLimit(l.Mem)}
}

func resourceLimit(l *marathon.ResourceLimit) float64 {
	switch {
	case l == nil:
		return 0
	case l.Unlimited:
		return job.Unlimited
	default:
		return l.Amount
	}
}

// jobLabels returns the app's labels and those that AppOf reads.
func jobLabels(app *marathon.App, version string) map[string]string {
	all := maps.Clone(app.Labels)
	if version == "" {
		return all
	}
	if all == nil {
		all = map[string]string{}
	}
	all[marathon.AppLabel], all[marathon.VersionLabel] = app.ID, version
	return all
}

// servicePolicy returns Marathon's backoff: a bound of 0 disables it.
func servicePolicy(app *marathon.App) *job.Service {
	s := &job.Service{Backoff: job.BackoffPolicy{Factor: app.BackoffFactor, Max: nonZero(toDuration(app.MaxLaunchDelaySeconds))}}
	s.Backoff.Initial = min(nonZero(toDuration(app.BackoffSeconds)), s.Backoff.Max)
	switch u := app.UnreachableStrategy; {
	case u == nil:
		s.ReplaceAfter = minDuration
	case u.Disabled:
		s.ReplaceAfter = -1
	default:
		s.ReplaceAfter = nonZero(toDuration(u.InactiveAfterSeconds))
	}
	return s
}

// placementConstraints also keep an app without GPUs off agents with GPUs, unless its label
// allows them, and an app that accepts only one kind of resources, reserved or not, off
// agents that offer the other.
func placementConstraints(app *marathon.App, s marathon.ParseSettings) ([]job.Constraint, error) {
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
	if is := acceptedReservation(app); is != "" {
		all = append(all, job.Constraint{Field: job.ReservationField, Operator: job.Is, Value: is})
	}
	return all, nil
}

// acceptedReservation returns the kind of resources that an app accepts, or "" for any. All
// resources of role * are unreserved.
func acceptedReservation(app *marathon.App) string {
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

func setContainer(spec *job.Spec, c *marathon.Container) {
	if c == nil {
		return
	}
	if c.Type == marathon.DockerType {
		spec.Containerizer = job.Docker
	}
	if d := c.Docker; d != nil {
		spec.Image, spec.ForcePull = d.Image, d.ForcePullImage
		for _, p := range d.Parameters {
			spec.Parameters = append(spec.Parameters, job.DockerParameter{Key: p.Key, Value: p.Value})
		}
	}
	if l := c.LinuxInfo; l != nil && l.IPCInfo != nil && l.IPCInfo.ShmSizeMiB != nil {
		spec.ShmMiB = float64(*l.IPCInfo.ShmSizeMiB)
	}
	for _, v := range c.Volumes {
		if v.Secret == "" { // job.Spec.SecretFiles has the others
			spec.Volumes = append(spec.Volumes, translateVolume(v))
		}
	}
}
