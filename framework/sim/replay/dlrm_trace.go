package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// ReadDLRMInstances reads instances of inference services, the disaggregated_DLRM_trace.csv of Alibaba's
// cluster-trace-gpu-v2025, as one record each, sorted by arrival. It calls bad with the error of each unreadable row and
// skips the row; with a nil bad such a row is an error.
//
// An instance that was there before the trace arrives at its start, and one without an end runs to the end of the trace.
// At most max_instance_per_node instances of an app and a role are on one agent. rdma_request is a percentage of a network
// card, of which ReplayAgent.RDMA counts those of an agent. The disk of agents is not recorded, and that of instances is not
// replayed.
func ReadDLRMInstances(r io.Reader, name string, bad func(error)) ([]JobRecord, error) {
	t, err := openColumns(r, name, "instance_sn", "role", "app_name", "cpu_request", "gpu_request", "rdma_request",
		"memory_request", "max_instance_per_node", "creation_time", "scheduled_time", "deletion_time")
	if err != nil {
		return nil, err
	}
	var end time.Duration
	list, _, err := t.readRecords(bad, func(row []string, line int) (JobRecord, bool, error) {
		w, last, err := parseDLRMRow(row, line)
		end = max(end, last)
		return w, true, err
	})
	for i := range list {
		w := &list[i]
		if w.RunTimes == nil {
			w.RunTimes = []time.Duration{max(end-w.ArrivesAt, time.Second)}
		}
	}
	sortByArrival(list)
	return list, err
}

// parseDLRMRow parses the columns that ReadDLRMInstances opens. The record has no run times if the row has no end. last is the
// latest time in the row.
func parseDLRMRow(row []string, line int) (w JobRecord, last time.Duration, err error) {
	cpus, errCPUs := parseAmount("cpu_request", row[3], 1e4)
	gpus, errGPUs := parseAmount("gpu_request", row[4], maxGPUs)
	rdma, errRDMA := parseAmount("rdma_request", row[5], 1e4)
	mem, errMem := parseAmount("memory_request", row[6], 1e6)
	most, errMost := strconv.Atoi(row[7])
	created, errCreated := parseSeconds("creation_time", row[8])
	scheduled, errScheduled := parseSeconds("scheduled_time", row[9])
	deleted, errDeleted := parseSeconds("deletion_time", row[10])
	if err := cmp.Or(errCPUs, errGPUs, errRDMA, errMem, errCreated, errScheduled, errDeleted); err != nil {
		return w, 0, err
	}
	started := max(created, scheduled, 0)
	switch {
	case errMost != nil || most < -1 || most == 0 || most > job.MaxTasks:
		return w, 0, fmt.Errorf("max_instance_per_node %q: want -1 or 1 to %d", row[7], job.MaxTasks)
	case row[2] == "":
		return w, 0, errors.New("app_name is empty")
	case gpus != float64(int(gpus)):
		return w, 0, fmt.Errorf("gpu_request %q: want a whole number", row[4])
	case deleted >= 0 && deleted < started:
		return w, 0, fmt.Errorf("deletion_time %q is before the start", row[10])
	}
	spec := newRecordSpec(line)
	spec.Owner, spec.Group = strings.Clone(row[2]), row[2]+"-"+row[1]
	spec.CPUs, spec.MemMiB, spec.Request = cpus, mem*1024, gpu.Request{GPUs: int(gpus)}
	spec.SetDefaults()
	setRDMA(&spec, rdma)
	if most > 0 {
		spec.Constraints = []job.Constraint{{Field: "@hostname", Operator: job.MaxPer, Value: strconv.Itoa(most)}}
	}
	w = JobRecord{Spec: spec, ArrivesAt: max(created, 0)}
	if deleted >= 0 {
		w.RunTimes = []time.Duration{max(deleted-started, time.Second)}
	}
	return w, max(started, deleted), nil
}

// setRDMA sets what a job takes of a network card, in percent. The scheduler has no such resource. A replay gives it the
// percentages as disk, which agents and records do not have otherwise: scalars differ only by name.
func setRDMA(s *job.Spec, percent float64) { s.DiskMiB = percent }

// rdmaOf returns what a job takes of a network card, in percent.
func rdmaOf(s *job.Spec) float64 { return s.DiskMiB }
