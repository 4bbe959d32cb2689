package replay

import (
	"bufio"
	"cmp"
	"encoding/csv"
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

// Bounds of what a record of Philly may hold.
const (
	maxRows    = 10_000_000
	maxPerJob  = 1024
	phillyForm = "2006-01-02 15:04:05"
	// phillyGPUs is how many GPUs each agent of Philly has here: the published
	// record of its virtual clusters counts agents of eight.
	phillyGPUs = 8
)

// PhillyJob is a row of the record.
type PhillyJob struct {
	Line    int
	Arrives time.Duration // from the first
	Runs    time.Duration
	GPUs    int
	// Cluster is the virtual cluster it was submitted to.
	Cluster string
}

// ReadPhilly reads jobs of Microsoft's Philly clusters in the form that Sia
// (SOSP 2023) published them in: timestamp, duration in seconds, num_gpus,
// gpu_time, cluster. They come sorted by arrival. bad is called with each row
// that cannot be read, and the row left out; a nil bad makes it an error.
func ReadPhilly(r io.Reader, name string, bad func(error)) ([]PhillyJob, error) {
	t, err := openTable(r, name, "timestamp", "duration", "num_gpus", "cluster")
	if err != nil {
		return nil, err
	}
	var list []PhillyJob
	var at []time.Time
	for {
		row, line, err := t.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		j, arrives, err := parsePhilly(row)
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
		list[i].Arrives = at[i].Sub(first)
	}
	slices.SortStableFunc(list, func(a, b PhillyJob) int { return cmp.Compare(a.Arrives, b.Arrives) })
	return list, nil
}

func parsePhilly(row []string) (j PhillyJob, at time.Time, err error) {
	if at, err = time.Parse(phillyForm, row[0]); err != nil {
		return j, at, fmt.Errorf("timestamp %q: want %s", row[0], phillyForm)
	}
	seconds, err := strconv.ParseFloat(row[1], 64)
	if err != nil || !(seconds >= 0 && seconds < 1e9) {
		return j, at, fmt.Errorf("duration %q: want seconds", row[1])
	}
	if j.GPUs, err = strconv.Atoi(row[2]); err != nil || j.GPUs < 1 || j.GPUs > maxPerJob {
		return j, at, fmt.Errorf("num_gpus %q: want 1 to %d", row[2], maxPerJob)
	}
	if j.Cluster = strings.Clone(row[3]); j.Cluster == "" {
		return j, at, errors.New("cluster is empty")
	}
	j.Runs = max(time.Duration(seconds*float64(time.Second)), time.Second)
	return j, at, nil
}

// VirtualCluster is one of Philly's, with its agents.
type VirtualCluster struct {
	Name   string
	Agents int
}

// ReadPhillyClusters reads rows of a virtual cluster and its number of agents:
// vc, node num.
func ReadPhillyClusters(r io.Reader, name string) ([]VirtualCluster, error) {
	t, err := openTable(r, name, "vc", "node num")
	if err != nil {
		return nil, err
	}
	var list []VirtualCluster
	for {
		row, line, err := t.next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(row[1])
		if err != nil || n < 1 || n > maxRows || row[0] == "" {
			return nil, fmt.Errorf("%s:%d: virtual cluster %q has %q agents, want 1 to %d", name, line, row[0], row[1], maxRows)
		}
		list = append(list, VirtualCluster{strings.Clone(row[0]), n})
	}
}

// NewAgents are the agents of a virtual cluster.
func (v VirtualCluster) NewAgents() []Agent {
	list := make([]Agent, v.Agents)
	for i := range list {
		list[i] = Agent{ID: fmt.Sprintf("%s-%03d", v.Name, i), GPUs: phillyGPUs, Model: "P100", Has: sched.Amount{CPUs: 64, MemMiB: 512 << 10}}
	}
	return list
}

// PhillyWorks makes works of jobs. role names the role of a job, which is left
// out where ok is false.
func PhillyWorks(list []PhillyJob, role func(j *PhillyJob) (name string, ok bool)) iter.Seq[Work] {
	return func(yield func(Work) bool) {
		for i := range list {
			j := &list[i]
			name, ok := role(j)
			if !ok {
				continue
			}
			// parsePhilly lets no job through that NewSpec refuses
			spec, _ := NewSpec("line-"+strconv.Itoa(j.Line), j.GPUs, phillyGPUs, sched.Amount{CPUs: 4, MemMiB: 32 << 10})
			spec.Role = name
			if !yield(Work{Spec: spec, Arrives: j.Arrives, Runs: []time.Duration{j.Runs}, Like: j.Cluster + " " + strconv.Itoa(j.GPUs)}) {
				return
			}
		}
	}
}

// table reads columns of a CSV file by their names.
type table struct {
	name string
	csv  *csv.Reader
	at   []int
	row  []string
}

func openTable(r io.Reader, name string, columns ...string) (*table, error) {
	t := &table{name: name, csv: csv.NewReader(bufio.NewReader(r)), row: make([]string, len(columns))}
	t.csv.ReuseRecord = true
	header, err := t.csv.Read()
	if err != nil {
		return nil, fmt.Errorf("read the first line of %s: %w", name, err)
	}
	for _, c := range columns {
		at := slices.Index(header, c)
		if at < 0 {
			return nil, fmt.Errorf("%s:1: there is no column %q among %s", name, c, strings.Join(header, ", "))
		}
		t.at = append(t.at, at)
	}
	return t, nil
}

// next is the next row's columns, and its line.
func (t *table) next() ([]string, int, error) {
	row, err := t.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, 0, io.EOF
	case errors.Is(err, csv.ErrFieldCount):
		row = append(slices.Clone(row), make([]string, len(t.at)+8)...) // what is missing is refused as empty
	case err != nil:
		return nil, 0, fmt.Errorf("read %s: %w", t.name, err)
	}
	for i, at := range t.at {
		t.row[i] = row[min(at, len(row)-1)]
	}
	line, _ := t.csv.FieldPos(0)
	return t.row, line, nil
}
