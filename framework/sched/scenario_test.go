package sched

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

var rewrite = flag.Bool("rewrite", false, "write what the scenarios print into testdata: commit it only if you understand each change")

// TestScenarios runs testdata/*.txt: blocks of commands, a line "----", and the State's answers. See
// scenarioRunner.runCommand for the commands.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playScenario(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// playScenario returns the script with the answers of a new State.
func playScenario(t *testing.T, text string) string {
	p := &scenarioRunner{
		t:        t,
		now:      time.Unix(1_700_000_000, 0).UTC(),
		ids:      map[string]string{},
		recorded: newRecordedState(),
		st:       New(SchedulerSettings{MaxAttempts: 3, MaxLiveTasks: 1000}, RecoveredState{}),
	}
	var out strings.Builder
	for i, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		commands, _, _ := strings.Cut(block, "\n----")
		if i > 0 {
			out.WriteString("\n")
		}
		out.WriteString(commands + "\n")
		if p.allComments(commands) {
			continue
		}
		p.out.Reset()
		for line := range strings.SplitSeq(commands, "\n") {
			if !strings.HasPrefix(line, "#") {
				p.runCommand(strings.Fields(line))
			}
		}
		p.runCycle()
		out.WriteString("----\n" + p.out.String())
	}
	return out.String()
}

type scenarioRunner struct {
	t        *testing.T
	now      time.Time
	st       *State
	started  bool           // st has handled an event
	recorded *recordedState // by st and those before it
	offers   []Offer
	ids      map[string]string // short task id → full id
	launched []placement.TaskLaunch
	// conflicts are the offers of what tasks hold, for the command "conflicts".
	conflicts []OfferConflict
	out       strings.Builder
}

func (p *scenarioRunner) allComments(block string) bool {
	for line := range strings.SplitSeq(block, "\n") {
		if !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// runCommand executes one command. Offers are delivered together, before the next other command or at the end of the
// block.
func (p *scenarioRunner) runCommand(words []string) {
	verb, args := words[0], words[1:]
	opt := options(args)
	if verb != "offer" {
		p.runCycle()
	}
	switch verb {
	case "predict": // only as the first command
		p.st = New(SchedulerSettings{MaxAttempts: 3, MaxLiveTasks: 1000, PredictRunTimes: true}, RecoveredState{})
	case "offer":
		p.offers = append(p.offers, p.parseOffer(args[0], opt))
	case "inverse":
		p.step(InverseOffersReceived{Offers: []InverseOffer{{ID: args[0], AgentID: opt["agent"], Start: p.now.Add(p.duration(opt["in"]))}}})
	case "policy":
		policy := p.st.cfg.Policy
		policy.Fit.Name = args[0]
		p.step(PolicyChanged{Policy: policy})
	case "roles": // before any event they are the scheduler's first roles, which the master learns from SUBSCRIBE
		if settings := p.st.cfg; !p.started {
			settings.Policy = p.parseRoles(args)
			p.st = New(settings, RecoveredState{})
			break
		}
		p.step(PolicyChanged{Policy: p.parseRoles(args)})
	case "limit":
		p.step(PolicyChanged{Policy: p.limitUsers(args[0], opt)})
	case "budget", "accounted", "budgets":
		p.runBudgetCommand(verb, args, opt)
	case "subscribed":
		p.step(Subscribed{FrameworkID: args[0]})
	case "disconnected":
		p.step(Disconnected{})
	case "submit":
		spec := p.parseSpec(args, opt)
		if err := p.st.Admit(&spec); err != nil {
			fmt.Fprintf(&p.out, "refused: %v\n", err)
		}
		p.step(SubmitJob{Spec: spec})
	case "scale":
		n, _ := strconv.Atoi(args[1])
		if err := p.st.AdmitScale(args[0], n); err != nil {
			fmt.Fprintf(&p.out, "refused: %v\n", err)
		}
		p.step(ScaleService{Job: args[0], Tasks: n})
	case "wake":
		p.step(EndBackoff{TaskIDs: []string{p.expandTaskID(args[0])}})
	case "stop":
		p.step(StopTasks{TaskIDs: []string{p.expandTaskID(args[0])}, Retire: slices.Contains(args, "retire")})
	case "connect":
		p.step(ClientConnected{Job: args[0]})
	case "disconnect":
		p.step(ClientDisconnected{Job: args[0]})
	case "forget":
		p.step(ForgetJob{Job: args[0]})
	case "kill":
		p.step(KillJob{Job: args[0], Force: slices.Contains(args, "force")})
	case "edit":
		spec := p.editedSpec(args[0], opt)
		if err := p.st.AdmitEdit(spec.Name, &spec); err != nil {
			fmt.Fprintf(&p.out, "refused: %v\n", err)
		}
		p.step(EditJob{Job: spec.Name, Spec: spec})
	case "hold", "release", "requeue":
		p.holdOrRequeue(verb, args, opt)
	case "update":
		p.step(p.parseUpdate(args, opt))
	case "accept-failed":
		p.step(AcceptFailed{TaskIDs: []string{p.expandTaskID(args[0])}})
	case "rescind":
		p.step(OfferRescinded{OfferID: args[0]})
	case "inspected": // AGENT TASK=STATE …: the agent answers the last question
		e := AgentInspected{AgentID: args[0], At: p.now}
		for _, id := range slices.Sorted(maps.Keys(opt)) {
			e.Tasks = append(e.Tasks, InspectedTask{TaskID: p.expandTaskID(id), State: job.State(opt[id])})
		}
		p.step(e)
	case "agent-lost":
		p.step(AgentLost{AgentID: args[0]})
	case "agent":
		n, _ := strconv.Atoi(opt["gpus"])
		p.step(AgentsListed{Agents: []Agent{{
			ID:       args[0],
			Hostname: opt["host"],
			GPUs:     n,
			Types:    list(opt["types"]),
			Total:    Amount{CPUs: float(opt["cpus"], 0), MemMiB: float(opt["mem"], 0)},
			Shared:   p.parseShared(opt["shared"]),
			Draining: slices.Contains(args, "draining"),
		}}})
	case "wait":
		p.now = p.now.Add(p.duration(args[0]))
		p.step(Tick{})
	case "reasons":
		reasons := p.st.PendingReasons()
		for _, j := range p.st.Jobs() {
			if r, ok := reasons[j.RunID()]; ok && !j.IsTerminal() {
				fmt.Fprintln(&p.out, r)
			}
		}
	case "conflicts":
		for _, c := range p.conflicts {
			fmt.Fprintf(&p.out, "%s offers %s, which task %s holds\n", c.Hostname, c.What, c.TaskID)
		}
	case "job":
		j, ok := p.st.Job(args[0])
		if !ok {
			fmt.Fprintf(&p.out, "no job %s\n", args[0])
			break
		}
		fmt.Fprintf(&p.out, "job %s %s exit %d", args[0], j.State(), j.ExitCode())
		if j.Spec.Service != nil {
			fmt.Fprintf(&p.out, " wants %d of %d", j.WantedTasks(), len(j.Tasks))
		}
		fmt.Fprintln(&p.out)
	case "task":
		task, _ := p.st.Task(p.expandTaskID(args[0]))
		health := "unknown"
		if task.Healthy != nil {
			health = map[bool]string{true: "healthy", false: "unhealthy"}[*task.Healthy]
		}
		fmt.Fprintf(&p.out, "task %s %s, health %s, check %q, message %q", args[0], task.State, health, task.Check, task.Message)
		if len(task.Addresses) > 0 {
			fmt.Fprintf(&p.out, ", at %s", strings.Join(task.Addresses, " and "))
		}
		fmt.Fprintln(&p.out)
	case "held":
		for _, j := range p.st.Jobs() {
			for i := range j.Tasks {
				if t := &j.Tasks[i]; t.State.IsPlaced() {
					fmt.Fprintf(&p.out, "%s.%d holds %v %v", j.Spec.Name, i, t.DeviceIDs, t.GPUTypes)
					for _, part := range t.Shares {
						part.Product = "" // that of the agent's inventory
						p.out.WriteString(strings.Replace(fmt.Sprintf(" %+v", shareText(part)), "Product: ", "", 1))
					}
					fmt.Fprintln(&p.out)
				}
			}
		}
	case "env":
		for _, l := range p.launched {
			env := l.Environment()
			for _, name := range slices.Sorted(maps.Keys(env)) {
				fmt.Fprintf(&p.out, "%s %s=%s\n", l.TaskID[:strings.LastIndex(l.TaskID, ".")], name, env[name])
			}
		}
	case "restart":
		cfg := p.st.cfg
		cfg.Policy.Roles = p.st.configuredRoles
		p.st = New(cfg, RecoveredState{p.st.FrameworkID(), p.st.Jobs(), p.st.Documents()})
	case "cordon", "drain":
		p.step(CordonHost{Host: args[0], Reason: strings.ReplaceAll(opt["reason"], "_", " "), Drain: verb == "drain"})
	case "uncordon":
		p.step(UncordonHost{Host: args[0]})
	case "half-life":
		p.setHalfLife(args)
	case "recent":
		for _, r := range p.st.RoleUsages() {
			fmt.Fprintf(&p.out, "%s half-life %s, recent %.3f", r.Name, r.HalfLife, r.Recent/quota.MilliPerGPU)
			for _, u := range r.Users {
				fmt.Fprintf(&p.out, ", %s %.3f", u.Name, u.Average/quota.MilliPerGPU)
			}
			fmt.Fprintln(&p.out)
		}
	case "quota":
		p.setQuota(args[0], args[1])
	case "mesos-quota":
		var q quota.MesosQuota
		if _, err := fmt.Sscanf(strings.Join(args, " "), "%s %d %d", &q.Role, &q.Limit, &q.Used); err != nil {
			p.t.Fatal(err)
		}
		p.step(MesosQuotasListed{Quotas: []quota.MesosQuota{q}})
	case "lineup":
		var names []string
		for _, run := range p.st.QueueOrder() {
			names = append(names, run.Name)
		}
		fmt.Fprintln(&p.out, strings.Join(names, " "))
	case "standings":
		for _, r := range p.st.RoleUsages() {
			fmt.Fprintf(&p.out, "%s may hold %q (set %t), holds %v, %d wait\n", r.Name, r.Quota, r.QuotaOverridden, r.Held, r.Waiting)
		}
	case "lacking":
		lacks, ok := p.st.UnmetDemand()
		if !ok {
			fmt.Fprintln(&p.out, "unknown yet")
		} else if young := p.st.RecentlyQueuedJobs(); len(young) > 0 {
			fmt.Fprintf(&p.out, "%v wait too shortly\n", young)
		}
		for _, l := range lacks {
			fmt.Fprintf(&p.out, "%d tasks of %v, roles %v, lack %s each, short of %v, %d GPUs in all, %g cpus and %g MiB, %v\n",
				l.Tasks, l.Jobs, l.Roles, l.Request, l.Missing, l.GPUs, l.Amount.CPUs, l.Amount.MemMiB, l.Constraints)
		}
	default:
		p.t.Fatalf("unknown command %q", verb)
	}
}

// editedSpec reads JOB role= priority= type= timeout= run= maxwait= retries= parallel= gpus= mem= and, for what cannot be edited, image=.
func (p *scenarioRunner) editedSpec(name string, opt map[string]string) job.Spec {
	spec := job.Spec{Name: name}
	if j, ok := p.st.Job(name); ok {
		spec = *j.Spec
	}
	for key, value := range opt {
		n, _ := strconv.Atoi(value)
		switch key {
		case "role":
			spec.Role = value
		case "priority":
			spec.Priority = n
		case "type":
			spec.Request.Types.Include = list(value)
		case "timeout":
			spec.Timeout = p.duration(value)
		case "run":
			spec.RunTime = p.duration(value)
		case "maxwait":
			spec.MaxWait = p.duration(value)
		case "retries":
			spec.Retries = n
		case "parallel":
			spec.MaxParallel = n
		case "gpus":
			spec.Request.GPUs = n
		case "mem":
			spec.MemMiB = float64(n)
		case "image":
			spec.Image = value
		default:
			p.t.Fatalf("edit %s: %s", name, key)
		}
	}
	return spec
}

// holdOrRequeue reads JOB, user=NAME or role=NAME with by=, reason=, and the words hold and drain.
func (p *scenarioRunner) holdOrRequeue(verb string, args []string, opt map[string]string) {
	reason := strings.ReplaceAll(opt["reason"], "_", " ")
	target := job.HoldTarget{Kind: job.HeldUser, Name: opt["user"]}
	role, isRole := opt["role"]
	if isRole {
		target = job.HoldTarget{Kind: job.HeldRole, Name: role}
	}
	isJob := !isRole && target.Name == ""
	err := p.st.AdmitHoldTarget(target)
	if isJob {
		err = p.st.AdmitHold(args[0])
	}
	if err != nil {
		fmt.Fprintf(&p.out, "refused: %v\n", err)
	}
	switch {
	case verb == "requeue":
		p.step(RequeueJob{Job: args[0], By: opt["by"], Reason: reason, Hold: slices.Contains(args, "hold")})
	case verb == "hold" && isJob:
		p.step(HoldJob{Job: args[0], By: opt["by"], Reason: reason})
	case verb == "hold":
		p.step(HoldJobsOf{Target: target, By: opt["by"], Reason: reason, Drain: slices.Contains(args, "drain")})
	case isJob:
		p.step(ReleaseJob{Job: args[0]})
	default:
		p.step(ReleaseJobsOf{Target: target})
	}
}

// setQuota reads TYPE=GPUS entries joined by +, "none" for no limits, or "file" for the configured quota.
// setHalfLife reads DURATION, for all roles, or ROLE DURATION.
func (p *scenarioRunner) setHalfLife(args []string) {
	if len(args) == 1 {
		p.st.cfg.HalfLife = p.duration(args[0])
		return
	}
	policy := p.st.cfg.Policy
	policy.Roles = slices.Clone(p.st.configuredRoles)
	policy.Roles[slices.IndexFunc(policy.Roles, func(r queue.Role) bool { return r.Name == args[0] })].HalfLife = p.duration(args[1])
	p.step(PolicyChanged{Policy: policy})
}

// limitUsers reads ROLE [user=NAME] gpus=V100:4+*:8 running= waiting=, or ROLE jobs= for the waiting jobs of the role, and
// returns the policy with these limits.
func (p *scenarioRunner) limitUsers(role string, opt map[string]string) Policy {
	gpus, err := quota.Parse(strings.NewReplacer("+", ",", ":", "=").Replace(opt["gpus"]))
	if err != nil {
		p.t.Fatal(err)
	}
	count := func(key string) int { n, _ := strconv.Atoi(opt[key]); return n }
	policy := p.st.cfg.Policy
	policy.Roles = slices.Clone(p.st.configuredRoles)
	r := &policy.Roles[slices.IndexFunc(policy.Roles, func(r queue.Role) bool { return r.Name == role })]
	limits := quota.UserLimits{GPUs: gpus, RunningJobs: count("running"), WaitingJobs: count("waiting")}
	switch {
	case opt["jobs"] != "":
		r.WaitingJobs = count("jobs")
	case opt["user"] != "":
		r.NamedUsers = maps.Clone(r.NamedUsers)
		if r.NamedUsers == nil {
			r.NamedUsers = map[string]quota.UserLimits{}
		}
		r.NamedUsers[opt["user"]] = limits
	default:
		r.EachUser = limits
	}
	if err := policy.Validate(); err != nil {
		p.t.Fatal(err)
	}
	return policy
}

func (p *scenarioRunner) setQuota(role, text string) {
	quota, err := quota.Parse(strings.ReplaceAll(strings.TrimPrefix(text, "none"), "+", ","))
	if text == "file" {
		quota, err = nil, nil
	}
	if err == nil {
		err = p.st.AdmitQuota(role)
	}
	if err != nil {
		fmt.Fprintf(&p.out, "refused: %v\n", err)
		return
	}
	p.step(SetQuota{Role: role, Quota: quota})
}

func (p *scenarioRunner) runCycle() {
	if len(p.offers) > 0 {
		offers := p.offers
		p.offers = nil
		p.step(OffersReceived{Offers: offers})
	}
}

// step prints the result of an event and of the Cycle after it: transitions first, because they are recorded first.
func (p *scenarioRunner) step(ev Event) {
	p.stepOne(ev)
	p.stepOne(Cycle{})
}

func (p *scenarioRunner) stepOne(ev Event) {
	p.started = true
	ops := p.st.Step(p.now, ev)
	for _, op := range ops {
		if a, ok := op.(AcceptOffers); ok {
			p.launched = append(p.launched, a.Launches...)
		}
	}
	changes := p.st.TakeChanges()
	p.conflicts = append(p.conflicts, changes.Conflicts...)
	p.recorded.apply(changes)
	p.recorded.compare(p.t, p.st, ev)
	for _, m := range changes.Transitions {
		short := m.TaskID[:strings.LastIndex(m.TaskID, ".")]
		p.ids[short] = m.TaskID
		fmt.Fprintln(&p.out, strings.TrimSpace(fmt.Sprintf("%s is %s %s", short, m.State, m.Message)))
	}
	text := ""
	for _, op := range ops {
		text += op.String() + "\n"
	}
	for short, id := range p.ids {
		text = strings.ReplaceAll(text, id, short)
	}
	p.out.WriteString(text)
}

func (p *scenarioRunner) expandTaskID(short string) string {
	if id, ok := p.ids[short]; ok {
		return id
	}
	return short
}

func options(args []string) map[string]string {
	opt := map[string]string{}
	for _, a := range args {
		if k, v, ok := strings.Cut(a, "="); ok {
			opt[k] = v
		}
	}
	return opt
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func float(s string, def float64) float64 {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return f
	}
	return def
}

func (p *scenarioRunner) duration(text string) time.Duration {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

// parseRoles reads NAME:WEIGHT:QUOTA:OPTIONS. The entries of the quota and the options (shortest, patience=, strict,
// policy=, deserved=) are joined by +, the entries of deserved= by /. cpus and mem (in MiB) are entries of deserved=.
func (p *scenarioRunner) parseRoles(args []string) Policy {
	var roles []queue.Role
	for _, a := range args {
		part := strings.SplitN(a+":::", ":", 5)
		limit, err := quota.Parse(strings.ReplaceAll(part[2], "+", ","))
		if err != nil {
			p.t.Fatal(err)
		}
		settings := strings.Split(part[3], "+")
		opt := options(settings)
		r := queue.Role{
			Name:      part[0],
			Weight:    float(part[1], 0),
			Quota:     limit,
			Strict:    slices.Contains(settings, "strict"),
			Patience:  p.duration(opt["patience"]),
			FitPolicy: opt["policy"],
		}
		if opt["deserved"] != "" {
			var types []string
			for _, entry := range strings.Split(opt["deserved"], "/") {
				if name, n, _ := strings.Cut(entry, "="); !slices.Contains(quota.HostResources(), name) {
					types = append(types, entry)
				} else {
					if r.DeservedHost == nil {
						r.DeservedHost = quota.HostQuota{}
					}
					r.DeservedHost[name] = float(n, 0)
				}
			}
			if r.Deserved, err = quota.Parse(strings.Join(types, ",")); err != nil {
				p.t.Fatal(err)
			}
		}
		if slices.Contains(settings, "shortest") {
			r.Order = queue.ShortestFirst
		}
		roles = append(roles, r)
	}
	policy := Policy{Policy: placement.Policy{Roles: roles}}
	if err := policy.Validate(); err != nil {
		p.t.Fatal(err)
	}
	return policy
}

// shareText prints all fields of a share.
type shareText gpu.DeviceShare

// parseShared reads GPU-a:MIB:PERCENT,…
func (p *scenarioRunner) parseShared(text string) (all []SharedDevice) {
	for _, d := range list(text) {
		part := strings.Split(d, ":")
		all = append(all, SharedDevice{UUID: part[0], MemMiB: int64(float(part[1], 0)), Cores: int(float(part[2], 0))})
	}
	return all
}

// parseShare reads 3072, 30% or nothing, and cores.
func parseShare(memory, cores string) (s gpu.ShareRequest) {
	s.Cores = int(float(cores, 0))
	if percent, ok := strings.CutSuffix(memory, "%"); ok {
		s.MemPercent = int(float(percent, 0))
	} else {
		s.MemMiB = int64(float(memory, 0))
	}
	return s
}

// parseOffer reads agent=A gpus=N ids=GPU-a,… types=V100,…
// have=GPU-a:V100[:MIB[:GPU of the MIG device]],… shared=GPU-a:MIB:PERCENT,… role=R ports=FIRST-LAST away=DURATION
// driver=VERSION reserved=yes or both rack=R limit=METHOD
func (p *scenarioRunner) parseOffer(id string, opt map[string]string) Offer {
	o := Offer{
		ID: id, AgentID: opt["agent"], Hostname: opt["agent"] + ".example", AgentURL: "http://" + opt["agent"],
		Free:  Amount{CPUs: float(opt["cpus"], 16), MemMiB: float(opt["mem"], 65536), DiskMiB: float(opt["disk"], 10000)},
		Types: list(opt["types"]), DeviceIDs: list(opt["ids"]), GPUs: len(list(opt["ids"])), Shared: p.parseShared(opt["shared"]),
	}
	if n, err := strconv.Atoi(opt["gpus"]); err == nil {
		o.GPUs = n
	}
	o.Role = opt["role"]
	if first, last, ok := strings.Cut(opt["ports"], "-"); ok {
		o.Ports = []PortRange{{First: int(float(first, 0)), Last: int(float(last, 0))}}
	}
	if opt["away"] != "" {
		o.Unavailable = p.now.Add(p.duration(opt["away"]))
	}
	o.Driver = opt["driver"]
	o.Reserved, o.Unreserved = opt["reserved"] != "", opt["reserved"] != "yes"
	for key, name := range map[string]string{"rack": "rack", "limit": "gpu_share_limit"} {
		if opt[key] != "" {
			o.Attributes = append(o.Attributes, Attribute{Name: name, Value: opt[key]})
		}
	}
	for i, d := range list(opt["have"]) {
		part := strings.Split(d+":::", ":")
		device := gpu.Device{UUID: part[0], Model: part[1], MemMiB: int64(float(part[2], 0)), Minor: i}
		if part[3] != "" {
			device.MIG = &gpu.MIG{Parent: part[3]}
		}
		o.Inventory = append(o.Inventory, device)
	}
	return o
}

// parseSpec reads NAME tasks=N gpus=N share=MIB or PERCENT% cores=N type=…
// not=… uuid=… not-uuid=… cpus= mem= disk= role=
// priority= owner= retries= ports= run= timeout= maxwait= minrun= preempt= grace= warn= where=FIELD:OP:VALUE
// names= host=PORT,… group= backoff= replace= parallel=N after=JOB[:STATE],… lr=VALUE,… (a matrix) and the words gang,
// same (one GPU type), preemptible, guaranteed, service and requeue (at the timeout).
func (p *scenarioRunner) parseSpec(args []string, opt map[string]string) job.Spec {
	name := args[0]
	tasks, _ := strconv.Atoi(opt["tasks"])
	gpus, _ := strconv.Atoi(opt["gpus"])
	s := job.Spec{
		Name:    name,
		Tasks:   tasks,
		CPUs:    float(opt["cpus"], 1),
		MemMiB:  float(opt["mem"], 256),
		DiskMiB: float(opt["disk"], 0),
		Request: gpu.Request{
			GPUs:    gpus,
			Types:   gpu.TypeSelector{Include: list(opt["type"]), Exclude: list(opt["not"]), Same: slices.Contains(args, "same")},
			Share:   parseShare(opt["share"], opt["cores"]),
			Devices: gpu.DeviceSelector{Include: list(opt["uuid"]), Exclude: list(opt["not-uuid"])},
		},
		Command:     []string{"true"},
		Role:        opt["role"],
		Priority:    int(float(opt["priority"], 0)),
		Retries:     int(float(opt["retries"], 0)),
		Container:   job.Container{Ports: make([]job.Port, int(float(opt["ports"], 0)))},
		RunTime:     p.duration(opt["run"]),
		Timeout:     p.duration(opt["timeout"]),
		IdleTimeout: p.duration(opt["idle"]),
		MaxWait:     p.duration(opt["maxwait"]),
		KillGrace:   p.duration(opt["grace"]),
		Gang:        slices.Contains(args, "gang"),
		Preemptible: slices.Contains(args, "preemptible"),
		Guaranteed:  slices.Contains(args, "guaranteed"),
	}
	if slices.Contains(args, "service") {
		s.Service = &job.Service{ReplaceAfter: p.duration(opt["replace"])}
		s.Service.Backoff.Initial = p.duration(opt["backoff"])
	}
	s.Owner = opt["owner"]
	if opt["warn"] != "" {
		s.Warn = &job.Warning{Signal: "USR1", Before: p.duration(opt["warn"])}
	}
	s.PreemptAfter = p.duration(opt["preempt"])
	if s.MinRunTime = p.duration(opt["minrun"]); slices.Contains(args, "requeue") {
		s.OnTimeout = job.RequeueOnTimeout
	}
	s.Group, s.MaxParallel = opt["group"], int(float(opt["parallel"], 0))
	for _, d := range list(opt["after"]) {
		name, outcome, _ := strings.Cut(d, ":")
		s.After = append(s.After, job.Dependency{Job: name, Outcome: job.DependencyOutcome(outcome)})
	}
	if opt["lr"] != "" {
		s.Matrix = &job.Matrix{Axes: []job.MatrixAxis{{Name: "lr", Values: list(opt["lr"])}}}
	}
	for i, name := range list(opt["names"]) {
		s.Ports[i].Name = name
	}
	for i, port := range list(opt["host"]) {
		s.Ports[i].Host = int(float(port, 0))
	}
	if opt["where"] != "" {
		c, err := job.NewConstraint(strings.Split(opt["where"], ":")...)
		if err != nil {
			p.t.Fatal(err)
		}
		s.Constraints = []job.Constraint{c}
	}
	s.SetDefaults()
	return s
}

// parseUpdate reads TASK STATE with exit=N, message=a_b_c, unfit=driver or gpu,
// healthy=true or false, check=a_b_c, "silent" for an update without uuid and
// "reconciled".
func (p *scenarioRunner) parseUpdate(args []string, opt map[string]string) TaskUpdate {
	u := TaskUpdate{
		TaskID:       p.expandTaskID(args[0]),
		AgentID:      "a",
		State:        job.State(args[1]),
		UUID:         []byte{1},
		Message:      strings.ReplaceAll(opt["message"], "_", " "),
		Mismatch:     ImageMismatch(opt["unfit"]),
		Proof:        EndProof(strings.ReplaceAll(opt["proof"], "_", " ")),
		MachineFault: opt["fault"],
	}
	if code, err := strconv.Atoi(opt["exit"]); err == nil {
		u.ExitCode = &code
	}
	if healthy, err := strconv.ParseBool(opt["healthy"]); err == nil {
		u.Healthy = &healthy
	}
	u.Check, u.Addresses = strings.ReplaceAll(opt["check"], "_", " "), list(opt["at"])
	for _, a := range args[2:] {
		switch a {
		case "silent":
			u.UUID = nil
		case "drained":
			u.Drained = true
		case "reconciled":
			u.UUID, u.Reconciled = nil, true
		}
	}
	return u
}
