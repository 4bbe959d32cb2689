package usagehistory

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC)

// journal stores the documents that a recorder returns.
type journal map[string][]byte

func (j journal) put(documents map[string][]byte) {
	for key, value := range documents {
		if j[key] = value; len(value) == 0 {
			delete(j, key)
		}
	}
}

// store stores the documents of a recorder, which it confirms.
func (j journal) store(r *Recorder, documents map[string][]byte) {
	j.put(documents)
	r.MarkStored()
}

func (j journal) size() (n int) {
	for key, value := range j {
		n += len(key) + len(value)
	}
	return n
}

func (j journal) open(t testing.TB) *Recorder {
	t.Helper()
	r, errs := NewRecorder(maps.All(j))
	if len(errs) > 0 {
		t.Fatalf("load the journal: %v", errs)
	}
	return r
}

func (j journal) read(key string) []byte { return j[key] }

func always(string) bool { return true }

// sampleOf returns a sample with some GPUs of the type A100 held.
func sampleOf(held, duty float64) ClusterSample {
	return ClusterSample{WaitingGPUs: 3, Types: map[string]TypeSample{"A100": {GPUs: 64, Held: held, Duty: duty, Measured: held}}}
}

// TestPointBeforeGapIsStored leaves out samples for longer than an interval, as a scheduler does whose disk does not
// respond. The next sample must store the point that was in progress before.
func TestPointBeforeGapIsStored(t *testing.T) {
	stored := journal{}
	r := stored.open(t)
	stored.store(r, r.Record(start, sampleOf(2, 0.5), nil, always))
	stored.store(r, r.Record(start.Add(SampleInterval), sampleOf(4, 0.5), nil, always))
	after := start.Add(4 * pointInterval)
	stored.store(r, r.Record(after, sampleOf(1, 0.5), nil, always))
	got := stored.open(t).ClusterHistory(after, 24)
	if len(got.Times) != 1 || got.Types[0].Held[0] != 3 || got.Times[0] != start.Truncate(pointInterval).Add(pointInterval).Unix() {
		t.Errorf("got %+v, want the mean of both samples", got)
	}
}

// TestClusterHistoryOutlivesLeader checks that the next leader continues the history of the last
// one, and that points are means of their samples.
func TestClusterHistoryOutlivesLeader(t *testing.T) {
	stored, now := journal{}, start
	r := stored.open(t)
	for i := range 61 {
		stored.store(r, r.Record(now, sampleOf(float64(i%5), 0.5), nil, always))
		now = now.Add(SampleInterval)
	}
	r = stored.open(t) // a failover
	got := r.ClusterHistory(now, 24)
	if len(got.Times) != 12 || got.IntervalSeconds != 300 || len(got.Types) != 1 {
		t.Fatalf("got %+v, want the 12 points of an hour", got)
	}
	for i := range got.Times {
		if one := got.Types[0]; one.Held[i] != 2 || one.GPUs[i] != 64 || one.Duty[i] == nil || *one.Duty[i] != 0.5 || got.WaitingGPUs[i] != 3 {
			t.Errorf("point %d: %+v", i, got)
		}
	}
	stored.store(r, r.Record(now, sampleOf(7, 1), nil, always))
	if got = r.ClusterHistory(now, 24); got.Types[0].Held[12] != 7 || got.Times[12] != now.Unix() {
		t.Errorf("the present sample is missing: %+v", got)
	}
	if got = r.ClusterHistory(now.Add(30*24*time.Hour), 24); len(got.Times) != 0 {
		t.Errorf("a month later the last day has %d points", len(got.Times))
	}
}

// TestHistorySizeOfThirtyDays checks the size of what is stored for 1,000 agents with ten types
// of GPUs and 60,000 jobs in 30 days.
func TestHistorySizeOfThirtyDays(t *testing.T) {
	stored, now := journal{}, start
	r := stored.open(t)
	kinds := make([]string, 10)
	for i := range kinds {
		kinds[i] = fmt.Sprintf("TYPE-%d", i)
	}
	minutes, written := 0, 0
	for day := 0; day < 31; day++ {
		for range 24 * 60 {
			cluster := ClusterSample{WaitingGPUs: float64(minutes % 97), Types: map[string]TypeSample{}}
			for i, kind := range kinds {
				cluster.Types[kind] = TypeSample{GPUs: 800, Held: float64((minutes*7 + i*31) % 800), Duty: float64(minutes%100) / 100, Measured: 700}
			}
			jobs := map[string]JobSample{}
			for i := range 40 { // jobs of 29 minutes to 19 hours
				life := 29 << (i % 6)
				jobs[fmt.Sprintf("train-%d-%d@1", i, minutes/life)] = JobSample{
					GPUs:       8,
					Measured:   8,
					Duty:       float64(minutes%89) / 100,
					DutyMax:    1,
					MemUsedMiB: float64(60000 + minutes%7919),
					MemMiB:     81920,
				}
			}
			documents := r.Record(now, cluster, jobs, func(run string) bool { _, live := jobs[run]; return live })
			for _, text := range documents {
				written += len(text)
			}
			stored.store(r, documents)
			now, minutes = now.Add(SampleInterval), minutes+1
		}
	}
	t.Logf("%d documents, %.1f MB, of which %.1f MB of the cluster; %.1f kB written in a minute", len(stored),
		float64(stored.size())/1e6, float64(clusterSize(stored))/1e6, float64(written)/float64(minutes)/1e3)
	if got := stored.size(); got > 50e6 {
		t.Errorf("the history has %d bytes, more than 50 MB", got)
	}
	for _, hours := range []int{1, 24, 168, 720} {
		v := r.ClusterHistory(now, hours)
		if n := len(v.Times); n > maxViewPoints+1 || n < 55 || len(v.Types) != 10 {
			t.Errorf("%d hours: %d points of %d types", hours, n, len(v.Types))
		}
	}
	if oldest := r.ClusterHistory(now, 720).Times[0]; now.Unix()-oldest < 29*24*3600 {
		t.Errorf("the history begins %s ago", time.Duration(now.Unix()-oldest)*time.Second)
	}
}

func clusterSize(j journal) (n int) {
	for key, value := range j {
		if len(key) > len(dayPrefix) && key[:len(dayPrefix)] == dayPrefix {
			n += len(value)
		}
	}
	return n
}

// TestJobDocumentsAreLimited checks that the oldest jobs are removed above the limit, and no live ones.
func TestJobDocumentsAreLimited(t *testing.T) {
	stored, now := journal{}, start
	r := stored.open(t)
	r.jobs["live@1"] = &liveSeries{newJobSeries(now), now}
	one := newJobSeries(now)
	for i := range maxJobPoints {
		one.addSample(now.Add(time.Duration(i)*time.Minute), JobSample{GPUs: 1, Measured: 1, Duty: 1, DutyMax: 1, MemUsedMiB: 81920})
	}
	documents := map[string][]byte{}
	for i := range 1 + maxJobBytes/len(encode(one)) {
		ended := *one
		ended.Ended, ended.Updated = true, now.Unix()+int64(i)
		r.storeJob(fmt.Sprintf("old-%d@1", i), &ended, documents)
	}
	r.storeJob("live@1", r.jobs["live@1"].jobSeries, documents)
	stored.put(documents)
	stored.store(r, r.Record(now, ClusterSample{}, nil, always))
	if stored.size() > maxJobBytes+1<<20 || stored["usage/job/old-0@1"] != nil || stored["usage/job/live@1"] == nil || stored["usage/job/old-999@1"] == nil {
		t.Errorf("%d documents with %d bytes are left", len(stored), stored.size())
	}
	if again := stored.open(t); again.total != r.total {
		t.Errorf("after a failover the documents have %d bytes, before it %d", again.total, r.total)
	}
}

// TestJobHistoryOutlivesLeader checks that a job's series continues after a failover and remains
// after the job's end.
func TestJobHistoryOutlivesLeader(t *testing.T) {
	stored, now := journal{}, start
	r := stored.open(t)
	one := map[string]JobSample{"train@2": {GPUs: 2, Measured: 2, Duty: 0.8, DutyMax: 0.9, MemUsedMiB: 1000, MemMiB: 2000}}
	record := func(minutes int, live func(string) bool) {
		for range minutes {
			stored.store(r, r.Record(now, ClusterSample{}, one, live))
			now = now.Add(SampleInterval)
		}
	}
	record(30, always)
	r = stored.open(t)
	record(30, always)
	one = nil
	record(1, func(string) bool { return false })
	r = stored.open(t)
	v := r.JobHistory("train@2", stored.read)
	if len(v.Times) < 55 || v.GPUHours < 1.6 || v.GPUHours > 2 || v.MemMiB != 2000 || *v.Duty[3] != 0.8 || *v.DutyMax[3] != 0.9 || *v.MemUsedMiB[3] != 1000 {
		t.Errorf("got %d points, %g GPU hours of 2, %g MiB", len(v.Times), v.GPUHours, v.MemMiB)
	}
	if v = r.JobHistory("other@1", stored.read); len(v.Times) != 0 || v.Times == nil {
		t.Errorf("an unknown job has %+v", v)
	}
}

// TestJobSeriesStaysBounded checks by random samples that a series has at most maxJobPoints points
// and that their values lie within those of the samples.
func TestJobSeriesStaysBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := start
		s := newJobSeries(now)
		lowest, highest, gpus := math.Inf(1), 0., 0.
		for range rapid.IntRange(1, 600).Draw(t, "samples") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "minutes")) * time.Minute)
			one := JobSample{GPUs: 1, Measured: rapid.IntRange(0, 2).Draw(t, "measured"), Duty: rapid.Float64Range(0, 1).Draw(t, "duty")}
			one.DutyMax = one.Duty
			s.addSample(now, one)
			if gpus++; one.Measured > 0 {
				lowest, highest = min(lowest, one.Duty), max(highest, one.Duty)
			}
		}
		again, err := decodeJobSeries(encode(s))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, again); diff != "" {
			t.Errorf("(-stored +loaded)\n%s", diff)
		}
		v := s.view()
		if len(v.Times) > maxJobPoints || v.GPUHours != roundTo(gpus/60, 1000) {
			t.Errorf("%d points, %g GPU hours", len(v.Times), v.GPUHours)
		}
		for i, at := range v.Times {
			if i > 0 && at < v.Times[i-1] {
				t.Errorf("time %d is before the one before it", i)
			}
			if d := v.Duty[i]; d != nil && (*d < lowest-0.02 || *d > highest+0.02) {
				t.Errorf("point %d has the duty %g, the samples have %g to %g", i, *d, lowest, highest)
			}
		}
	})
}

// TestDamagedDocumentsAreReplaced checks that a damaged document is reported and does not prevent
// the history from being recorded.
func TestDamagedDocumentsAreReplaced(t *testing.T) {
	day, _ := dayOf(start)
	stored := journal{
		dayPrefix + "x":             []byte("{}"),
		dayPrefix + fmt.Sprint(day): []byte(`{"waiting":[1],"types":{"A100":{"gpus":[1,2]}}}`),
		jobPrefix + "a@1":           []byte("{"),
		jobPrefix + "b@1":           []byte(`{"interval":60,"duty":[1]}`),
	}
	r, errs := NewRecorder(maps.All(stored))
	if len(errs) != 4 {
		t.Errorf("got the errors %v, want 4", errs)
	}
	now := start
	for range 12 {
		stored.store(r, r.Record(now, sampleOf(1, 1), nil, always))
		now = now.Add(SampleInterval)
	}
	if r, errs = NewRecorder(maps.All(stored)); len(errs) != 3 || len(r.ClusterHistory(now, 24).Times) != 2 {
		t.Errorf("later: %v, %d points", errs, len(r.ClusterHistory(now, 24).Times))
	}
}

// TestUnstoredDocumentsAreReturnedAgain checks that the series of an ended job, which the journal did not accept, can be read and
// is returned until it is stored.
func TestUnstoredDocumentsAreReturnedAgain(t *testing.T) {
	stored, never := journal{}, func(string) bool { return false }
	r := stored.open(t)
	one := map[string]JobSample{"train@1": {GPUs: 2}}
	for i := range 3 {
		stored.store(r, r.Record(start.Add(time.Duration(i)*SampleInterval), ClusterSample{}, one, always))
	}
	refused := r.Record(start.Add(3*SampleInterval), ClusterSample{}, nil, never)
	if v := r.JobHistory("train@1", stored.read); len(refused) == 0 || len(v.Times) < 3 {
		t.Fatalf("%d documents, and %d points before they are stored", len(refused), len(v.Times))
	}
	stored.store(r, r.Record(start.Add(4*SampleInterval), ClusterSample{}, nil, never))
	if v := stored.open(t).JobHistory("train@1", stored.read); len(v.Times) < 3 {
		t.Errorf("the next leader has %d points", len(v.Times))
	}
	if again := r.Record(start.Add(5*SampleInterval), ClusterSample{}, nil, never); again["usage/job/train@1"] != nil {
		t.Error("a stored document is returned again")
	}
}
