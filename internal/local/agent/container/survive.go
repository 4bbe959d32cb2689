package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/atomicfile"
)

// recordStore is a folder with a record of each container that survives the
// agent's death. The zero value is for an engine without such containers.
type recordStore struct {
	dir     string
	keepFor time.Duration
}

// containerRecord identifies the first process of a container. It is on the disk
// before the process executes its order, so no command runs without one.
type containerRecord struct {
	ID  []string `json:"id"`
	PID int      `json:"pid"`
	// Started is the process's start time in the kernel's ticks. PID and Started
	// are unique until the next boot, whose id is Boot.
	Started string      `json:"started"`
	Boot    string      `json:"boot"`
	Joined  bool        `json:"joined,omitempty"`
	OCI     *RuncBundle `json:"oci,omitempty"`
}

const (
	aliveFile       = "alive"
	recordExtension = ".record"
	// journalExtension is the extension of the file in which the container's first process
	// records the start and the end of the command.
	journalExtension = ".journal"
)

func (r recordStore) path(id []string, extension string) string {
	return filepath.Join(r.dir, strings.Join(id, ".")+extension)
}

// survives reports whether the container survives the agent's death. A session
// ends with the connection of its client.
func (r recordStore) survives(s LaunchSpec) bool { return r.dir != "" && s.Enter == nil }

func (r recordStore) writeRecord(c *RunningContainer, s LaunchSpec) error {
	if !r.survives(s) {
		return nil
	}
	started, err := processStart(c.process.Pid)
	if err != nil {
		return fmt.Errorf("record container: %w", err)
	}
	c.record = containerRecord{ID: s.ID, PID: c.process.Pid, Started: started, Boot: bootID(), Joined: s.Join != nil, OCI: s.OCI}
	text, err := json.Marshal(c.record)
	if err == nil {
		err = atomicfile.Write(r.path(s.ID, recordExtension), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("record container: %w", err)
	}
	return nil
}

func (r recordStore) orderFor(s LaunchSpec) *keepOrder {
	if !r.survives(s) {
		return nil
	}
	return &keepOrder{Alive: filepath.Join(r.dir, aliveFile), For: r.keepFor, Journal: r.path(s.ID, journalExtension)}
}

func (r recordStore) removeRecord(id []string) {
	if r.dir == "" || len(id) == 0 {
		return
	}
	for _, extension := range []string{recordExtension, journalExtension} {
		_ = os.Remove(r.path(id, extension)) // the next agent removes what is left
	}
}

// listRecords returns the records of the folder, parents first.
func (r recordStore) listRecords() (list []containerRecord, err error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case recordExtension:
		case journalExtension:
			continue
		default:
			if e.Name() != aliveFile {
				_ = os.Remove(filepath.Join(r.dir, e.Name())) // it was being written
			}
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.dir, e.Name()))
		if err != nil {
			return nil, err
		}
		var record containerRecord
		if err := json.Unmarshal(text, &record); err != nil {
			return nil, fmt.Errorf("container record %s: %w", e.Name(), err)
		}
		list = append(list, record)
	}
	slices.SortFunc(list, func(a, b containerRecord) int { return len(a.ID) - len(b.ID) })
	return list, nil
}

// processStart returns the start time of a process in the kernel's ticks.
func processStart(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	const start = 19 // fields after the program's name
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= start {
		return "", fmt.Errorf("process %d: no start time in %q", pid, stat)
	}
	return fields[start], nil
}

// bootID returns the id of the machine's boot, "" if it has none.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(id))
}

// HoldAlive locks the file by which containers detect that an agent lives, until
// release. It waits while a container checks the lock.
func (e *ContainerEngine) HoldAlive() (release func(), err error) {
	if e.records.dir == "" {
		return func() {}, nil
	}
	if err := os.MkdirAll(e.records.dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep containers: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(e.records.dir, aliveFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep containers: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("keep containers: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

// AdoptContainers returns the containers of an earlier agent, by their joined ids.
// Those that have ended meanwhile have their wait status, or that of SIGKILL if
// they were killed. A container whose command did not start is not returned, nor is one
// that ran when the machine stopped: it did not end by itself.
func (e *ContainerEngine) AdoptContainers() (map[string]*RunningContainer, error) {
	records, err := e.records.listRecords()
	if err != nil {
		return nil, fmt.Errorf("adopt containers: %w", err)
	}
	adopted := map[string]*RunningContainer{}
	for _, r := range records {
		if r.Boot != bootID() && !endedItself(e.records.path(r.ID, journalExtension)) {
			e.records.removeRecord(r.ID)
			continue
		}
		c := &RunningContainer{engine: e, path: e.CgroupPath(r.ID), record: r, oci: r.OCI, exited: make(chan struct{})}
		journal := e.records.path(r.ID, journalExtension)
		c.process, err = findRecorded(r)
		switch {
		case err != nil:
			return nil, fmt.Errorf("adopt container %s: %w", strings.Join(r.ID, "."), err)
		case !hasStarted(journal):
			if c.process != nil {
				c.Kill() // it waits for an order, unless it has got one just now
				c.awaitAdopted(journal)
			}
			if !hasStarted(journal) {
				e.records.removeRecord(r.ID)
				continue
			}
		case c.process == nil:
			c.status = recordedEnd(journal)
			close(c.exited)
		default:
			if err := c.adoptNamespaces(); err != nil {
				c.Kill() // it is ending
			}
			go c.awaitAdopted(journal)
		}
		adopted[strings.Join(r.ID, ".")] = c
	}
	return adopted, nil
}

// HasSurvivors reports whether containers of an earlier agent run. dir is the earlier agent's EngineConfig.Records.
func HasSurvivors(dir string) (bool, error) {
	records, err := recordStore{dir: dir}.listRecords()
	if err != nil {
		return false, fmt.Errorf("look for containers of an earlier agent: %w", err)
	}
	for _, r := range records {
		p, err := findRecorded(r)
		if err != nil {
			return false, fmt.Errorf("look for containers of an earlier agent: %w", err)
		}
		if p != nil {
			return true, p.Release()
		}
	}
	return false, nil
}

func (c *RunningContainer) adoptNamespaces() error {
	if !c.engine.fenced {
		return nil
	}
	if err := c.spaces.openNamespaces(c.process.Pid); err != nil || !c.record.Joined {
		return err
	}
	return c.spaces.adoptThreadMounts(c.process.Pid)
}

// findRecorded returns the process of a record, nil if it has ended. The handle
// stays that process's, so its number may be used again.
func findRecorded(r containerRecord) (*os.Process, error) {
	if r.Boot != bootID() {
		return nil, nil
	}
	p, err := os.FindProcess(r.PID)
	if err != nil {
		return nil, err
	}
	if started, err := processStart(r.PID); err != nil || started != r.Started {
		_ = p.Release()
		return nil, nil
	}
	return p, nil
}

// awaitAdopted waits until the first process of an adopted container has exited.
func (c *RunningContainer) awaitAdopted(journal string) {
	fd, err := unix.PidfdOpen(c.process.Pid, 0)
	if started, serr := processStart(c.process.Pid); err == nil && serr == nil && started == c.record.Started {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
	if err == nil {
		_ = unix.Close(fd)
	}
	c.spaces.close()
	c.status = recordedEnd(journal)
	close(c.exited)
}

// journalLine is a line of a container's journal: the command is about to start,
// or has ended.
type journalLine struct {
	Ended *syscall.WaitStatus `json:"ended,omitempty"`
}

func hasStarted(journal string) bool {
	info, err := os.Stat(journal)
	return err == nil && info.Size() > 0
}

// recordedEnd returns the wait status in a journal. Without one, the container's
// first process was killed.
func recordedEnd(journal string) syscall.WaitStatus {
	if end := readEnd(journal); end != nil {
		return *end
	}
	return syscall.WaitStatus(unix.SIGKILL)
}

// endedItself reports whether the container's command has exited. A signal means that
// the machine was shut down.
func endedItself(journal string) bool {
	end := readEnd(journal)
	return end != nil && end.Exited()
}

// readEnd returns the wait status in a journal, nil if it has none.
func readEnd(journal string) *syscall.WaitStatus {
	text, _ := os.ReadFile(journal)
	for line := range bytes.Lines(text) {
		var l journalLine
		if json.Unmarshal(line, &l) == nil && l.Ended != nil {
			return l.Ended
		}
	}
	return nil
}

// survivor is the part of a container's first process that lets the command
// survive the agent.
type survivor struct {
	alive, journal *os.File
	keepFor        time.Duration
	lost           time.Time // when an agent last held the lock
}

// survivalCheck is the interval of the checks for an agent.
const survivalCheck = 500 * time.Millisecond

// prepare opens the files and records the start.
func (k *keepOrder) prepare() (*survivor, error) {
	alive, err := os.OpenFile(k.Alive, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("keep container: %w", err)
	}
	journal, err := os.OpenFile(k.Journal, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep container: %w", err)
	}
	s := &survivor{alive: alive, journal: journal, keepFor: k.For}
	return s, s.write(journalLine{})
}

func (s *survivor) write(l journalLine) error {
	err := json.NewEncoder(s.journal).Encode(l)
	if err == nil {
		err = s.journal.Sync()
	}
	if err != nil {
		return fmt.Errorf("keep container: %w", err)
	}
	return nil
}

func (s *survivor) recordEnd(status syscall.WaitStatus) {
	if s != nil {
		_ = s.write(journalLine{Ended: &status}) // without it the agent reports SIGKILL
	}
}

// isOver reports whether no agent has lived for too long.
func (s *survivor) isOver(now time.Time) bool {
	if unix.Flock(int(s.alive.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		s.lost = now // an agent holds it
		return false
	}
	_ = unix.Flock(int(s.alive.Fd()), unix.LOCK_UN)
	return now.Sub(s.lost) >= s.keepFor
}

// ClearUnknown kills the containers of an earlier agent that are not adopted, and
// removes their cgroups.
func (e *ContainerEngine) ClearUnknown(ctx context.Context, adopted map[string]*RunningContainer) error {
	if len(adopted) == 0 {
		return e.ClearCgroups(ctx)
	}
	if !e.fenced {
		return nil
	}
	// runc has a cgroup ".oci" below that of its container.
	isKept := func(path string) bool {
		for _, c := range adopted {
			if path == c.path || strings.HasPrefix(c.path, path+"/") || strings.HasPrefix(path, c.path+"/.") {
				return true
			}
		}
		return false
	}
	var errs []error
	for _, h := range e.cgroups.all {
		errs = append(errs, walkFolders(filepath.Join(h.dir, e.cgroup), func(dir string) error {
			if path := strings.TrimPrefix(dir, h.dir); !isKept(path) {
				return e.cgroups.clearCgroup(path)
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}
