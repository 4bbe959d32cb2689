package sim

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const someTasks = `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time
b,12000,16384,1,460,,LS,3,7
a,4000,1024,8,1000,A10|T4,BE,0,
c,500,64,0,0,,BE,1,1
`

func TestReadTasks(t *testing.T) {
	want := []RecordedTask{
		{Name: "b", CPUMilli: 12000, MemMiB: 16384, GPUs: 1, GPUMilli: 460, Arrives: 3 * time.Second, Leaves: 7 * time.Second},
		{Name: "a", CPUMilli: 4000, MemMiB: 1024, GPUs: 8, GPUMilli: 1000, Models: []string{"A10", "T4"}},
		{Name: "c", CPUMilli: 500, MemMiB: 64, Arrives: time.Second, Leaves: time.Second},
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(someTasks))
	z.Close()
	for name, text := range map[string]string{"plain": someTasks, "gzip": packed.String()} {
		got, err := ReadTasks(strings.NewReader(text), "tasks.csv")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestReadAgents(t *testing.T) {
	one := RecordedAgent{Name: "n1", CPUMilli: 64000, MemMiB: 1000, GPUs: 2, Model: "T4", RDMA: 100}
	two := RecordedAgent{Name: "n2", CPUMilli: 1, MemMiB: 2, RDMA: 100}
	withCards := func(a RecordedAgent, rdma int64) RecordedAgent { a.RDMA = rdma; return a }
	for _, c := range []struct {
		text string
		want []RecordedAgent
	}{
		{"model,gpu,sn,cpu_milli,memory_mib\nT4,2,n1,64000,1000\n,0,n2,1,2\n", []RecordedAgent{one, two}},
		{"model,gpu,sn,cpu_milli,memory_mib,rdma\nT4,2,n1,64000,1000,0\n,0,n2,1,2,200\n", []RecordedAgent{withCards(one, 0), withCards(two, 200)}},
	} {
		got, err := ReadAgents(strings.NewReader(c.text), "agents.csv")
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// Errors name the file, the line, the column and the mistake.
func TestReadRejectsMalformedFiles(t *testing.T) {
	const agents, tasks = "sn,cpu_milli,memory_mib,gpu,model\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
	for _, c := range []struct{ text, want string }{
		{"", "f.csv is empty: its first line must name the columns"},
		{"sn,gpu\n", "f.csv:1: there is no column cpu_milli among sn, gpu"},
		{"name,cpu_milli\n", "f.csv:1: there is no column memory_mib among name, cpu_milli"},
		{agents + "n1,1,1,1,T4\nn2,1,1,x,T4\n", `f.csv:3:8: column gpu: "x" is not a whole number`},
		{agents + "n1,1,1,-1,T4\n", "f.csv:2:8: column gpu: -1 is not from 0 to 4096"},
		{agents + "n1,1,99999999999999999999,1,T4\n", "f.csv:2:6: column memory_mib: 99999999999999999999 is not from 0 to"},
		{agents + ",1,1,1,T4\n", "f.csv:2:1: column sn: an agent has no name"},
		{agents + "n1,1,1,1,\n", "f.csv:2:10: column model: GPUs of no model"},
		{agents + "n1,1,1,1\n", "record on line 2: wrong number of fields"},
		{agents + "n1,\"1,1,1,T4\n", "line 2"},
		{"sn,sn\n", "f.csv:1: column sn comes twice"},
		{tasks + "a,1,1,1,1001,,,\n", "f.csv:2:9: column gpu_milli: 1001 is not from 0 to 1000"},
		{tasks + "a,1,1,2,500,,,\n", "f.csv:2:9: column gpu_milli: a task shares one GPU, not parts of 2"},
		{tasks + "a,1,1,0,500,,,\n", "f.csv:2:9: column gpu_milli: 500 without a GPU"},
		{tasks + "a,1,1,1,0,,,\n", "f.csv:2:9: column gpu_milli: 0 of 1 GPUs"},
		{tasks + "a,1,1,1,1000,,9,8\n", "f.csv:2:17: column deletion_time: before creation_time"},
		{"\x1f\x8b broken", "read f.csv: unpack gzip: unexpected EOF"},
	} {
		_, err := ReadTasks(strings.NewReader(c.text), "f.csv")
		if strings.HasPrefix(c.text, "sn") {
			_, err = ReadAgents(strings.NewReader(c.text), "f.csv")
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.text, err, c.want)
		}
	}
}

func TestNewTraceRejects(t *testing.T) {
	agent, task := RecordedAgent{Name: "n", GPUs: 1, Model: "T4"}, RecordedTask{Name: "a", GPUs: 1, GPUMilli: 1000}
	for _, c := range []struct {
		agents []RecordedAgent
		tasks  []RecordedTask
		want   string
	}{
		{[]RecordedAgent{agent, agent}, []RecordedTask{task}, `two agents are named "n"`},
		{[]RecordedAgent{agent}, []RecordedTask{task, task}, `two tasks are named "a"`},
		{[]RecordedAgent{{Name: "n"}}, []RecordedTask{task}, "the 1 agents have no GPUs"},
		{[]RecordedAgent{agent}, []RecordedTask{{Name: "a"}}, "none of the 1 tasks requests a GPU"},
	} {
		if _, err := NewTrace(c.agents, c.tasks); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// A model of a trace may be precise: it is then that product, memory size or MIG profile only.
func TestPreciseModelsOfTraces(t *testing.T) {
	const small, large, slice = "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"
	for _, c := range []struct {
		models string
		want   []string
	}{
		{"A100", []string{small, large}}, {"A100-80GB", []string{large}}, {"NVIDIA A100-SXM4-40GB", []string{small}},
		{"1g.10gb", []string{slice}}, {"A100-40GB|1g.10gb", []string{small, slice}}, {"", []string{small, large}},
	} {
		tasks, err := ReadTasks(strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\na,1,1,1,1000,"+c.models+",0,1\n"), "tasks.csv")
		if err != nil {
			t.Fatal(err)
		}
		demand := tasks[0].fitDemand()
		var got []string
		for _, model := range []string{small, large, slice} {
			agent := (&RecordedAgent{Name: "n", GPUs: 1, Model: model}).fitAgent()
			if demand.Request.AcceptsProduct(agent.Inventory[0].Product()) {
				got = append(got, model)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.models, diff)
		}
	}
}
