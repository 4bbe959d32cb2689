package accounting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"pgregory.net/rapid"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// testStart is when tests begin.
var testStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// endOf returns the end of an attempt that held GPUs of a type for some seconds after a wait of one minute.
func endOf(name string, n int, state job.State, kind string, gpus int, held time.Duration) sched.AttemptEnd {
	launched := testStart.Add(time.Duration(n) * time.Minute)
	t := job.Task{
		ID:       fmt.Sprintf("%s.0.%d.x", name, n),
		Job:      name,
		Run:      1,
		Attempt:  n,
		State:    state,
		AgentURL: "http://agent",
		Hostname: "h1",
		Launched: launched,
		Started:  launched,
		Ended:    launched.Add(held),
		Queued:   launched.Add(-time.Minute),
	}
	if gpus > 0 {
		t.GPUTypes = map[string]int{kind: gpus}
	}
	for i := range gpus {
		t.DeviceIDs = append(t.DeviceIDs, fmt.Sprintf("GPU-%s-%d", kind, i))
	}
	return sched.AttemptEnd{Task: t, Role: "research", Owner: "ada", CPUs: 2, Submitted: testStart.Add(-time.Hour)}
}

func openTestFile(t testing.TB) *attemptFile {
	t.Helper()
	f, err := openAttemptFile(filepath.Join(t.TempDir(), "accounting.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.close() })
	return f
}

// TestDamagedFileIsNotLocked: a file for which bbolt panics is reported as damaged at each attempt, and is not locked: it can be
// opened after it was repaired.
func TestDamagedFileIsNotLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "accounting.db")
	f, err := openAttemptFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(sound)
	for i := 2 * os.Getpagesize(); i < len(damaged); i++ { // all but the two meta pages
		damaged[i] = 0xff
	}
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(damaged)
	for range 2 {
		if _, err := openAttemptFile(path); err == nil || !strings.Contains(err.Error(), "it is damaged") {
			t.Fatalf("got %v", err)
		}
	}
	write(sound)
	f, err = openAttemptFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f.close()
}

func addAll(t testing.TB, f *attemptFile, ends ...sched.AttemptEnd) []attemptRecord {
	t.Helper()
	added, err := f.addEnds(ends)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// TestRecordsSurviveEncoding: a record is the same after it was stored, and a damaged one is an error.
func TestRecordsSurviveEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, n := rapid.StringN(0, 8, -1), rapid.IntRange(0, 1<<40)
		at := rapid.Int64Range(0, math.MaxInt64)
		r := attemptRecord{
			id:         rapid.StringN(1, 8, -1).Draw(t, "id"),
			job:        text.Draw(t, "job"),
			owner:      text.Draw(t, "owner"),
			role:       text.Draw(t, "role"),
			host:       text.Draw(t, "host"),
			state:      text.Draw(t, "state"),
			reason:     text.Draw(t, "reason"),
			run:        n.Draw(t, "run"),
			index:      n.Draw(t, "index"),
			attempt:    n.Draw(t, "attempt"),
			milliCPUs:  n.Draw(t, "cpus"),
			queued:     at.Draw(t, "queued"),
			launched:   at.Draw(t, "launched"),
			started:    at.Draw(t, "started"),
			ended:      at.Draw(t, "ended"),
			usageState: usageState(rapid.IntRange(0, 2).Draw(t, "state of usage")),
		}
		if rapid.Bool().Draw(t, "exited") {
			code := rapid.IntRange(-10, 300).Draw(t, "code")
			r.exitCode = &code
		}
		for range rapid.IntRange(0, 3).Draw(t, "types") {
			r.types = append(r.types, heldGPUs{text.Draw(t, "type"), n.Draw(t, "milli")})
			r.devices = append(r.devices, heldGPUs{text.Draw(t, "device"), n.Draw(t, "milli")})
		}
		if r.usageState == usageMeasured {
			r.usage = api.MeasuredUsage{GPUSeconds: rapid.Float64().Draw(t, "seconds"), Joules: 3, Simulated: rapid.Bool().Draw(t, "simulated")}
		}
		key, value := formatKey(r.ended, r.id), appendRecord(nil, &r)
		var d recordDecoder
		var got attemptRecord
		if err := d.decodeRecord(&got, key, value); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got, cmp.AllowUnexported(attemptRecord{}, heldGPUs{})); diff != "" {
			t.Error(diff)
		}
		if cut := rapid.IntRange(0, len(value)-1).Draw(t, "cut"); d.decodeRecord(&got, key, value[:cut]) == nil {
			t.Errorf("%d of %d bytes were decoded", cut, len(value))
		}
	})
}

// TestEndsAreStoredOnce: an end that is stored again changes nothing, except that of an attempt that was lost.
func TestEndsAreStoredOnce(t *testing.T) {
	f := openTestFile(t)
	lost := endOf("a", 1, job.Lost, "V100", 1, time.Hour)
	if n := len(addAll(t, f, lost, endOf("a", 2, job.Finished, "V100", 1, time.Hour))); n != 2 {
		t.Errorf("%d are new, want 2", n)
	}
	late := endOf("a", 1, job.Failed, "V100", 1, 2*time.Hour)
	late.Task.Reason = "REASON_CONTAINER_LIMITATION_MEMORY"
	again := endOf("a", 2, job.Failed, "V100", 1, 3*time.Hour)
	if n := len(addAll(t, f, late, again, lost)); n != 0 {
		t.Errorf("%d are new, want none", n)
	}
	list, _, err := f.listRecords(&Query{}, 0, nil)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d records, %v", len(list), err)
	}
	if list[0].State != job.Failed || list[0].Reason != "container_limitation_memory" || list[0].GPUSeconds != 3600 ||
		list[1].State != job.Finished || list[1].GPUSeconds != 3600 {
		t.Errorf("got %+v", list)
	}
}

// TestSums: groups divide attempts by type and device, filters and permissions omit attempts, and the total counts each once.
func TestSums(t *testing.T) {
	f := openTestFile(t)
	mixed := endOf("mixed", 1, job.Failed, "A100", 2, 100*time.Second)
	mixed.Task.GPUTypes = map[string]int{"A100": 1, "V100": 1}
	shared := endOf("share", 2, job.Finished, "V100", 0, 100*time.Second)
	shared.Task.DeviceIDs, shared.Task.Shares = []string{"GPU-s"}, []gpu.DeviceShare{{UUID: "GPU-s", Type: "V100", MilliDevices: 250}}
	shared.Owner, shared.Role = "bob", "prod"
	never := endOf("never", 3, job.Killed, "", 0, 0)
	never.Task.Launched, never.Task.Started, never.Task.Queued, never.Task.AgentURL = time.Time{}, time.Time{}, never.Task.Ended.Add(-30*time.Second), ""
	added := addAll(t, f, mixed, shared, never, endOf("cpu", 4, job.Finished, "", 0, 10*time.Second))
	if err := f.setUsage(formatKey(added[0].ended, added[0].id), usageMeasured, api.MeasuredUsage{
		GPUSeconds:     200,
		BusyGPUSeconds: 50,
		Joules:         1000,
		MaxMemMiB:      7,
	}); err != nil {
		t.Fatal(err)
	}
	report := func(q Query) string {
		t.Helper()
		r, err := f.sumRecords(&q)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, g := range append(r.Groups, api.AccountingGroup{AccountingSums: r.Total}) {
			var keys []string
			for _, key := range q.By {
				keys = append(keys, g.Keys[key])
			}
			lines = append(lines, fmt.Sprintf("%s:%d/%d %g/%g wait %g busy %g joules %g", strings.Join(keys, ","), g.Attempts,
				g.Unfinished, g.GPUSeconds, g.UnfinishedGPUSeconds, g.WaitSeconds, g.Usage.BusyGPUSeconds, g.Usage.Joules))
		}
		return strings.Join(lines, "\n")
	}
	by := func(keys ...string) api.AccountingQuery { return api.AccountingQuery{By: keys} }
	const total = "4/2 225/200 wait 210 busy 50 joules 1000"
	for name, test := range map[string]struct {
		q    Query
		want string
	}{
		"all": {Query{}, ":" + total},
		"types": {Query{AccountingQuery: by("type")},
			"V100:2/1 125/100 wait 120 busy 25 joules 500\nA100:1/1 100/100 wait 60 busy 25 joules 500\n:2/1 0/0 wait 90 busy 0 joules 0\n:" + total},
		"devices": {Query{AccountingQuery: by("device")},
			"GPU-A100-0:1/1 100/100 wait 60 busy 25 joules 500\nGPU-A100-1:1/1 100/100 wait 60 busy 25 joules 500\nGPU-s:1/0 25/0 " +
				"wait 60 busy 0 joules 0\n:2/1 0/0 wait 90 busy 0 joules 0\n:" +
				total},
		"users": {Query{AccountingQuery: by("user", "role")},
			"ada,research:3/2 200/200 wait 150 busy 50 joules 1000\nbob,prod:1/0 25/0 wait 60 busy 0 joules 0\n,:" + total},
		"days":  {Query{AccountingQuery: by("day")}, "2026-03-01:" + total + "\n:" + total},
		"own":   {Query{MayView: func(role string) bool { return role == "prod" }}, ":1/0 25/0 wait 60 busy 0 joules 0"},
		"job":   {Query{AccountingQuery: api.AccountingQuery{Job: "share@1"}}, ":1/0 25/0 wait 60 busy 0 joules 0"},
		"run":   {Query{AccountingQuery: api.AccountingQuery{Job: "share@2"}}, ":0/0 0/0 wait 0 busy 0 joules 0"},
		"state": {Query{AccountingQuery: api.AccountingQuery{State: job.Killed}}, ":1/1 0/0 wait 30 busy 0 joules 0"},
		"since": {Query{AccountingQuery: api.AccountingQuery{Since: testStart.Add(3 * time.Minute), Until: testStart.Add(4 * time.Minute)}},
			":2/1 25/0 wait 90 busy 0 joules 0"},
	} {
		if got := report(test.q); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, test.want)
		}
	}
	for _, key := range api.AccountingKeys() {
		r, err := f.sumRecords(&Query{AccountingQuery: by(key)})
		if err != nil {
			t.Fatal(err)
		}
		gpus, cpus := 0.0, 0.0
		for _, g := range r.Groups {
			gpus, cpus = gpus+g.GPUSeconds, cpus+g.CPUSeconds
		}
		if math.Abs(gpus-225) > 1e-9 || math.Abs(cpus-420) > 1e-9 {
			t.Errorf("by %s the groups have %g GPU seconds and %g CPU seconds, want 225 and 420", key, gpus, cpus)
		}
	}
	for role, want := range map[string]float64{"research": 220, "prod": 200} { // 2 CPUs for as long as they were held
		r, err := f.sumRecords(&Query{MayView: func(name string) bool { return name == role }})
		if err != nil || r.Total.CPUSeconds != want {
			t.Errorf("%s: %g CPU seconds, want %g (%v)", role, r.Total.CPUSeconds, want, err)
		}
	}
}

// TestAttemptsAreListedInPages: pages have all attempts once, in the order of their ends.
func TestAttemptsAreListedInPages(t *testing.T) {
	f := openTestFile(t)
	for n := range 10 {
		addAll(t, f, endOf("a", 9-n, job.Finished, "V100", 1, time.Minute))
	}
	var got []int
	var after []byte
	for {
		list, next, err := f.listRecords(&Query{}, 3, after)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list {
			got = append(got, one.Attempt)
		}
		if after = next; next == nil {
			break
		}
	}
	if want := []int{1, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestOldRecordsAreRemoved: records that are too old are removed, and the oldest ones of a file that is too large.
func TestOldRecordsAreRemoved(t *testing.T) {
	f := openTestFile(t)
	var ends []sched.AttemptEnd
	for n := range 3000 {
		ends = append(ends, endOf("a", n, job.Finished, "V100", 1, 0))
	}
	addAll(t, f, ends...)
	remove := func(before time.Time, maxBytes int64) (left int) {
		for more := true; more; {
			var err error
			if more, err = f.removeOldest(unixNano(before), maxBytes); err != nil {
				t.Fatal(err)
			}
		}
		list, _, err := f.listRecords(&Query{}, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) > 0 && list[len(list)-1].Attempt != 2999 {
			t.Error("the newest was removed")
		}
		return len(list)
	}
	if left := remove(testStart.Add(1500*time.Minute), 1<<40); left != 1500 {
		t.Errorf("%d are left, want 1500", left)
	}
	size := f.usedBytes()
	if left := remove(testStart, size-1); left >= 1500 || f.usedBytes() >= size {
		t.Errorf("%d are left, %d bytes of %d", left, f.usedBytes(), size)
	}
}

// endedModel returns a model with an ended job of one task.
func endedModel(name string) (*readmodel.Model, journal.Change) {
	m := readmodel.New(journal.JournalContents{})
	j := frameworktest.JobInStates(name, 1, job.Finished)
	j.Tasks[0].Launched, j.Tasks[0].Ended, j.Tasks[0].AgentURL, j.Tasks[0].GPUTypes = testStart, testStart.Add(time.Minute), "http://agent", map[string]int{
		"V100": 1,
	}
	c := frameworktest.ChangeOf(j)
	m.ApplyChange(c)
	return m, c
}

// TestUnwritableFileDelaysRecords: while the file cannot be written, the recorder says so and keeps what it observes; then it stores it.
func TestUnwritableFileDelaysRecords(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "accounting")
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // a file where the folder is to be
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		log, hook := logtest.NewNullLogger()
		r := New(RecorderConfig{Path: filepath.Join(folder, "a.db"), Clock: time.Now, Log: log})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		m, c := endedModel("a")
		r.ObserveAll(m)
		r.ObserveChange(m, c)
		synctest.Wait()
		if s := r.Figures(); !s.Failed || s.Stored != 0 {
			t.Errorf("got %+v", s)
		}
		var p *api.Problem
		if _, err := r.Report(ctx, &Query{}); !errors.As(err, &p) || p.Status != 503 ||
			!errors.Is(err, syscall.ENOTDIR) && !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("got %v", err)
		}
		time.Sleep(5 * retryInterval)
		if n := len(hook.AllEntries()); n != 1 || hook.LastEntry().Level != logrus.ErrorLevel {
			t.Errorf("%d lines are logged, want one error", n)
		}
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * retryInterval)
		synctest.Wait()
		report, err := r.Report(ctx, &Query{})
		if err != nil || report.Total.GPUSeconds != 60 || r.Figures().Failed {
			t.Errorf("got %+v, %v", report.Total, err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestUsageIsReadAfterTheEnd: the usage of an attempt is read after its end, again after an error, and by the next leader
// if the last one could not. Totals above what the attempt held are cut off.
func TestUsageIsReadAfterTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	synctest.Test(t, func(t *testing.T) {
		clock := func() time.Time { return testStart.Add(2 * time.Minute) }
		lead := func(read func(ctx context.Context, n int) (gpu.TaskUsage, error)) api.JobAccounting {
			r := New(RecorderConfig{Path: path, Clock: clock, Log: frameworktest.DiscardLog()})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 2)
			go func() { ended <- r.Run(ctx) }()
			m, _ := endedModel("a")
			defer r.Lead(func([]string) {})()
			r.ObserveAll(m)
			n := 0
			go func() {
				ended <- r.ReadUsage(ctx,
					func(ctx context.Context, _ *job.Task) (gpu.TaskUsage, error) { n++; return read(ctx, n) },
					func(err error) bool { return errors.Is(err, os.ErrNotExist) })
			}()
			one, err := r.AccountJob(ctx, job.RunID{Name: "a", Run: 1}, time.Time{}, 5*time.Minute)
			if err != nil {
				t.Error(err)
			}
			cancel()
			if err := errors.Join(<-ended, <-ended); err != nil {
				t.Error(err)
			}
			return one
		}
		if one := lead(func(ctx context.Context, _ int) (gpu.TaskUsage, error) {
			<-ctx.Done()
			return gpu.TaskUsage{}, context.Cause(ctx)
		}); one.Pending != 1 || one.GPUSeconds != 60 {
			t.Errorf("got %+v", one)
		}
		usage := gpu.TaskUsage{Simulated: true, Devices: []gpu.DeviceUsage{{UUID: "GPU-1", Totals: &gpu.UsageTotals{
			Seconds:           120,
			BusySeconds:       60,
			MemMiBSeconds:     1200,
			MemUsedMiBSeconds: 600,
			MaxMemMiB:         8,
			Joules:            1e12,
		}}}}
		one := lead(func(_ context.Context, n int) (gpu.TaskUsage, error) {
			if n == 1 {
				return gpu.TaskUsage{}, errors.New("no route to host")
			}
			return usage, nil
		})
		want := api.MeasuredUsage{GPUSeconds: 60, BusyGPUSeconds: 30, MemMiBSeconds: 600, MemUsedMiBSeconds: 300, MaxMemMiB: 8, Joules: 600_000, Simulated: true}
		if diff := cmp.Diff(want, one.Usage); diff != "" || one.Pending != 0 {
			t.Errorf("pending %d (-want +got):\n%s", one.Pending, diff)
		}
	})
}

// BenchmarkReport sums up a million ended attempts by each set of keys. One operation is one report.
func BenchmarkReport(b *testing.B) {
	f := openTestFile(b)
	const attempts = 1_000_000
	kinds := []string{"V100", "A100", "H100"}
	for from := 0; from < attempts; from += 20_000 {
		var ends []sched.AttemptEnd
		for n := from; n < from+20_000; n++ {
			e := endOf(fmt.Sprint("job-", n/10), n, job.Finished, kinds[n%3], 1+n%8, time.Hour)
			e.Owner, e.Role, e.Task.Hostname = fmt.Sprint("user-", n%500), fmt.Sprint("role-", n%20), fmt.Sprint("host-", n%1000)
			ends = append(ends, e)
		}
		addAll(b, f, ends...)
	}
	b.ReportMetric(float64(f.usedBytes())/attempts, "B/attempt")
	for name, by := range map[string][]string{
		"total":          nil,
		"user":           {"user"},
		"user-role-type": {"user", "role", "type"},
		"job":            {"job"},
		"device":         {"device"},
		"day":            {"day"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				report, err := f.sumRecords(&Query{AccountingQuery: api.AccountingQuery{By: by}})
				if err != nil || report.Total.Attempts != attempts {
					b.Fatal(report.Total.Attempts, err)
				}
			}
		})
	}
}

// TestGroupKeysAreComplete: each key that the API documents has a value.
func TestGroupKeysAreComplete(t *testing.T) {
	f := openTestFile(t)
	e := endOf("a", 1, job.Failed, "V100", 1, time.Hour)
	code := 3
	e.Task.ExitCode = &code
	addAll(t, f, e)
	report, err := f.sumRecords(&Query{AccountingQuery: api.AccountingQuery{By: api.AccountingKeys()}})
	if err != nil || len(report.Groups) != 1 {
		t.Fatal(report, err)
	}
	want := map[string]string{
		"user":   "ada",
		"role":   "research",
		"type":   "V100",
		"job":    "a",
		"state":  "FAILED",
		"reason": "exit",
		"host":   "h1",
		"device": "GPU-V100-0",
		"day":    "2026-03-01",
		"month":  "2026-03",
	}
	if got := report.Groups[0].Keys; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
