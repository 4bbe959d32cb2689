package clustersim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	executormsg "github.com/mesos/mesos-go/api/v1/lib/executor"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/resource"
	"mesos-gpu/internal/minimesos/updates"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/job"
)

// agentNode is a machine with a Mesos agent and the tasks that run there.
type agentNode struct {
	world      *World
	host       string
	resources  []mesos.Resource
	attributes []mesos.Attribute
	cut        partition

	// partitioned is the GPU whose MIG instances are offered as shares, nil for none. layouts counts its layouts.
	partitioned *gpu.Device
	layouts     int

	// id is assigned at the first registration. A wiped agent gets another one: lives counts them.
	id    string
	lives int
	// down is whether the agent's process does not run. Its tasks run on.
	down bool
	// connection is the connection to the master, or nil; ready is whether the agent is registered.
	connection *connection
	ready      bool
	// tasks lists running tasks, and tasks whose end is not acknowledged. updates are the unacknowledged statuses; repeat
	// is when they are looked through next, zero if no event is planned for that.
	tasks   map[string]*agentTask
	updates *updates.UpdateStreams
	repeat  time.Time
	// leftovers are the tasks that run on although the agent has lost its work directory: containers of an engine, which only
	// the daemon knows.
	leftovers []*agentTask
	// executors are the containers of tasks by id, in worlds with executors.
	executors map[string]*executorNode
}

// agentTask is a task on its agent.
type agentTask struct {
	id        string
	resources []mesos.Resource
	// reported is the state in the last status; ended is whether nothing of it runs any more.
	reported mesos.TaskState
	ended    bool
	killed   bool
	// lost is whether the agent has lost the task, so that nothing of it is reported.
	lost  bool
	grace time.Duration
}

// newUpdateStreams returns streams without updates. An agent repeats an update after 10 s to 5 minutes.
func newUpdateStreams() *updates.UpdateStreams { return updates.New(10*time.Second, 5*time.Minute) }

func newAgent(w *World, number int) *agentNode {
	n := &agentNode{
		world:     w,
		host:      fmt.Sprintf("host-%d", number),
		tasks:     map[string]*agentTask{},
		updates:   newUpdateStreams(),
		executors: map[string]*executorNode{},
	}
	count := 1 + w.random.IntN(4)
	machine, err := newMachine(n.host, count)
	if err != nil {
		w.failf("host: %v", err)
		return n
	}
	host := machine.host
	n.resources = []mesos.Resource{resource.NewScalar("cpus", 8), resource.NewScalar("mem", 8192), resource.NewScalar("disk", 10000)}
	n.resources = append(n.resources, mesos.Resource{
		Name:   "ports",
		Type:   mesos.RANGES.Enum(),
		Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: 31000, End: 31099}}},
	})
	whole := host.Devices
	if w.plan.shares && number%2 == 0 {
		shared := whole[0]
		whole = whole[1:]
		n.resources = append(n.resources, resource.NewScalar(gpu.MemResource(shared.UUID), float64(shared.MemMiB)), resource.NewScalar(gpu.CoresResource(shared.UUID),
			100))
	}
	if w.plan.mig && number%2 == 1 {
		n.partitioned, whole = &whole[0], whole[1:]
		n.resources = append(n.resources, n.instances()...)
	}
	var ids []string
	for _, d := range whole {
		ids = append(ids, d.UUID)
	}
	if len(ids) > 0 {
		n.resources = append(n.resources, resource.NewScalar("gpus", float64(len(ids))), resource.NewSet("gpu_ids", ids...))
	}
	n.resources = resource.Sum(n.resources)
	for name, value := range map[string]string{"gpu_type": "V100", "gpu_inventory": machine.inventory, "gpu_driver": host.Driver, "gpu_cuda": host.CUDA} {
		n.attributes = append(n.attributes, mesos.Attribute{Name: name, Type: mesos.TEXT, Text: &mesos.Value_Text{Value: value}})
	}
	if n.partitioned != nil {
		n.attributes = append(n.attributes, mesos.Attribute{Name: "gpu_share_limit", Type: mesos.TEXT, Text: &mesos.Value_Text{Value: string(gpu.EnforcedByMIG)}})
	}
	slices.SortFunc(n.attributes, func(a, b mesos.Attribute) int { return strings.Compare(a.Name, b.Name) })
	return n
}

// machine is the hardware of an agent.
type machine struct {
	host gpu.Host
	// inventory is the text of host, as the agent advertises it.
	inventory string
}

// machines has those that worlds have created, by name and number of GPUs. They are never modified.
var machines sync.Map

func newMachine(name string, gpus int) (machine, error) {
	type key struct {
		name string
		gpus int
	}
	if known, ok := machines.Load(key{name, gpus}); ok {
		return known.(machine), nil
	}
	host, err := simulated.NewHost(fmt.Sprintf("%dxV100", gpus), name)
	if err != nil {
		return machine{}, err
	}
	inventory, err := gpu.EncodeInventory(host)
	if err != nil {
		return machine{}, err
	}
	machines.Store(key{name, gpus}, machine{host, inventory})
	return machine{host, inventory}, nil
}

// migLayouts are the instances of a GPU, as parts of its memory.
var migLayouts = [][]int64{{2, 2}, {2, 4, 4}, {4, 4, 4}, {1}}

// instances returns the resources of the current layout. Instances of different layouts have different UUIDs.
func (n *agentNode) instances() (list []mesos.Resource) {
	for i, part := range migLayouts[n.layouts%len(migLayouts)] {
		uuid := fmt.Sprintf("MIG-%s-%d-%d", n.host, n.layouts, i)
		list = append(list, resource.NewScalar(gpu.MemResource(uuid), float64(n.partitioned.MemMiB/part)), resource.NewScalar(gpu.CoresResource(uuid), gpu.AllCores))
	}
	return list
}

// repartition replaces the layout, if no task holds an instance. The master learns of it by a message, as of any change of
// an agent's resources.
func (n *agentNode) repartition() {
	before := n.instances()
	for _, id := range n.taskIDs() {
		if t := n.tasks[id]; !t.ended && len(resource.Subtract(before, t.resources)) < len(before) {
			return
		}
	}
	n.layouts++
	n.resources = resource.Sum(resource.Subtract(n.resources, before), n.instances())
	n.world.fault("GPU repartitioned")
	if n.ready {
		total := n.resources
		n.connection.send(toMaster, "update resources", func() { n.world.master.updateResources(n.id, total) })
	}
}

func (n *agentNode) start() {
	if n.partitioned != nil {
		n.world.after(n.world.between(time.Second, 30*time.Second), "repartition", n.considerRepartition)
	}
	n.world.after(n.world.between(0, 2*time.Second), "connect agent", n.connect)
}

// considerRepartition repartitions the GPU now and then, until the faults end.
func (n *agentNode) considerRepartition() {
	if n.world.faulty {
		if !n.down {
			n.repartition()
		}
		n.world.after(n.world.between(5*time.Second, 60*time.Second), "repartition", n.considerRepartition)
	}
}

func (n *agentNode) taskIDs() []string { return slices.Sorted(maps.Keys(n.tasks)) }

// connect opens a connection to the master and registers.
func (n *agentNode) connect() {
	w := n.world
	if n.down || n.connection != nil {
		return
	}
	if n.cut.until > w.now || !w.master.leads {
		w.after(w.between(time.Second, 5*time.Second), "connect agent", n.connect)
		return
	}
	c := &connection{world: w, cut: &n.cut}
	c.onBreak = func() { n.disconnected(c) }
	n.connection, n.ready = c, false
	named := n.nameTasks()
	c.send(toMaster, "register agent", func() { w.master.register(n, c, named) })
}

// inspectTasks returns the tasks that the agent has, as its API lists them: in the states of which it knows, which a status that is
// on its way from the executor does not change yet.
func (n *agentNode) inspectTasks() (list []sched.InspectedTask) {
	states := map[mesos.TaskState]job.State{
		mesos.TASK_STAGING:  job.Staging,
		mesos.TASK_FINISHED: job.Finished,
		mesos.TASK_FAILED:   job.Failed,
		mesos.TASK_KILLED:   job.Killed,
		mesos.TASK_DROPPED:  job.Lost,
		mesos.TASK_LOST:     job.Lost,
		mesos.TASK_GONE:     job.Lost,
	}
	for _, id := range n.taskIDs() {
		state := cmp.Or(states[n.tasks[id].reported], job.Running)
		list = append(list, sched.InspectedTask{TaskID: id, State: state})
	}
	return list
}

// namedTask is a task in the message with which an agent registers.
type namedTask struct {
	id        string
	resources []mesos.Resource
	reported  mesos.TaskState
}

func (n *agentNode) nameTasks() (named []namedTask) {
	for _, id := range n.taskIDs() {
		named = append(named, namedTask{id, n.tasks[id].resources, n.tasks[id].reported})
	}
	return named
}

// registered sends the unacknowledged statuses again.
func (n *agentNode) registered(c *connection) {
	if n.connection != c {
		return
	}
	n.ready = true
	n.world.note("agent registered", n.id, "", len(n.tasks))
	n.sendUpdates(n.updates.Unacknowledged(n.world.monotonic()))
}

func (n *agentNode) disconnected(c *connection) {
	n.world.master.agentDisconnected(c)
	if n.connection == c {
		n.connection, n.ready = nil, false
		n.world.after(n.world.between(500*time.Millisecond, 8*time.Second), "connect agent", n.connect)
	}
}

// maybeBreak breaks the connection to the master now and then, which loses messages.
func (n *agentNode) maybeBreak() {
	if n.connection != nil && n.world.chance(n.world.plan.breakAgent, "agent's connection broken") {
		n.connection.breakUp()
	}
}

func (n *agentNode) cutNetwork(length time.Duration) {
	n.cut.until = max(n.cut.until, n.world.now+length)
	n.connection.watch(length, n.world.plan.pingTimeout)
}

func (n *agentNode) healNetwork() { n.cut.until = min(n.cut.until, n.world.now) }

// restart restarts the agent's process. Its tasks run on, and it knows them again.
func (n *agentNode) restart() {
	if n.down {
		return
	}
	n.down = true
	if n.connection != nil {
		n.connection.breakUp()
	}
	for _, id := range slices.Sorted(maps.Keys(n.executors)) {
		if x := n.executors[id]; x.connection != nil {
			x.connection.breakUp()
		}
	}
	n.world.after(n.world.between(time.Second, 2*time.Minute), "agent starts", n.startAgain)
}

// wipe ends everything on a machine, which comes back as a new agent. Or it ends only what the agent knows: containers that an
// engine runs for its tasks are left.
func (n *agentNode) wipe() {
	n.restart()
	isLeft := !n.world.plan.executors && n.world.random.IntN(2) == 0
	for _, id := range n.taskIDs() {
		t := n.tasks[id]
		n.world.checks.taskVanished(id)
		if isLeft && !t.ended {
			t.lost = true
			n.leftovers = append(n.leftovers, t)
			continue
		}
		t.ended = true
	}
	for _, x := range n.executors {
		x.gone = true
	}
	n.tasks, n.updates, n.executors, n.id = map[string]*agentTask{}, newUpdateStreams(), map[string]*executorNode{}, ""
	n.lives++
}

func (n *agentNode) startAgain() {
	n.down = false
	for _, t := range n.leftovers {
		n.world.after(n.world.between(0, orphanDelay), "daemon ends container", func() { n.end(t, mesos.TASK_KILLED) })
	}
	if n.world.plan.executors {
		n.recoverExecutors()
		return
	}
	n.connect()
}

// orphanDelay is within which the daemon finds and ends containers that no executor owns.
const orphanDelay = 2 * time.Minute

// run starts a task.
func (n *agentNode) run(info *mesos.TaskInfo, resources []mesos.Resource) {
	w, id := n.world, info.TaskID.Value
	if n.tasks[id] != nil || n.down || info.AgentID.Value != n.id {
		return
	}
	if !resource.Contains(n.resources, resources) { // it was accepted before the GPU was repartitioned
		n.addStatus(id, mesos.TASK_DROPPED, mesos.REASON_INVALID_OFFERS, "the agent has other resources now")
		return
	}
	n.checkDevices(id, resources)
	if n.isHeldByLeftover(resources) {
		n.refuseByDaemon(id)
		return
	}
	t := &agentTask{id: id, resources: resources, reported: mesos.TASK_STAGING, grace: time.Duration(info.GetKillPolicy().GetGracePeriod().GetNanoseconds())}
	n.tasks[id] = t
	w.checks.taskStarted(id, n)
	if w.plan.executors {
		n.startExecutor(t, info)
		return
	}
	o := w.users.outcomeOf(id)
	w.after(w.between(10*time.Millisecond, 2*time.Second), "task starts", func() {
		if t.ended || t.lost {
			return
		}
		n.report(t, mesos.TASK_STARTING, "")
		n.report(t, mesos.TASK_RUNNING, "")
		if o.length > 0 {
			w.after(o.length, "task ends", func() { n.end(t, o.state) })
		}
	})
}

// checkDevices checks that no task of the machine uses what another one holds.
func (n *agentNode) checkDevices(id string, resources []mesos.Resource) {
	used, holders := [][]mesos.Resource{resources}, []string{}
	for _, other := range n.taskIDs() {
		if t := n.tasks[other]; !t.ended {
			used, holders = append(used, t.resources), append(holders, other)
		}
	}
	if resource.Overlaps(used...) || !resource.Contains(n.resources, resource.Sum(used...)) {
		n.world.failf("the scheduler placed %s on what one of %v holds on %s: %v", id, holders, n.host, used)
	}
}

// isHeldByLeftover reports whether a container that the agent does not know holds a GPU, or too much of one.
func (n *agentNode) isHeldByLeftover(resources []mesos.Resource) bool {
	isGPU := func(r mesos.Resource) bool { return strings.HasPrefix(r.Name, "gpu") }
	used := [][]mesos.Resource{slices.DeleteFunc(slices.Clone(resources), func(r mesos.Resource) bool { return !isGPU(r) })}
	for _, t := range n.leftovers {
		if !t.ended {
			used = append(used, slices.DeleteFunc(slices.Clone(t.resources), func(r mesos.Resource) bool { return !isGPU(r) }))
		}
	}
	return len(used) > 1 && (resource.Overlaps(used...) || !resource.Contains(n.resources, resource.Sum(used...)))
}

// refuseByDaemon reports that the daemon has refused the devices of a task.
func (n *agentNode) refuseByDaemon(id string) {
	n.world.fault("refused by the daemon")
	n.world.checks.taskRefused(id)
	fault := job.DeviceHeld
	s := mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: id}, State: mesos.TASK_FAILED.Enum(), Source: mesos.SOURCE_EXECUTOR.Enum(),
		UUID:   []byte(n.world.checks.newUUID(id, mesos.TASK_FAILED)),
		Labels: &mesos.Labels{Labels: []mesos.Label{{Key: job.MachineFaultLabel, Value: &fault}}},
	}
	n.addUpdate(s)
}

// end ends a task by itself or because it was killed.
func (n *agentNode) end(t *agentTask, state mesos.TaskState) {
	if t.ended {
		return
	}
	t.ended = true
	if t.lost {
		n.leftovers = slices.DeleteFunc(n.leftovers, func(other *agentTask) bool { return other == t })
		n.world.note("lost task ended", t.id, "", 0)
		return
	}
	n.world.checks.taskEnded(t.id, state)
	n.report(t, state, "exited with status "+strconv.Itoa(int(state)))
}

// kill kills a task after its grace period. A task that is not known has ended already.
func (n *agentNode) kill(id string, policy *mesos.KillPolicy) {
	if x := n.executors[id]; x != nil {
		n.killByExecutor(x, policy)
		return
	}
	t, force := n.tasks[id], policy != nil && policy.GracePeriod.GetNanoseconds() == 0
	if t == nil || t.ended || t.killed && !force {
		return
	}
	t.killed = true
	grace := n.world.between(0, t.grace)
	if force {
		grace = 0
	}
	n.world.after(grace, "task killed", func() { n.end(t, mesos.TASK_KILLED) })
}

// shutdownExecutor ends a task with its executor, unless the agent is not registered.
func (n *agentNode) shutdownExecutor(id string) {
	x := n.executors[id]
	switch {
	case !n.ready:
	case x == nil:
		n.kill(id, nil)
	case x.gone || x.final:
	case x.launched && x.stream != nil:
		n.toExecutor(x, executormsg.Event{Type: executormsg.Event_SHUTDOWN})
		fallthrough
	default:
		n.world.after(x.task.grace+shutdownMargin, "executor shut down", func() {
			if n.executors[id] == x && !x.gone {
				x.end(mesos.REASON_EXECUTOR_TERMINATED, "the executor was shut down")
			}
		})
	}
}

// shutdownMargin is by how much the shutdown grace period of an executor exceeds the kill grace period of its task.
const shutdownMargin = 5 * time.Second

// report adds a status to the task's stream.
func (n *agentNode) report(t *agentTask, state mesos.TaskState, message string) {
	t.reported = state
	n.addStatus(t.id, state, 0, message)
}

// addStatus adds a status that the agent itself makes. The reason is 0 for none.
func (n *agentNode) addStatus(task string, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string) {
	s := mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: task}, State: &state, Message: &message, Source: mesos.SOURCE_AGENT.Enum(),
		UUID: []byte(n.world.checks.newUUID(task, state)),
	}
	if reason != 0 {
		s.Reason = &reason
	}
	n.addUpdate(s)
}

// addUpdate stores a status. It is sent once the earlier ones of its task are acknowledged.
func (n *agentNode) addUpdate(s mesos.TaskStatus) {
	if n.world.plan.readers { // what a task reports may be secret
		name, _, _, _ := job.ParseTaskID(s.TaskID.Value)
		if strings.HasPrefix(name, appJobs) {
			name = strings.TrimSuffix(appJobs, ".")
		}
		s.Message = new(s.GetMessage() + " " + secret(name, "message"))
	}
	n.sendUpdates(n.updates.Add(n.world.monotonic(), updates.TaskKey{Task: s.TaskID.Value}, s))
}

// dropUnknown reports a task that never reached the agent.
func (n *agentNode) dropUnknown(id string) {
	if n.tasks[id] == nil && !n.updates.HasPending(updates.TaskKey{Task: id}) {
		n.addStatus(id, mesos.TASK_DROPPED, mesos.REASON_RECONCILIATION, "task unknown to the agent")
	}
}

// sendUpdates sends statuses, which are lost if the agent is not registered, and plans when they are repeated.
func (n *agentNode) sendUpdates(list []updates.PendingUpdate) {
	w := n.world
	for _, u := range list {
		if id := n.id; n.ready {
			n.connection.send(toMaster, "status update", func() { w.master.updateStatus(id, u.Status) })
			n.maybeBreak()
		}
	}
	next, pending := n.updates.NextDue()
	if !pending || !n.repeat.IsZero() && !n.repeat.After(next) {
		return
	}
	n.repeat = next
	w.after(next.Sub(w.monotonic()), "repeat updates", func() {
		if n.repeat.Equal(next) {
			n.repeat = time.Time{}
		}
		n.sendUpdates(n.updates.DueUpdates(w.monotonic()))
	})
}

// acknowledge removes a status and sends the next one of its task.
func (n *agentNode) acknowledge(id, uuid string) {
	key := updates.TaskKey{Task: id}
	_, next, ok := n.updates.Ack(n.world.monotonic(), key, []byte(uuid))
	if !ok {
		return
	}
	n.sendUpdates(next)
	if t := n.tasks[id]; t != nil && !n.updates.HasPending(key) && t.ended && events.IsTerminal(t.reported) {
		delete(n.tasks, id)
	}
}
