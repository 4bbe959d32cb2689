package clustersim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strconv"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/job"
)

// disk is the store of the scheduler's journal: its file, or what several schedulers share. It survives the scheduler. Its frames make a commit atomic, as
// bbolt's pages and ZooKeeper's transactions do; the records in them have the journal's encoding.
type disk struct {
	world *World
	// synced is the durable content.
	synced []byte
	// recorded are the durable states of attempts by task id, and attempts the last durable attempt of each task: what the
	// invariants compare with.
	recorded map[string]job.State
	attempts map[string]int
	// epoch counts the schedulers that have opened the journal. Only the last one can write.
	epoch int
	// standby is the read model of the standbys, nil without any. behind are the changes that have not reached it.
	standby *readmodel.Model
	behind  [][]byte
}

// errKilled ends a loop whose process was killed.
var errKilled = errors.New("the scheduler was killed")

// fileJournal is the journal as one scheduler process opened it.
type fileJournal struct {
	disk    *disk
	process *process
	epoch   int
}

// open opens the journal for a process, and prevents all earlier ones from writing.
func (d *disk) open(p *process) fileJournal {
	d.epoch++
	return fileJournal{d, p, d.epoch}
}

// CheckSpace implements journal.Journal: the simulated disk is never full.
func (f fileJournal) CheckSpace() error { return nil }

// ConfirmLeading implements journal.Journal.
func (f fileJournal) ConfirmLeading(context.Context) error {
	if f.epoch != f.disk.epoch {
		return journal.ErrFenced
	}
	return nil
}

func (f fileJournal) Load(context.Context) (journal.JournalContents, error) { return f.disk.restore() }
func (f fileJournal) Close() error                                          { return nil }

// Commit writes a change. The process may be killed before the write, while it happens, or after it.
func (f fileJournal) Commit(_ context.Context, c journal.Change) error {
	d := f.disk
	if f.epoch != d.epoch {
		return journal.ErrFenced
	}
	text, err := journal.EncodeChange(c)
	if err != nil {
		return err
	}
	d.world.note("commit", strconv.Itoa(len(c.Tasks)), "", len(text))
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	frame = binary.BigEndian.AppendUint32(append(frame, text...), crc32.ChecksumIEEE(text))
	if d.world.chance(d.world.plan.killAtCommit, "killed at a commit") {
		f.process.kill()
		switch d.world.random.IntN(3) {
		case 0:
			d.world.fault("write lost")
		case 1:
			d.world.fault("write torn")
			d.synced = append(d.synced, frame[:d.world.random.IntN(len(frame))]...)
		default:
			d.world.fault("killed between record and act")
			d.write(f.process, frame, &c)
		}
		return errKilled
	}
	d.write(f.process, frame, &c)
	f.process.committed = &c
	return nil
}

// write makes a change of a process durable.
func (d *disk) write(by *process, frame []byte, c *journal.Change) {
	d.synced = append(d.synced, frame...)
	if d.recorded == nil {
		d.recorded, d.attempts = map[string]job.State{}, map[string]int{}
	}
	for i := range c.Tasks {
		t := &c.Tasks[i]
		d.recorded[t.ID], d.attempts[t.Job+"."+strconv.Itoa(t.Index)] = t.State, t.Attempt
	}
	d.world.checks.checkCommit(by, c)
	if d.standby != nil {
		d.behind = append(d.behind, bytes.Clone(frame[4:len(frame)-4]))
		d.world.after(d.world.delay(), "change reaches standbys", func() { d.follow(1) })
	}
}

// follow applies the next changes to the read model of the standbys.
func (d *disk) follow(changes int) {
	for _, text := range d.behind[:min(changes, len(d.behind))] {
		c, err := journal.DecodeChange(text)
		if err != nil {
			d.world.failf("a standby cannot read a change: %v", err)
		}
		d.standby.ApplyChange(c)
	}
	d.behind = d.behind[min(changes, len(d.behind)):]
}

// restore returns the contents as a new process reads them. It drops an incomplete frame at the end.
func (d *disk) restore() (journal.JournalContents, error) { return journal.DecodeLog(d.readFrames()) }

// readFrames returns the texts of the changes, and drops an incomplete frame at the end.
func (d *disk) readFrames() (texts [][]byte) {
	rest := d.synced
	for len(rest) >= 8 {
		size := int(binary.BigEndian.Uint32(rest))
		if len(rest) < size+8 {
			break
		}
		text := rest[4 : 4+size]
		if binary.BigEndian.Uint32(rest[4+size:]) != crc32.ChecksumIEEE(text) {
			break
		}
		texts, rest = append(texts, text), rest[8+size:]
	}
	d.synced = d.synced[:len(d.synced)-len(rest)]
	return texts
}
