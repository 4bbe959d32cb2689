package fit

import (
	"encoding/binary"
	"math"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Demand is what each of some equal tasks needs.
type Demand struct {
	// Job names it in reasons.
	Job string
	// Role is whose agents it may use.
	Role string
	// Amount includes Overhead, the executor's part, which only reasons tell
	// apart.
	Amount, Overhead Amount
	// Ports counts host ports. HostPorts are the numbers that the first of them
	// must have; 0 is any, and so are those that it does not name.
	Ports       int
	HostPorts   []int
	Request     gpu.Request
	Constraints []job.Constraint
	// Runs is how long a task runs; 0 where nobody knows.
	Runs time.Duration
	// Beside has, for constraints that depend on the job's other live tasks,
	// the agent of each.
	Beside []*Agent
	// Beyond says that a task may outlive what Reserve holds back: it keeps
	// off that.
	Beyond bool
}

// Spot is a place for one task.
type Spot struct {
	// Agent indexes Cluster.Agents.
	Agent int
	// DeviceIDs are the devices the task gets whole, by UUID; nil where its
	// agent hands out GPUs by count alone.
	DeviceIDs []string
	// GPUs counts devices, whole or in part.
	GPUs  int
	Ports []int
	// Parts are what it gets of devices that tasks share, one each.
	Parts []gpu.Part
}

// unknownRun is how long a task without a known run time must be able to run
// before maintenance of its agent begins.
const unknownRun = time.Hour

// class is what demands that find the same places have in common.
type class struct {
	id     int32
	role   int32 // -1: no agent has it
	gpus   int32
	milli  int32 // thousandths it takes of a device that is divisible
	ports  int32
	hosts  []int // Demand.HostPorts; nil: any
	shared bool  // it wants parts of devices
	share  gpu.Share
	beyond bool
	need   amount
	lasts  int64 // nanoseconds that an agent must stay available
	wish   *wish
	filter *filter // nil: every agent
	perJob []job.Constraint
	uses   int
	least  glance // what a task must find at the least
}

// class finds or makes the demand's.
func (c *Cluster) class(d *Demand) *class {
	w := c.world
	w.key = d.appendKey(w.key[:0])
	if cl := w.classes[string(w.key)]; cl != nil {
		return cl
	}
	cl := &class{
		id: int32(len(w.classes)), role: -1, gpus: clamp(d.Request.GPUs), ports: clamp(d.Ports),
		hosts: hostPorts(d), beyond: d.Beyond, need: d.Amount.milli(), lasts: lasts(d.Runs),
	}
	if id, ok := w.roles[d.Role]; ok {
		cl.role = id
	}
	if cl.gpus > 0 && !d.Request.Share.Whole() {
		cl.shared, cl.share, cl.milli = true, d.Request.Share, thousandthsOf(d.Request.Share)
	}
	cl.least = glanceOf(cl.need.cpus, cl.gpus)
	if cl.shared {
		cl.least.gpus = 1
	}
	w.classes[string(w.key)] = cl
	cl.wish = w.wish(d.Request)
	var fixed []job.Constraint
	for _, con := range d.Constraints {
		if con.PerJob() {
			cl.perJob = append(cl.perJob, con)
		} else {
			fixed = append(fixed, con)
		}
	}
	cl.filter = w.filter(fixed)
	return cl
}

func clamp(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

func lasts(runs time.Duration) int64 {
	if runs <= 0 {
		return int64(unknownRun)
	}
	return int64(runs)
}

// Key is equal for demands that find the same places, the other tasks of
// their jobs aside.
func (d *Demand) Key() string { return string(d.appendKey(nil)) }

// appendKey writes all that tells classes apart. Texts carry their lengths.
func (d *Demand) appendKey(b []byte) []byte {
	b = appendText(b, d.Role)
	need := d.Amount.milli()
	for _, n := range [...]int64{need.cpus, need.mem, need.disk, int64(d.Ports), int64(d.Runs), int64(len(d.HostPorts))} {
		b = binary.AppendVarint(b, n)
	}
	for _, p := range d.HostPorts {
		b = binary.AppendVarint(b, int64(p))
	}
	if d.Beyond {
		b = append(b, 'B')
	}
	b = appendRequest(b, d.Request)
	return appendConstraints(b, d.Constraints)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTexts(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendText(b, s)
	}
	return b
}

func appendRequest(b []byte, r gpu.Request) []byte {
	for _, n := range [...]int64{int64(r.GPUs), r.Share.MemMiB, int64(r.Share.MemPercent), int64(r.Share.Cores), r.MinMemMiB} {
		b = binary.AppendVarint(b, n)
	}
	b = appendTexts(b, r.Types.Include)
	b = appendTexts(b, r.Types.Exclude)
	b = appendTexts(b, r.Devices.Include)
	b = appendTexts(b, r.Devices.Exclude)
	b = appendText(b, r.MinDriver)
	b = appendText(b, r.MinCUDA)
	return appendText(b, string(r.Topology))
}

func appendConstraints(b []byte, list []job.Constraint) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, con := range list {
		b = appendText(b, con.Field)
		b = appendText(b, string(con.Operator))
		b = appendText(b, con.Value)
	}
	return b
}
