package sim

import (
	"io"
	"strings"
	"time"
)

// Limits of single values. A larger one is an error in the file.
const (
	maxMilli   = 1 << 40
	maxMemMiB  = 1 << 40
	maxGPUs    = 1 << 12
	maxRDMA    = 1 << 12
	maxSeconds = 1 << 32
)

// ReadAgents reads agents in the format of Alibaba's openb traces: CSV, plain or gzip, with the columns sn, cpu_milli,
// memory_mib, gpu (the number) and model, and the optional column rdma: 100 for each network card, one card if the file does
// not have the column. name is the file's name for errors, which contain line and column.
func ReadAgents(r io.Reader, name string) ([]RecordedAgent, error) {
	t, err := newCSVTable(r, name, "sn", "cpu_milli", "memory_mib", "gpu", "model")
	if err != nil {
		return nil, err
	}
	var list []RecordedAgent
	for t.nextRow() {
		a := RecordedAgent{
			Name: t.cellText("sn"), CPUMilli: t.cellNumber("cpu_milli", maxMilli), MemMiB: t.cellNumber("memory_mib", maxMemMiB),
			GPUs: int(t.cellNumber("gpu", maxGPUs)), Model: t.cellText("model"), RDMA: 100,
		}
		if t.cellText("rdma") != "" {
			a.RDMA = t.cellNumber("rdma", maxRDMA)
		}
		switch {
		case a.Name == "":
			t.rejectCell("sn", "an agent has no name")
		case a.GPUs > 0 && a.Model == "":
			t.rejectCell("model", "GPUs of no model")
		}
		list = append(list, a)
	}
	return list, t.err
}

// ReadTasks reads tasks in the format of Alibaba's openb traces: CSV, plain or gzip, with the columns name, cpu_milli,
// memory_mib, num_gpu and gpu_milli (of each GPU), and the optional columns gpu_spec ("A10|T4"), creation_time and
// deletion_time in seconds.
func ReadTasks(r io.Reader, name string) ([]RecordedTask, error) {
	t, err := newCSVTable(r, name, "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return nil, err
	}
	specs := map[string][]string{} // tasks have few
	var list []RecordedTask
	for t.nextRow() {
		task := RecordedTask{
			Name: t.cellText("name"), CPUMilli: t.cellNumber("cpu_milli", maxMilli), MemMiB: t.cellNumber("memory_mib", maxMemMiB),
			GPUs: int(t.cellNumber("num_gpu", maxGPUs)), GPUMilli: int(t.cellNumber("gpu_milli", milliPerGPU)),
			Arrives: t.cellSeconds("creation_time"), Leaves: t.cellSeconds("deletion_time"),
		}
		spec := t.cellText("gpu_spec")
		if _, seen := specs[spec]; spec != "" && !seen {
			specs[spec] = strings.Split(spec, "|")
		}
		task.Models = specs[spec]
		t.checkTask(&task)
		list = append(list, task)
	}
	return list, t.err
}

// cellSeconds returns a time, 0 if the column is missing or the cell empty.
func (t *csvTable) cellSeconds(column string) time.Duration {
	if t.cellText(column) == "" {
		return 0
	}
	return time.Duration(t.cellNumber(column, maxSeconds)) * time.Second
}

// checkTask rejects the row if its cells contradict each other. Each error names one of the cells.
func (t *csvTable) checkTask(task *RecordedTask) {
	switch {
	case task.Name == "":
		t.rejectCell("name", "a task has no name")
	case task.GPUs == 0 && task.GPUMilli > 0:
		t.rejectCell("gpu_milli", "%d without a GPU", task.GPUMilli)
	case task.GPUs > 0 && task.GPUMilli == 0:
		t.rejectCell("gpu_milli", "0 of %d GPUs", task.GPUs)
	case task.GPUs > 1 && task.GPUMilli < milliPerGPU:
		t.rejectCell("gpu_milli", "a task shares one GPU, not parts of %d", task.GPUs)
	case task.Leaves > 0 && task.Leaves < task.Arrives:
		t.rejectCell("deletion_time", "before creation_time")
	}
}
