package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// paiColumns are the columns of pai_task_table.csv, which has no header.
var paiColumns = []string{"job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu", "gpu_type"}

// PAIJob is a row of pai_job_table.csv.
type PAIJob struct {
	SubmittedAt time.Duration
	User        string
}

// ReadPAIJobs reads the jobs of Alibaba's PAI clusters by name, a pai_job_table.csv without a header: job_name, inst_id,
// user, status, start_time, end_time. start_time is the time of submission.
func ReadPAIJobs(r io.Reader, name string) (map[string]PAIJob, error) {
	jobs := map[string]PAIJob{}
	err := openRows(r, name, 6).eachRow(func(row []string, line int) error {
		at, err := parseSeconds("start_time", row[4])
		switch {
		case err != nil:
			return fmt.Errorf("%s:%d: %w", name, line, err)
		case len(jobs) == maxRows:
			return fmt.Errorf("%s has more than %d rows", name, maxRows)
		case at >= 0:
			jobs[strings.Clone(row[0])] = PAIJob{SubmittedAt: at, User: strings.Clone(row[2])}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}

// ReadPAITasks reads tasks of Alibaba's PAI clusters, a pai_task_table.csv without a header, as one record each, sorted by
// arrival. The instances of a task are a gang. They arrive when their job was submitted, or without an entry in jobs when
// the task started. left counts the tasks that have not started or ended. It calls bad with the error of each unreadable row
// and skips the row; with a nil bad such a row is an error. The type of the GPUs is the assigned one and not replayed. A
// part of a GPU is a whole one.
func ReadPAITasks(r io.Reader, name string, jobs map[string]PAIJob, bad func(error)) (list []JobRecord, left int, err error) {
	list, left, err = openRows(r, name, len(paiColumns)).readRecords(bad, func(row []string, line int) (JobRecord, bool, error) {
		return parsePAIRow(row, line, jobs)
	})
	sortByArrival(list)
	return list, left, err
}

func parsePAIRow(row []string, line int, jobs map[string]PAIJob) (w JobRecord, ok bool, err error) {
	started, errStarted := parseSeconds("start_time", row[4])
	ended, errEnded := parseSeconds("end_time", row[5])
	instances, errInstances := parseAmount("inst_num", row[2], job.MaxTasks)
	cpus, errCPUs := parseAmount("plan_cpu", row[6], 1e6)
	mem, errMem := parseAmount("plan_mem", row[7], 1e6)
	gpus, errGPUs := parseAmount("plan_gpu", row[8], 100*maxGPUs)
	if err := cmp.Or(errStarted, errEnded, errInstances, errCPUs, errMem, errGPUs); err != nil {
		return w, false, err
	}
	if row[0] == "" {
		return w, false, errors.New("job_name is empty")
	}
	if started < 0 || ended < started || row[3] != "Terminated" && row[3] != "Failed" {
		return w, false, nil
	}
	submitted, known := jobs[row[0]]
	if !known {
		submitted.SubmittedAt = started
	}
	spec := newRecordSpec(line)
	spec.Tasks, spec.Owner = max(int(instances), 1), submitted.User
	spec.Gang = spec.Tasks > 1
	spec.CPUs, spec.MemMiB = cpus/100, mem*1024
	spec.Request = gpu.Request{GPUs: int(math.Ceil(gpus / 100))}
	spec.SetDefaults()
	return JobRecord{Spec: spec, ArrivesAt: submitted.SubmittedAt, RunTimes: []time.Duration{max(ended-started, time.Second)}}, true, nil
}

// IsPAITask reports whether a row is one of pai_task_table.csv: it has the columns, and an amount or nothing where they do.
func IsPAITask(row string) bool {
	cells := strings.Split(strings.TrimSpace(row), ",")
	if len(cells) != len(paiColumns) || !slices.Contains([]string{"Terminated", "Failed", "Running", "Waiting"}, cells[3]) {
		return false
	}
	_, err := parseAmount("plan_gpu", cells[8], math.MaxFloat64)
	return err == nil
}

// newRecordSpec returns the specification that jobs of a trace begin with, named after their line.
func newRecordSpec(line int) job.Spec {
	return job.Spec{Name: "line-" + strconv.Itoa(line), Command: []string{"true"}}
}
