package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/minimesos/updates"
)

// Folders and files of the work directory of an agent that recovers executors.
const (
	recoverFolder    = "recover"
	agentIDFile      = "agent-id"
	executorsFolder  = "executors"
	containersFolder = "containers"
)

// executorCheckpoint contains an executor's state for the next agent process. It is on the
// disk before a container of the executor starts a command, and before the
// executor or the master learns that a status is stored.
type executorCheckpoint struct {
	Framework, Info []byte // protobuf
	Supplied        bool
	Container       string
	Sandbox         string
	Command         container.Command
	Ending          bool
	Tasks           []taskCheckpoint
	Nested          []nestedCheckpoint
}

type taskCheckpoint struct {
	Info        []byte
	State       mesos.TaskState
	Ready, Sent bool
	// Pending are the statuses that the framework has not acknowledged.
	Pending [][]byte
}

type nestedCheckpoint struct {
	IDs     []string
	Image   bool
	User    string
	Command container.Command
}

func (a *EmbeddedAgent) checkpointPath(container string) string {
	return filepath.Join(a.cfg.WorkDir, recoverFolder, executorsFolder, container+".json")
}

// saveExecutor writes the checkpoint of an executor, or removes it once the
// framework has acknowledged everything about an executor that has ended.
func (a *EmbeddedAgent) saveExecutor(e *executorState) {
	if !a.cfg.Recover || e.container == "" {
		return
	}
	var err error
	if a.isOver(e) {
		err = os.Remove(a.checkpointPath(e.container))
	} else if text, encoded := a.encodeExecutor(e); encoded == nil {
		err = atomicfile.Write(a.checkpointPath(e.container), text, 0o600)
	} else {
		err = encoded
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.cfg.Log.WithFields(e.logFields()).WithError(err).Error("cannot write an executor's checkpoint: it does not survive this agent")
	}
}

// isOver reports whether an executor has ended and no status of its tasks is
// pending.
func (a *EmbeddedAgent) isOver(e *executorState) bool {
	if !e.isCompleted() {
		return false
	}
	for _, t := range e.tasks {
		if a.streams.HasPending(updates.TaskKey{Framework: e.framework.id(), Task: t.info.TaskID.Value}) {
			return false
		}
	}
	return true
}

func (a *EmbeddedAgent) encodeExecutor(e *executorState) ([]byte, error) {
	c := executorCheckpoint{Supplied: e.supplied, Container: e.container, Sandbox: e.sandbox, Command: e.command, Ending: e.phase >= ending}
	var errs []error
	marshal := func(m proto.Marshaler) []byte {
		data, err := m.Marshal()
		errs = append(errs, err)
		return data
	}
	c.Framework, c.Info = marshal(&e.framework.info), marshal(&e.info)
	for _, t := range e.tasks {
		saved := taskCheckpoint{Info: marshal(&t.info), State: t.stored, Ready: t.ready, Sent: t.sent}
		for _, s := range a.streams.Pending(updates.TaskKey{Framework: e.framework.id(), Task: t.info.TaskID.Value}) {
			saved.Pending = append(saved.Pending, marshal(&s))
		}
		c.Tasks = append(c.Tasks, saved)
	}
	for _, n := range e.nested {
		c.Nested = append(c.Nested, nestedCheckpoint{IDs: n.ids, Image: n.image, User: n.user, Command: n.command})
	}
	text, err := json.Marshal(c)
	return text, errors.Join(append(errs, err)...)
}

// saveAgentID stores the id under which the next agent registers.
func (a *EmbeddedAgent) saveAgentID(id string) error {
	if !a.cfg.Recover {
		return nil
	}
	if err := atomicfile.Update(filepath.Join(a.cfg.WorkDir, recoverFolder, agentIDFile), []byte(id), 0o600); err != nil {
		return fmt.Errorf("store agent id: %w", err)
	}
	return nil
}

// readCheckpoints returns what an earlier agent has stored.
func (a *EmbeddedAgent) readCheckpoints() (id string, executors []executorCheckpoint, err error) {
	folder := filepath.Join(a.cfg.WorkDir, recoverFolder, executorsFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", nil, fmt.Errorf("recover: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(a.cfg.WorkDir, recoverFolder, agentIDFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("recover: %w", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", nil, fmt.Errorf("recover: %w", err)
	}
	var damaged []error
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".json") {
			_ = os.Remove(filepath.Join(folder, entry.Name())) // it was being written
			continue
		}
		var c executorCheckpoint
		data, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err == nil {
			err = json.Unmarshal(data, &c)
		}
		if err != nil {
			damaged = append(damaged, fmt.Errorf("%s: %w", filepath.Join(folder, entry.Name()), err))
			continue
		}
		executors = append(executors, c)
	}
	if damaged != nil {
		return "", nil, damagedRecords(damaged[0], damaged[1:]...)
	}
	return string(text), executors, nil
}

// damagedRecords returns the error about records of executors that cannot be read.
func damagedRecords(first error, others ...error) error {
	for _, other := range others {
		first = fmt.Errorf("%w; %w", first, other)
	}
	return fmt.Errorf("records of running executors are damaged: %w; restore them from a backup, or move them away and start again: "+
		"the agent then ends the processes of these executors, and their tasks are lost and tried again", first)
}
