package loads

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"mesos-gpu/framework/autoscale"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const (
	// maxConcurrentScrapes and measureTimeout limit the work for one service.
	maxConcurrentScrapes = 16
	measureTimeout       = 10 * time.Second
	// maxProblemText limits the text of an error, which the task may influence.
	maxProblemText = 200
)

// Measurer measures the tasks of services. It keeps the samples of counters, from which it
// computes rates.
type Measurer struct {
	// readDuty returns the average utilization of a task's GPUs, 0 to 1, false if it is unknown.
	readDuty func(task string) (float64, bool)
	client   *http.Client

	// mu protects samples.
	mu sync.Mutex
	// samples are the samples of the last rateWindow of counters, by task id.
	samples map[string][]metricSample
}

// New returns a Measurer. readDuty returns the average utilization of a task's GPUs in the
// last minute, 0 to 1, false if it is unknown.
func New(readDuty func(task string) (float64, bool)) *Measurer {
	return &Measurer{readDuty: readDuty, client: newScrapeClient(), samples: map[string][]metricSample{}}
}

// Observe measures the tasks of a service that can take load: they run, are not about to be
// ended, and pass their health checks.
func (m *Measurer) Observe(ctx context.Context, j *job.Job) autoscale.Observation {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	o := autoscale.Observation{Wanted: j.WantedTasks()}
	var mu sync.Mutex // protects o
	var group sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentScrapes)
	notReady := 0
	for i := range j.Tasks {
		t := &j.Tasks[i]
		switch {
		case t.KillReason == job.KillByScaling:
			continue
		case t.State == job.Waiting:
			o.Waiting++
			notReady++
			continue
		case !isReady(j.Spec, t):
			notReady++
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			load, err := m.measureTask(ctx, &j.Spec.Service.Autoscaling.Target, t)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				o.Problem = fmt.Sprintf("task %d: %s", t.Index, printable(err.Error()))
				return
			}
			o.Loads = append(o.Loads, load)
		})
	}
	group.Wait()
	if o.Problem == "" && notReady > 0 {
		o.Problem = fmt.Sprintf("%d %s not ready", notReady, gpu.Plural(notReady, "task"))
	}
	return o
}

func isReady(s *job.Spec, t *job.Task) bool {
	return t.State == job.Running && t.KillRequested.IsZero() && (s.HealthCheck == nil || t.Healthy != nil && *t.Healthy)
}

// measureTask returns the load of one task, in the unit of the target.
func (m *Measurer) measureTask(ctx context.Context, target *job.LoadTarget, t *job.Task) (float64, error) {
	if !target.NeedsMetric() {
		duty, ok := m.readDuty(t.ID)
		if !ok {
			return 0, fmt.Errorf("its agent has not reported the usage of its GPUs")
		}
		return 100 * duty, nil
	}
	address, err := metricsURL(t, target)
	if err != nil {
		return 0, err
	}
	s, err := scrapeMetric(ctx, m.client, address, target.Metric)
	switch {
	case err != nil:
		return 0, err
	case target.RequestsPerSecond == 0 && s.counter:
		return 0, fmt.Errorf("%s is a counter: use requests_per_second instead of value", target.Metric)
	case target.RequestsPerSecond == 0:
		return s.value, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.samples[t.ID] = addSample(m.samples[t.ID], s)
	rate, ok := rateOf(m.samples[t.ID])
	if !ok {
		return 0, fmt.Errorf("%s was read once, a rate needs two values", target.Metric)
	}
	return rate, nil
}

// DropOtherTasks deletes the samples of all tasks but the current ones of these services.
func (m *Measurer) DropOtherTasks(services []job.Job) {
	current := map[string]bool{}
	for i := range services {
		for t := range services[i].Tasks {
			current[services[i].Tasks[t].ID] = true
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.samples {
		if !current[id] {
			delete(m.samples, id)
		}
	}
}

// printable returns the beginning of a text without control characters.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	if runes := []rune(text); len(runes) > maxProblemText {
		return string(runes[:maxProblemText]) + "…"
	}
	return text
}
