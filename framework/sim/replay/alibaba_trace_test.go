package replay

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched"
)

// readExample reads a file in testdata.
func readExample[T any](t *testing.T, name string, read func(r io.Reader, name string) (T, error)) T {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := read(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestPAITasks compares the example with manual conversions.
func TestPAITasks(t *testing.T) {
	jobs := readExample(t, "pai_job_table.csv", ReadPAIJobs)
	if len(jobs) != 5 || jobs["job-b"] != (PAIJob{150 * time.Second, "ben"}) {
		t.Errorf("jobs %+v", jobs)
	}
	left := 0
	list := readExample(t, "pai_task_table.csv", func(r io.Reader, name string) (list []JobRecord, err error) {
		list, left, err = ReadPAITasks(r, name, jobs, nil)
		return list, err
	})
	if len(list) != 4 || left != 2 {
		t.Fatalf("%d records, %d left out", len(list), left)
	}
	for i, want := range []struct {
		name, owner   string
		tasks, gpus   int
		cpus, mem     float64
		arrives, runs time.Duration
	}{
		{"line-1", "ada", 1, 1, 6, 30000, 0, 1000 * time.Second},
		{"line-2", "ben", 1, 0, 4, 16384, 110 * time.Second, 600 * time.Second},
		{"line-3", "ben", 4, 4, 8, 32768, 110 * time.Second, 600 * time.Second},
		{"line-4", "ada", 1, 2, 1, 256, 1150 * time.Second, time.Minute},
	} {
		w := &list[i]
		s := &w.Spec
		if s.Name != want.name || s.Owner != want.owner || s.Tasks != want.tasks || s.Gang != (want.tasks > 1) || s.Request.GPUs != want.gpus ||
			s.CPUs != want.cpus || s.MemMiB != want.mem || w.ArrivesAt != want.arrives || w.RunTimes.forTask(0) != want.runs {
			t.Errorf("record %d: %s of %q: %d × %d GPUs, %g CPUs, %g MiB at %s for %s, gang %t; want %+v", i, s.Name, s.Owner,
				s.Tasks, s.Request.GPUs, s.CPUs, s.MemMiB, w.ArrivesAt, w.RunTimes, s.Gang, want)
		}
	}
	alone := readExample(t, "pai_task_table.csv", func(r io.Reader, name string) ([]JobRecord, error) {
		list, _, err := ReadPAITasks(r, name, nil, nil)
		return list, err
	})
	if len(alone) != 4 || alone[3].ArrivesAt != 1100*time.Second || alone[3].Spec.Owner != "" {
		t.Errorf("without jobs the last task arrives at %s, of %q", alone[3].ArrivesAt, alone[3].Spec.Owner)
	}
	if r, err := RunReplay(ReplaySettings{Agents: agents(2)}, slices.Values(list)); err != nil || r.Jobs != 4 || r.Never != 0 {
		t.Errorf("replayed %+v, %v", r, err)
	}
}

// TestDLRMInstances compares the example with manual conversions.
func TestDLRMInstances(t *testing.T) {
	list := readDLRMExample(t)
	if len(list) != 6 {
		t.Fatalf("%d records", len(list))
	}
	for i, want := range []struct {
		arrives, runs time.Duration
		gpus          int
		rdma          float64
		group, most   string
	}{
		{0, 3000 * time.Second, 1, 25, "app_0-HN", "@hostname MAX_PER 2"},
		{0, 2000 * time.Second, 1, 25, "app_0-HN", "@hostname MAX_PER 2"},
		{0, 3000 * time.Second, 1, 25, "app_0-HN", "@hostname MAX_PER 2"},
		{100 * time.Second, 770 * time.Second, 1, 75, "app_1-HN", ""},
		{200 * time.Second, 1000 * time.Second, 1, 75, "app_1-HN", ""},
		{300 * time.Second, 1000 * time.Second, 0, 1, "app_1-CN", ""},
	} {
		w := &list[i]
		s := &w.Spec
		most := ""
		for _, c := range s.Constraints {
			most += c.String()
		}
		if w.ArrivesAt != want.arrives || w.RunTimes.forTask(0) != want.runs || s.Request.GPUs != want.gpus ||
			rdmaOf(s) != want.rdma || s.Group != want.group || most != want.most {
			t.Errorf("record %d: at %s for %s, %d GPUs, RDMA %g, group %s, %q; want %+v", i, w.ArrivesAt, w.RunTimes, s.Request.GPUs, rdmaOf(s), s.Group, most, want)
		}
	}
}

func readDLRMExample(t *testing.T) []JobRecord {
	t.Helper()
	return readExample(t, "dlrm.csv", func(r io.Reader, name string) ([]JobRecord, error) { return ReadDLRMInstances(r, name, nil) })
}

// TestDLRMLimits checks on how many agents the instances of the example run at the same time: they have enough GPUs, so
// that only network cards and the number of instances of an app limit them.
func TestDLRMLimits(t *testing.T) {
	for _, c := range []struct {
		name        string
		rdma        []float64 // of each agent
		records     []int     // of the example
		wantWaiting int
	}{
		{"two of app_0 on an agent, the third waits for an end", []float64{400}, []int{0, 1, 2}, 1},
		{"the third is on another agent", []float64{400, 400}, []int{0, 1, 2}, 0},
		{"one card is enough for one of app_1", []float64{100}, []int{3, 4}, 1},
		{"two cards are enough for two", []float64{200}, []int{3, 4}, 0},
		{"each agent has one card", []float64{100, 100}, []int{3, 4}, 0},
		{"apps share a card", []float64{100}, []int{1, 3}, 0},
		{"apps are more than a card", []float64{100}, []int{1, 2, 3}, 1},
	} {
		var cluster []ReplayAgent
		for i, rdma := range c.rdma {
			cluster = append(cluster, ReplayAgent{ID: string(rune('a' + i)), Has: sched.Amount{CPUs: 96, MemMiB: 1 << 20}, GPUs: 8, Model: "A10", RDMA: rdma})
		}
		waited := 0
		cfg := ReplaySettings{Agents: cluster, JobEnded: func(w *JobRecord, started, _ time.Duration) {
			if started > w.ArrivesAt+time.Minute {
				waited++
			}
		}}
		example := readDLRMExample(t)
		var list []JobRecord
		for _, i := range c.records {
			list = append(list, example[i])
		}
		r, err := RunReplay(cfg, slices.Values(list))
		if err != nil || r.Jobs != len(list) || waited != c.wantWaiting {
			t.Errorf("%s: %d of %d instances ended, %d waited, want %d, %v", c.name, r.Jobs, len(list), waited, c.wantWaiting, err)
		}
	}
}

// TestAlibabaTracesReportBadRows checks that errors have the line and the column.
func TestAlibabaTracesReportBadRows(t *testing.T) {
	readPAI := func(r io.Reader, bad func(error)) ([]JobRecord, error) {
		list, _, err := ReadPAITasks(r, "f", nil, bad)
		return list, err
	}
	readDLRM := func(r io.Reader, bad func(error)) ([]JobRecord, error) { return ReadDLRMInstances(r, "f", bad) }
	const head = "instance_sn,role,app_name,cpu_request,gpu_request,rdma_request,memory_request,max_instance_per_node,creation_time,scheduled_time,deletion_time\n"
	for _, c := range []struct {
		read       func(io.Reader, func(error)) ([]JobRecord, error)
		text, want string
	}{
		{readPAI, "a,t,1,Terminated,soon,2,600,1,50,T4", `f:1: start_time "soon": want seconds`},
		{readPAI, "a,t,1,Terminated,1,2,600,1,-50,T4", `f:1: plan_gpu "-50": want a number from 0 to 6400`},
		{readPAI, "a,t,1e9,Terminated,1,2,600,1,50,T4", `f:1: inst_num "1e9": want a number from 0 to 10000`},
		{readPAI, ",t,1,Terminated,1,2,600,1,50,T4", "f:1: job_name is empty"},
		{readDLRM, head + "i,HN,app,8,1,25,40,0,,,", `f:2: max_instance_per_node "0": want -1 or 1 to 10000`},
		{readDLRM, head + "i,HN,app,8,0.5,25,40,1,,,", `f:2: gpu_request "0.5": want a whole number`},
		{readDLRM, head + "i,HN,app,8,1,25,40,1,5,6,4", `f:2: deletion_time "4" is before the start`},
		{readDLRM, head + "i,HN,,8,1,25,40,1,,,", "f:2: app_name is empty"},
		{readDLRM, "instance_sn,role\n", `f:1: there is no column "app_name"`},
	} {
		if _, err := c.read(strings.NewReader(c.text), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	var bad error
	list, err := readDLRM(strings.NewReader(head+"i,HN,app,8,1,25,40,1,,,9\ni,HN,app,many,1,25,40,1,,,9\n"), func(err error) { bad = errors.Join(bad, err) })
	if err != nil || len(list) != 1 || bad == nil || !strings.Contains(bad.Error(), `f:3: cpu_request "many"`) {
		t.Errorf("%d records, %v, bad rows: %v", len(list), err, bad)
	}
}
