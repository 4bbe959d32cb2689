package sim

import (
	"io"
	"strings"
	"time"
)

// Bounds of single values: a larger one is a mistake in the file.
const (
	maxMilli   = 1 << 40
	maxMemMiB  = 1 << 40
	maxGPUs    = 1 << 12
	maxSeconds = 1 << 32
)

// ReadAgents reads agents in the form of Alibaba's openb traces: CSV, plain
// or gzip, with the columns sn, cpu_milli, memory_mib, gpu (how many) and
// model. name is the file's, for errors, which tell line and column.
func ReadAgents(r io.Reader, name string) ([]Agent, error) {
	t, err := newTable(r, name, "sn", "cpu_milli", "memory_mib", "gpu", "model")
	if err != nil {
		return nil, err
	}
	var list []Agent
	for t.next() {
		a := Agent{
			Name: t.text("sn"), CPUMilli: t.number("cpu_milli", maxMilli), MemMiB: t.number("memory_mib", maxMemMiB),
			GPUs: int(t.number("gpu", maxGPUs)), Model: t.text("model"),
		}
		switch {
		case a.Name == "":
			t.refuse("sn", "an agent has no name")
		case a.GPUs > 0 && a.Model == "":
			t.refuse("model", "GPUs of no model")
		}
		list = append(list, a)
	}
	return list, t.err
}

// ReadTasks reads tasks in the form of Alibaba's openb traces: CSV, plain or
// gzip, with the columns name, cpu_milli, memory_mib, num_gpu and gpu_milli
// (of each GPU), and, where they are there, gpu_spec ("A10|T4"),
// creation_time and deletion_time in seconds.
func ReadTasks(r io.Reader, name string) ([]Task, error) {
	t, err := newTable(r, name, "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return nil, err
	}
	specs := map[string][]string{} // tasks have few
	var list []Task
	for t.next() {
		task := Task{
			Name: t.text("name"), CPUMilli: t.number("cpu_milli", maxMilli), MemMiB: t.number("memory_mib", maxMemMiB),
			GPUs: int(t.number("num_gpu", maxGPUs)), GPUMilli: int(t.number("gpu_milli", whole)),
			Arrives: t.seconds("creation_time"), Leaves: t.seconds("deletion_time"),
		}
		spec := t.text("gpu_spec")
		if _, seen := specs[spec]; spec != "" && !seen {
			specs[spec] = strings.Split(spec, "|")
		}
		task.Models = specs[spec]
		t.check(&task)
		list = append(list, task)
	}
	return list, t.err
}

// seconds is a time; 0 where the column or the cell is empty.
func (t *table) seconds(column string) time.Duration {
	if t.text(column) == "" {
		return 0
	}
	return time.Duration(t.number(column, maxSeconds)) * time.Second
}

func (t *table) check(task *Task) {
	switch {
	case task.Name == "":
		t.refuse("name", "a task has no name")
	case task.GPUs == 0 && task.GPUMilli > 0:
		t.refuse("gpu_milli", "%d without a GPU", task.GPUMilli)
	case task.GPUs > 0 && task.GPUMilli == 0:
		t.refuse("gpu_milli", "0 of %d GPUs", task.GPUs)
	case task.GPUs > 1 && task.GPUMilli < whole:
		t.refuse("gpu_milli", "a task shares one GPU, not parts of %d", task.GPUs)
	case task.Leaves > 0 && task.Leaves < task.Arrives:
		t.refuse("deletion_time", "before creation_time")
	}
}
