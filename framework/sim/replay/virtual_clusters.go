package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/sched"
)

// Limits and format of traces of virtual clusters.
const (
	maxRows         = 10_000_000
	maxGPUsPerJob   = 2048
	traceTimeLayout = "2006-01-02 15:04:05"
	// gpusPerAgent and cpusPerAgent describe each agent: the lists of virtual clusters count agents with eight GPUs.
	gpusPerAgent = 8
	cpusPerAgent = 64
)

// VirtualClusterJob is a row of a trace of virtual clusters.
type VirtualClusterJob struct {
	Line      int           // in the file, which names the job
	ArrivesAt time.Duration // from the first
	RunTime   time.Duration
	GPUs      int
	// CPUs of the job; 0 if the trace has none.
	CPUs int
	// Cluster is the virtual cluster to which it was submitted, User the user who did, "" if the trace has none.
	Cluster, User string
}

// ReadPhillyJobs reads jobs of Microsoft's Philly clusters in the format that Sia (SOSP 2023) published: timestamp,
// duration in seconds, num_gpus, gpu_time, cluster. It returns them sorted by arrival. It calls bad with the error of each
// unreadable row and skips the row; with a nil bad such a row is an error.
func ReadPhillyJobs(r io.Reader, name string, bad func(error)) ([]VirtualClusterJob, error) {
	return readVirtualClusterJobs(r, name, bad, parsePhillyRow, "timestamp", "duration", "num_gpus", "cluster")
}

// ReadHeliosJobs reads jobs of SenseTime's Helios clusters, a cluster_log.csv, as ReadPhillyJobs does: submit_time, duration
// in seconds, gpu_num, cpu_num, vc, user. Jobs may have no GPUs.
func ReadHeliosJobs(r io.Reader, name string, bad func(error)) ([]VirtualClusterJob, error) {
	return readVirtualClusterJobs(r, name, bad, parseHeliosRow, "submit_time", "duration", "gpu_num", "cpu_num", "vc", "user")
}

func readVirtualClusterJobs(
	r io.Reader, name string, bad func(error), parse func([]string) (VirtualClusterJob, time.Time, error),
	columns ...string,
) ([]VirtualClusterJob, error) {
	t, err := openColumns(r, name, columns...)
	if err != nil {
		return nil, err
	}
	var list []VirtualClusterJob
	var at []time.Time
	for {
		row, line, err := t.nextRow()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		j, arrives, err := parse(row)
		if err != nil {
			err = fmt.Errorf("%s:%d: %w", name, line, err)
			if bad == nil {
				return nil, err
			}
			bad(err)
			continue
		}
		j.Line = line
		if len(list) == maxRows {
			return nil, fmt.Errorf("%s has more than %d rows", name, maxRows)
		}
		list, at = append(list, j), append(at, arrives)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no job", name)
	}
	first := slices.MinFunc(at, time.Time.Compare)
	for i := range list {
		list[i].ArrivesAt = at[i].Sub(first)
	}
	slices.SortStableFunc(list, func(a, b VirtualClusterJob) int { return cmp.Compare(a.ArrivesAt, b.ArrivesAt) })
	return list, nil
}

// parsePhillyRow parses the columns that ReadPhillyJobs opens. A job of less than a second gets one second.
func parsePhillyRow(row []string) (j VirtualClusterJob, at time.Time, err error) {
	if at, j.RunTime, err = parseTimes("timestamp", row[0], row[1]); err != nil {
		return j, at, err
	}
	if j.GPUs, err = strconv.Atoi(row[2]); err != nil || j.GPUs < 1 || j.GPUs > maxGPUsPerJob {
		return j, at, fmt.Errorf("num_gpus %q: want 1 to %d", row[2], maxGPUsPerJob)
	}
	if j.Cluster = strings.Clone(row[3]); j.Cluster == "" {
		return j, at, errors.New("cluster is empty")
	}
	return j, at, nil
}

// parseHeliosRow parses the columns that ReadHeliosJobs opens.
func parseHeliosRow(row []string) (j VirtualClusterJob, at time.Time, err error) {
	if at, j.RunTime, err = parseTimes("submit_time", row[0], row[1]); err != nil {
		return j, at, err
	}
	if j.GPUs, err = strconv.Atoi(row[2]); err != nil || j.GPUs < 0 || j.GPUs > maxGPUsPerJob {
		return j, at, fmt.Errorf("gpu_num %q: want 0 to %d", row[2], maxGPUsPerJob)
	}
	if j.CPUs, err = strconv.Atoi(row[3]); err != nil || j.CPUs < 0 {
		return j, at, fmt.Errorf("cpu_num %q: want a number", row[3])
	}
	if j.Cluster, j.User = strings.Clone(row[4]), strings.Clone(row[5]); j.Cluster == "" {
		return j, at, errors.New("vc is empty")
	}
	return j, at, nil
}

// parseTimes parses the time of submission and the duration, at least a second. column is the name of the first.
func parseTimes(column, submitted, duration string) (at time.Time, runTime time.Duration, err error) {
	if at, err = time.Parse(traceTimeLayout, submitted); err != nil {
		return at, 0, fmt.Errorf("%s %q: want %s", column, submitted, traceTimeLayout)
	}
	seconds, err := strconv.ParseFloat(duration, 64)
	if err != nil || !(seconds >= 0 && seconds < 1e9) {
		return at, 0, fmt.Errorf("duration %q: want seconds", duration)
	}
	return at, max(time.Duration(seconds*float64(time.Second)), time.Second), nil
}

// VirtualCluster is a virtual cluster and the number of its agents.
type VirtualCluster struct {
	Name   string
	Agents int
}

// ReadVirtualClusters reads virtual clusters and their numbers of agents: vc, node num.
func ReadVirtualClusters(r io.Reader, name string) ([]VirtualCluster, error) {
	t, err := openColumns(r, name, "vc", "node num")
	if err != nil {
		return nil, err
	}
	var list []VirtualCluster
	err = t.eachRow(func(row []string, line int) error {
		n, err := strconv.Atoi(row[1])
		if err != nil || n < 1 || n > maxRows || row[0] == "" {
			return fmt.Errorf("%s:%d: virtual cluster %q has %q agents, want 1 to %d", name, line, row[0], row[1], maxRows)
		}
		list = append(list, VirtualCluster{strings.Clone(row[0]), n})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// ReplayAgents returns the agents of a virtual cluster.
func (v VirtualCluster) ReplayAgents() []ReplayAgent {
	list := make([]ReplayAgent, v.Agents)
	for i := range list {
		list[i] = ReplayAgent{ID: fmt.Sprintf("%s-%03d", v.Name, i), GPUs: gpusPerAgent, Model: "P100", Has: sched.Amount{CPUs: cpusPerAgent, MemMiB: 512 << 10}}
	}
	return list
}

// VirtualClusterRecords converts jobs to records. role returns the role of a job, and false to skip it.
func VirtualClusterRecords(list []VirtualClusterJob, role func(j *VirtualClusterJob) (name string, ok bool)) iter.Seq[JobRecord] {
	return func(yield func(JobRecord) bool) {
		for i := range list {
			j := &list[i]
			name, ok := role(j)
			if !ok {
				continue
			}
			// The parsers reject jobs that NewGangSpec refuses.
			spec, _ := NewGangSpec("line-"+strconv.Itoa(j.Line), j.GPUs, gpusPerAgent, sched.Amount{CPUs: 4, MemMiB: 32 << 10})
			if j.CPUs > 0 {
				spec.CPUs = min(float64(j.CPUs)/float64(spec.Tasks), cpusPerAgent)
			}
			spec.Role, spec.Owner = name, cmp.Or(j.User, j.Cluster)
			if !yield(JobRecord{Spec: spec, ArrivesAt: j.ArrivesAt, RunTimes: []time.Duration{j.RunTime}}) {
				return
			}
		}
	}
}
