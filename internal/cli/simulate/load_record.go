package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sim"
	"mesos-gpu/framework/sim/replay"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job/jobfile"
)

// detectForm returns the format of a file that only timed arrivals accept, or "" if the
// file may be CSV of tasks.
func detectForm(path string) string {
	head, err := readHead(path)
	if err != nil {
		return ""
	}
	if form := identifyRecord(head); form != "" {
		return form
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := jobfile.Read(f, path); err != nil {
		return ""
	}
	return "a job file"
}

// loadRecord reads agents and jobs from files in any of the supported formats.
func (a *simulateCommands) loadRecord(ctx context.Context, agents, tasks string, f *timedFlags) (*replayRecord, error) {
	if err := f.loadRoles(); err != nil {
		return nil, err
	}
	head, err := readHead(tasks)
	if err != nil {
		return nil, err
	}
	form := identifyRecord(head)
	switch {
	case f.jobs != "" && form != paiRecord:
		return nil, &cli.UsageError{Err: fmt.Errorf("--jobs is for %s", paiRecord)}
	case form == phillyRecord:
		return a.loadVirtualClusters(agents, tasks, replay.ReadPhillyJobs, f)
	case form == heliosRecord:
		return a.loadVirtualClusters(agents, tasks, replay.ReadHeliosJobs, f)
	case f.clusters != clustersPooled:
		return nil, &cli.UsageError{Err: fmt.Errorf("--clusters %s is for records of Philly and Helios", f.clusters)}
	}
	list, err := readFile(agents, sim.ReadAgents)
	if err != nil {
		return nil, err
	}
	c := replayCase{agents: replay.AgentsFromTrace(list), roles: []queue.Role{f.newRole("")}}
	record := &replayRecord{}
	switch {
	case form == journalRecord:
		record.leftOut, record.leftOutReason, err = c.loadJournal(ctx, tasks, f)
	case form == paiRecord:
		record.leftOutReason = notEnded
		c.jobs, record.leftOut, err = a.loadPAITasks(tasks, f.jobs)
	case form == dlrmRecord:
		c.jobs, err = readFile(tasks, func(r io.Reader, name string) ([]replay.JobRecord, error) {
			return replay.ReadDLRMInstances(r, name, a.reportRow)
		})
	case bytes.Contains(head, []byte("num_gpu")) || bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		err = c.loadTasks(tasks)
	default:
		err = c.loadJobFile(tasks)
	}
	record.cases = []replayCase{c}
	return record, err
}

func (c *replayCase) loadTasks(path string) error {
	tasks, err := readFile(path, sim.ReadTasks)
	if err != nil {
		return err
	}
	works, err := replay.RecordsFromTasks(tasks)
	if err != nil {
		return err
	}
	c.jobs = slices.Collect(works)
	return nil
}

// readHead returns the first 1024 bytes of a file.
func readHead(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<10))
}

// The formats of records that only timed arrivals accept and that the start of a file identifies.
const (
	phillyRecord  = "a record of Philly"
	heliosRecord  = "a record of Helios"
	paiRecord     = "a record of PAI"
	dlrmRecord    = "a record of DLRM services"
	journalRecord = "a journal"
)

// notEnded is why jobs of a record are left out that have no run time.
const notEnded = "they have not ended, or never ran"

// identifyRecord returns the format of a record by the start of its file, "" for another file.
func identifyRecord(head []byte) string {
	line, _, _ := strings.Cut(string(head), "\n")
	switch {
	case isJournal(head):
		return journalRecord
	case strings.HasPrefix(line, "timestamp,"):
		return phillyRecord
	case strings.Contains(line, "gpu_num") && strings.Contains(line, "submit_time"):
		return heliosRecord
	case strings.HasPrefix(line, "instance_sn,"):
		return dlrmRecord
	case replay.IsPAITask(line):
		return paiRecord
	}
	return ""
}

// isJournal reports whether head is the start of a bbolt file: its magic number follows
// the header of the first page.
func isJournal(head []byte) bool {
	return len(head) > 20 && bytes.Equal(head[16:20], []byte{0xed, 0xda, 0x0c, 0xed})
}

// reportRow reports a row that cannot be parsed.
func (a *simulateCommands) reportRow(err error) { fmt.Fprintf(a.Stderr, "left out: %v\n", err) }

// loadPAITasks loads tasks of PAI. jobs is the table of their jobs, or "". left counts the tasks that cannot be replayed.
func (a *simulateCommands) loadPAITasks(tasks, jobs string) (list []replay.JobRecord, left int, err error) {
	var known map[string]replay.PAIJob
	if jobs != "" {
		if known, err = readFile(jobs, replay.ReadPAIJobs); err != nil {
			return nil, 0, err
		}
	}
	list, err = readFile(tasks, func(r io.Reader, name string) (list []replay.JobRecord, err error) {
		list, left, err = replay.ReadPAITasks(r, name, known, a.reportRow)
		return list, err
	})
	return list, left, err
}

// loadJournal loads the jobs in a scheduler's journal. No scheduler may have the journal
// open; use a copy of the journal of a running one.
func (c *replayCase) loadJournal(ctx context.Context, path string, f *timedFlags) (left int, because string, err error) {
	j, err := journal.OpenBolt(path)
	if err != nil {
		return 0, "", fmt.Errorf("open journal %s: %w", path, err)
	}
	all, err := j.Load(ctx)
	if err = errors.Join(err, j.Close()); err != nil {
		return 0, "", fmt.Errorf("read journal %s: %w", path, err)
	}
	works, left := replay.RecordsFromJobs(all.Jobs)
	c.roles, c.jobs = nil, works
	names := map[string]bool{}
	for i := range works {
		if name := works[i].Spec.Role; !names[name] {
			names[name] = true
			c.roles = append(c.roles, f.newRole(name))
		}
	}
	return left, notEnded, nil
}

func (c *replayCase) loadJobFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	spec, err := jobfile.Read(f, path)
	if err != nil {
		return err
	}
	w, err := replay.RecordFromSpec(spec)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	w.Spec.Role = ""
	c.jobs = []replay.JobRecord{w}
	return nil
}

// loadVirtualClusters loads a trace of virtual clusters, whose jobs readJobs reads. It reports each row that it cannot parse and omits
// the jobs of virtual clusters without agents.
func (a *simulateCommands) loadVirtualClusters(
	agents, tasks string, readJobs func(io.Reader, string, func(error)) ([]replay.VirtualClusterJob, error),
	f *timedFlags,
) (*replayRecord, error) {
	clusters, err := readFile(agents, replay.ReadVirtualClusters)
	if err != nil {
		return nil, err
	}
	jobs, err := readFile(tasks, func(r io.Reader, name string) ([]replay.VirtualClusterJob, error) {
		return readJobs(r, name, a.reportRow)
	})
	if err != nil {
		return nil, err
	}
	record := &replayRecord{leftOutReason: "their virtual cluster has no agents"}
	listed := map[string]bool{}
	all := replayCase{roles: []queue.Role{f.newRole("all")}}
	if f.clusters == clustersShared {
		all.roles = nil
	}
	for _, vc := range clusters {
		listed[vc.Name] = true
		all.agents = append(all.agents, vc.ReplayAgents()...)
		if f.clusters == clustersShared {
			all.roles = append(all.roles, f.newRole(vc.Name))
		}
		if f.clusters == clustersOwn || f.fairness {
			record.own = append(record.own, replayCase{
				agents: vc.ReplayAgents(), roles: []queue.Role{f.newRole(vc.Name)},
				jobs: slices.Collect(replay.VirtualClusterRecords(jobs, func(j *replay.VirtualClusterJob) (string, bool) { return vc.Name, j.Cluster == vc.Name })),
			})
		}
	}
	if f.clusters == clustersOwn {
		record.cases, record.own = record.own, nil
	} else {
		all.jobs = slices.Collect(replay.VirtualClusterRecords(jobs, func(j *replay.VirtualClusterJob) (string, bool) {
			if f.clusters == clustersShared {
				return j.Cluster, listed[j.Cluster]
			}
			return "all", listed[j.Cluster]
		}))
		record.cases = []replayCase{all}
	}
	for i := range jobs {
		if !listed[jobs[i].Cluster] {
			record.leftOut++
		}
	}
	return record, nil
}
