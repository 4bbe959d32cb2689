package metrics

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// gpuTimeModel is a cluster with a scheduler that launches tasks and receives their ends. Its
// fields are the content of the journal.
type gpuTimeModel struct {
	t        *testing.T
	now      time.Time
	g        *GPUTimeTracker
	past     sched.RecoveredState
	document []byte
	attempts map[string][]byte // documents of earlier attempts
}

func (l *gpuTimeModel) takeOver() {
	l.t.Helper()
	l.past.Documents = map[string][]byte{sched.CountersKey: l.document}
	maps.Copy(l.past.Documents, l.attempts)
	g, err := NewSchedulerCounters().RestoreGPUTime(l.past, attemptsIn(l.past.Documents), l.now)
	if err != nil {
		l.t.Fatal(err)
	}
	l.g = g
}

func (l *gpuTimeModel) launchTask(role, kind string, gpus int) int {
	id := fmt.Sprintf("t%d", len(l.past.Jobs))
	spec := job.Spec{Name: id, Role: role, Tasks: 1}
	l.g.ApplyActions(l.now,
		[]sched.Operation{sched.AcceptOffers{Launches: []sched.TaskLaunch{{TaskID: id, Spec: &spec, GPUTypes: map[string]int{kind: gpus}}}}},
		nil)
	l.past.Jobs = append(l.past.Jobs, &job.Job{
		Spec:  new(spec),
		Tasks: []job.Task{{ID: id, Job: id, State: job.Running, Started: l.now, Changed: l.now, GPUTypes: map[string]int{kind: gpus}}},
	})
	return len(l.past.Jobs) - 1
}

func (l *gpuTimeModel) endTask(i int) {
	t := &l.past.Jobs[i].Tasks[0]
	l.g.ApplyActions(l.now, nil, []sched.StateTransition{{TaskID: t.ID, State: job.Finished}})
	t.State, t.Ended = job.Finished, l.now
}

// writeRecord stores the record if it has changed.
func (l *gpuTimeModel) writeRecord() {
	if document := l.g.EncodeRecord(l.now); document != nil {
		l.document = document
	}
}

func (l *gpuTimeModel) totalSeconds() map[string]float64 {
	l.t.Helper()
	list, err := ReadGPUSeconds(l.document)
	if err != nil {
		l.t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, s := range list {
		sums[s.Role+" "+s.Type] = s.Seconds
	}
	return sums
}

func (l *gpuTimeModel) expectTotals(want map[string]float64) {
	l.t.Helper()
	if diff := cmp.Diff(want, l.totalSeconds()); diff != "" {
		l.t.Errorf("GPU seconds (-want +got):\n%s", diff)
	}
}

// TestGPUTime checks times from launch to end, by role and type, for whole and shared GPUs.
func TestGPUTime(t *testing.T) {
	l := &gpuTimeModel{t: t, now: time.Unix(1_700_000_000, 0)}
	l.takeOver()
	if l.g.EncodeRecord(l.now.Add(time.Hour)) != nil {
		t.Error("a record exists without tasks")
	}
	l.now = l.now.Add(time.Hour)
	first := l.launchTask("research", "V100", 2)
	l.now = l.now.Add(10 * time.Second)
	l.launchTask("*", "A100", 1)
	l.g.ApplyActions(l.now, []sched.Operation{sched.AcceptOffers{Launches: []sched.TaskLaunch{
		{TaskID: "shared", Spec: &job.Spec{Role: "*"}, Shares: []gpu.DeviceShare{{Type: "T4", MilliDevices: 250}}}, {TaskID: "none", Spec: &job.Spec{Role: "*"}},
	}}}, nil)
	l.now = l.now.Add(20 * time.Second)
	l.endTask(first)
	l.endTask(first) // a repeated end
	l.now = l.now.Add(20 * time.Second)
	l.writeRecord()
	l.expectTotals(map[string]float64{"research V100": 60, "* A100": 40, "* T4": 10})
	l.now = l.now.Add(-10 * time.Second)
	l.writeRecord()
	l.expectTotals(map[string]float64{"research V100": 60, "* A100": 40, "* T4": 10})
	l.now = l.now.Add(12 * time.Second)
	l.writeRecord()
	l.expectTotals(map[string]float64{"research V100": 60, "* A100": 42, "* T4": 10.5})
}

// TestGPUTimeAcrossFailover checks that the next leader counts the time without a leader, and
// the time that the last one had not recorded, once.
func TestGPUTimeAcrossFailover(t *testing.T) {
	l := &gpuTimeModel{t: t, now: time.Unix(1_700_000_000, 0)}
	l.takeOver()
	stays, ends := l.launchTask("*", "V100", 1), l.launchTask("*", "A100", 1)
	l.now = l.now.Add(10 * time.Second)
	l.writeRecord()
	l.now = l.now.Add(5 * time.Second)
	l.endTask(ends) // not recorded
	l.now = l.now.Add(time.Minute)
	l.takeOver()
	l.writeRecord()
	l.expectTotals(map[string]float64{"* V100": 75, "* A100": 15})
	l.takeOver() // again, immediately
	l.now = l.now.Add(time.Second)
	l.endTask(stays)
	l.now = l.now.Add(time.Hour)
	l.writeRecord()
	l.expectTotals(map[string]float64{"* V100": 76, "* A100": 15})

	again := l.launchTask("*", "T4", 1)
	before := l.past.Jobs[again].Tasks[0]
	l.now = l.now.Add(7 * time.Second)
	before.State, before.Ended = job.Failed, l.now // retried; the retry counts nothing
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	l.attempts = map[string][]byte{"attempt/" + before.ID: text}
	l.past.Jobs[again].Tasks[0] = job.Task{ID: "next", Job: before.Job, State: job.Waiting, Changed: l.now}
	l.takeOver()
	l.writeRecord()
	l.takeOver()
	l.writeRecord()
	l.expectTotals(map[string]float64{"* V100": 76, "* A100": 15, "* T4": 7})

	// An earlier run of a name counts for its own role.
	l = &gpuTimeModel{t: t, now: l.now, document: nil}
	l.takeOver()
	l.launchTask("research", "V100", 1)
	l.now = l.now.Add(time.Second)
	l.writeRecord()
	earlier := *l.past.Jobs[0]
	attempt := earlier.Tasks[0]
	attempt.ID, attempt.State, attempt.Ended = "attempt", job.Failed, l.now.Add(9*time.Second)
	if text, err = json.Marshal(attempt); err != nil {
		t.Fatal(err)
	}
	l.attempts = map[string][]byte{"attempt/attempt": text}
	earlier.Tasks = []job.Task{{ID: "end", Job: attempt.Job, State: job.Finished}}
	production := *earlier.Spec
	production.Role = "production"
	later := job.Job{Spec: &production, Run: 2}
	l.past.Jobs = []*job.Job{&earlier, &later}
	l.now = l.now.Add(10 * time.Second)
	l.takeOver()
	l.writeRecord()
	l.expectTotals(map[string]float64{"research V100": 10})

	l.document = []byte("{")
	if _, err := NewSchedulerCounters().RestoreGPUTime(sched.RecoveredState{Documents: map[string][]byte{sched.CountersKey: l.document}},
		attemptsIn(nil), l.now); err == nil || !strings.Contains(err.Error(), sched.CountersKey) {
		t.Errorf("a broken record: %v", err)
	}
}

// TestGPUTimeIsIndependentOfFailover checks for random events and failovers that the total
// equals the sum of what the tasks held, and that recorded totals never decrease.
func TestGPUTimeIsIndependentOfFailover(t *testing.T) {
	seeds := uint64(50)
	if testneeds.IsLongRun() {
		seeds = 1000
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		l := &gpuTimeModel{t: t, now: time.Unix(1_700_000_000, 0)}
		l.takeOver()
		want, last := 0.0, 0.0
		running := map[int]bool{}
		for range 100 {
			step := time.Duration(random.IntN(20_000)) * time.Millisecond
			l.now = l.now.Add(step)
			want += float64(2*len(running)) * step.Seconds()
			switch random.IntN(4) {
			case 0:
				running[l.launchTask("*", "V100", 2)] = true
			case 1:
				for i := range running {
					l.endTask(i)
					delete(running, i)
					break
				}
			case 2:
				l.writeRecord()
			case 3:
				if l.document != nil { // without a record the start is unknown
					l.takeOver()
				}
			}
			if now := l.totalSeconds()["* V100"]; now < last {
				t.Fatalf("seed %d: fell from %v to %v", seed, last, now)
			} else {
				last = now
			}
		}
		l.writeRecord()
		if got := l.totalSeconds()["* V100"]; math.Abs(got-want) > 1e-6 {
			t.Fatalf("seed %d: %v GPU seconds, want %v", seed, got, want)
		}
	}
}

// attemptsIn returns the earlier attempts in a journal's documents.
func attemptsIn(documents map[string][]byte) iter.Seq[job.Task] {
	return func(yield func(job.Task) bool) {
		for key, text := range documents {
			if _, t, ok := sched.ParseAttempt(key, text); ok && !yield(t) {
				return
			}
		}
	}
}
