package job

import (
	"regexp"
	"strings"
	"time"
)

// AutoscalingPolicy sets how the scheduler changes the number of a service's tasks: so that
// the average load of a task is near the target, as Kubernetes's HorizontalPodAutoscaler does.
type AutoscalingPolicy struct {
	// Min and Max bound the number of tasks.
	Min int `json:"min,omitempty"`
	Max int `json:"max,omitempty"`
	// Target is the load that a task should have.
	Target LoadTarget `json:"target,omitzero"`
	// Cooldown is the time after a change of the number of tasks before the next one.
	Cooldown time.Duration `json:"cooldown,omitempty"`
	// Stabilization delays changes until the load has required them for a time.
	Stabilization StabilizationWindows `json:"stabilization,omitzero"`
}

// StabilizationWindows are the times in which the load must require more, or fewer, tasks
// before their number changes: the smallest, or largest, number required in that time counts.
type StabilizationWindows struct {
	Up   time.Duration `json:"up,omitempty"`
	Down time.Duration `json:"down,omitempty"`
}

// LoadTarget is the load that each task of a service should have. One of GPUDuty,
// RequestsPerSecond and Value is set.
type LoadTarget struct {
	// GPUDuty is the utilization of the task's GPUs in percent.
	GPUDuty float64 `json:"gpu_duty,omitempty"`
	// RequestsPerSecond is the rate at which the counter Metric grows.
	RequestsPerSecond float64 `json:"requests_per_second,omitempty"`
	// Value is the value of the gauge Metric.
	Value float64 `json:"value,omitempty"`
	// Metric is a metric of the task, the sum of its series. The task serves it by HTTP at
	// Path of the port with the index PortIndex, in the text format of Prometheus.
	Metric    string `json:"metric,omitempty"`
	Path      string `json:"path,omitempty"`
	PortIndex int    `json:"port_index,omitempty"`
}

// Defaults of autoscaling. The last two equal the defaults of Kubernetes.
const (
	DefaultAutoscalingCooldown = time.Minute
	DefaultStabilizeDown       = 5 * time.Minute
	DefaultRequestsMetric      = "http_requests_total"
	DefaultMetricsPath         = "/metrics"
	// MaxAutoscalingTime bounds the cooldown and the stabilization.
	MaxAutoscalingTime = 24 * time.Hour
	// maxLoadTarget and maxMetricName reject obvious mistakes.
	maxLoadTarget = 1e9
	maxMetricName = 200
)

// metricPattern matches the names of metrics that Prometheus permits.
var metricPattern = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)

// IsSet reports whether the scheduler scales the service.
func (a *AutoscalingPolicy) IsSet() bool { return *a != AutoscalingPolicy{} }

// NeedsMetric reports whether the load is a metric that the tasks serve.
func (t *LoadTarget) NeedsMetric() bool { return t.GPUDuty == 0 }

// Wanted returns the target's value.
func (t *LoadTarget) Wanted() float64 { return t.GPUDuty + t.RequestsPerSecond + t.Value }

// Name returns what is measured, for messages.
func (t *LoadTarget) Name() string {
	switch {
	case t.GPUDuty > 0:
		return "gpu_duty"
	case t.RequestsPerSecond > 0:
		return "requests_per_second"
	default:
		return t.Metric
	}
}

// setDefaults fills in what is absent of a policy that is set.
func (a *AutoscalingPolicy) setDefaults() {
	if !a.IsSet() {
		return
	}
	if a.Min == 0 {
		a.Min = 1
	}
	if a.Cooldown == 0 {
		a.Cooldown = DefaultAutoscalingCooldown
	}
	if a.Stabilization.Down == 0 {
		a.Stabilization.Down = DefaultStabilizeDown
	}
	if t := &a.Target; t.GPUDuty == 0 {
		if t.Metric == "" && t.RequestsPerSecond > 0 {
			t.Metric = DefaultRequestsMetric
		}
		if t.Path == "" && t.Metric != "" {
			t.Path = DefaultMetricsPath
		}
	}
}

// validateAutoscaling checks the policy of a service that has one.
func (s *Spec) validateAutoscaling(bad reportFunc) {
	a := &s.Service.Autoscaling
	if !a.IsSet() {
		return
	}
	switch {
	case a.Max == 0:
		bad(field("service", "max"), "service: max: needed with min and target: the largest number of tasks")
	case a.Min < 1 || a.Max < a.Min || a.Max > MaxTasks:
		bad(field("service", "max"), "service: min: %d, max: %d: use 1 to %d, and max not below min", a.Min, a.Max, MaxTasks)
	case s.Tasks < a.Min || s.Tasks > a.Max:
		bad(field("tasks").and("service"), "tasks: %d is not between the service's min: %d and max: %d", s.Tasks, a.Min, a.Max)
	}
	s.validateLoadTarget(bad)
	for _, d := range [...]time.Duration{a.Cooldown, a.Stabilization.Up, a.Stabilization.Down} {
		if d < 0 || d > MaxAutoscalingTime {
			bad(field("service"), "service: cooldown and stabilization: %s is not between 0 and %s", d, MaxAutoscalingTime)
		}
	}
}

// validateLoadTarget checks the target, and that the tasks have what is measured: GPUs, or a port with metrics.
func (s *Spec) validateLoadTarget(bad reportFunc) {
	t := &s.Service.Autoscaling.Target
	set := 0
	for _, v := range [...]float64{t.GPUDuty, t.RequestsPerSecond, t.Value} {
		if v != 0 {
			set++
		}
		if !(v >= 0 && v <= maxLoadTarget) {
			bad(field("service", "target"), "service: target: %g is not between 0 and %g", v, maxLoadTarget)
			return
		}
	}
	switch {
	case set != 1:
		bad(field("service", "target"), "service: target: use one of {gpu_duty: 60}, {requests_per_second: 50} and {metric: NAME, value: 10}")
	case t.GPUDuty > 100:
		bad(field("service", "target"), "service: target: gpu_duty: %g is more than 100 percent", t.GPUDuty)
	case t.GPUDuty > 0 && s.Request.GPUs == 0:
		bad(field("service", "target").and("gpus"), "service: target: gpu_duty: the tasks have no GPUs")
	case t.GPUDuty > 0 && (t.Metric != "" || t.Path != "" || t.PortIndex != 0):
		bad(field("service", "target"), "service: target: metric, path and port_index have no meaning with gpu_duty")
	case t.GPUDuty > 0:
	case len(t.Metric) > maxMetricName || !metricPattern.MatchString(t.Metric):
		bad(field("service", "target"), "service: target: metric: %q is not the name of a metric of Prometheus", t.Metric)
	case !strings.HasPrefix(t.Path, "/") || len(t.Path) > maxMetricName || strings.ContainsFunc(t.Path, func(r rune) bool { return r <= ' ' || r > '~' }):
		bad(field("service", "target"), "service: target: path: %q: use a path such as /metrics", t.Path)
	case t.PortIndex < 0 || t.PortIndex >= len(s.Ports):
		bad(field("service", "target").and("ports"),
			"service: target: port_index: %d: the job has %d ports, at one of which the tasks serve their metrics",
			t.PortIndex, len(s.Ports))
	}
}
