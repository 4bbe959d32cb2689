package job

import (
	"strings"
	"testing"
	"time"
)

// autoscaledSpec is a valid service of 2 tasks that is scaled by a metric.
func autoscaledSpec() Spec {
	s := valid()
	s.Tasks, s.Ports = 2, []Port{{}}
	s.Service = &Service{Autoscaling: AutoscalingPolicy{Max: 4, Target: LoadTarget{Metric: "queue_length", Value: 10}}}
	s.SetDefaults()
	return s
}

func TestAutoscalingDefaults(t *testing.T) {
	s := Spec{Name: "web", Command: []string{"true"}, Service: &Service{Autoscaling: AutoscalingPolicy{Min: 3, Max: 4, Target: LoadTarget{RequestsPerSecond: 50}}}}
	s.Ports = []Port{{}}
	if err := s.Complete(); err != nil {
		t.Fatal(err)
	}
	want := AutoscalingPolicy{
		Min: 3, Max: 4, Cooldown: time.Minute, Stabilization: StabilizationWindows{Down: 5 * time.Minute},
		Target: LoadTarget{RequestsPerSecond: 50, Metric: "http_requests_total", Path: "/metrics"},
	}
	if s.Service.Autoscaling != want || s.Tasks != 3 {
		t.Errorf("%d tasks, %+v", s.Tasks, s.Service.Autoscaling)
	}
	plain := Spec{Name: "web", Command: []string{"true"}, Service: &Service{}}
	if err := plain.Complete(); err != nil || plain.Service.Autoscaling.IsSet() || plain.Tasks != 1 {
		t.Errorf("%v: a service without autoscaling is %+v", err, plain.Service.Autoscaling)
	}
}

func TestAutoscalingIsValidated(t *testing.T) {
	for want, change := range map[string]func(*Spec, *AutoscalingPolicy){
		"":                                func(*Spec, *AutoscalingPolicy) {},
		"max: needed with min and target": func(_ *Spec, a *AutoscalingPolicy) { a.Max = 0 },
		"min: 5, max: 4: use 1 to 10000":  func(_ *Spec, a *AutoscalingPolicy) { a.Min = 5 },
		"min: -1, max: 4":                 func(_ *Spec, a *AutoscalingPolicy) { a.Min = -1 },
		"max: 10001":                      func(_ *Spec, a *AutoscalingPolicy) { a.Max = 10_001 },
		"tasks: 5 is not between the service's min: 1 and": func(s *Spec, _ *AutoscalingPolicy) { s.Tasks = 5 },
		"use one of {gpu_duty: 60}":                        func(_ *Spec, a *AutoscalingPolicy) { a.Target.RequestsPerSecond = 1 },
		"target: use one of":                               func(_ *Spec, a *AutoscalingPolicy) { a.Target.Value = 0 },
		"-1 is not between 0 and":                          func(_ *Spec, a *AutoscalingPolicy) { a.Target.Value = -1 },
		"gpu_duty: the tasks have no GPUs":                 func(s *Spec, a *AutoscalingPolicy) { s.Request.GPUs, a.Target = 0, LoadTarget{GPUDuty: 60} },
		"gpu_duty: 120 is more than 100 percent":           func(_ *Spec, a *AutoscalingPolicy) { a.Target = LoadTarget{GPUDuty: 120} },
		"have no meaning with gpu_duty": func(s *Spec, a *AutoscalingPolicy) {
			s.Request.GPUs, a.Target = 1, LoadTarget{GPUDuty: 60, Metric: "m"}
		},
		`metric: "queue length" is not the name`:     func(_ *Spec, a *AutoscalingPolicy) { a.Target.Metric = "queue length" },
		`path: "metrics": use a path`:                func(_ *Spec, a *AutoscalingPolicy) { a.Target.Path = "metrics" },
		`path: "/a b": use a path`:                   func(_ *Spec, a *AutoscalingPolicy) { a.Target.Path = "/a b" },
		"port_index: 1: the job has 1 ports":         func(_ *Spec, a *AutoscalingPolicy) { a.Target.PortIndex = 1 },
		"port_index: 0: the job has 0 ports":         func(s *Spec, _ *AutoscalingPolicy) { s.Ports = nil },
		"cooldown and stabilization: 25h0m0s is not": func(_ *Spec, a *AutoscalingPolicy) { a.Cooldown = 25 * time.Hour },
		"-1s is not between":                         func(_ *Spec, a *AutoscalingPolicy) { a.Stabilization.Up = -time.Second },
	} {
		s := autoscaledSpec()
		change(&s, &s.Service.Autoscaling)
		err := s.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A service that a user has scaled out of its bounds can be submitted again.
func TestSubmittableSpecIsWithinBounds(t *testing.T) {
	for wanted, tasks := range map[int]int{0: 1, 2: 2, 4: 4, 9: 4} {
		j := &Job{Spec: new(autoscaledSpec()), Tasks: make([]Task, wanted)}
		if s := j.SubmittableSpec(); s.Tasks != tasks || s.Validate() != nil {
			t.Errorf("a service with %d tasks: %d, %v", wanted, s.Tasks, s.Validate())
		}
	}
}
