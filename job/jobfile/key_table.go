package jobfile

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// jobFormat is the job file's language. Reading, writing, the JSON Schema, the
// flags of mesos-gpu run, mesos-gpu explain and the table of docs/job-file.md
// all come from this table; a key is written in its order.
var jobFormat = sync.OnceValue(func() format[job.Spec] { return object(jobKeys()...) })

func jobKeys() []field[job.Spec] {
	type spec = job.Spec
	return []field[spec]{
		key("name", word("^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"), func(s *spec) *string { return &s.Name },
			"1 to 63 letters, digits, `.`, `-`, `_`; no two live jobs share one").withDefault("required").needed().
			withFlag(Flag{Name: "name", Usage: "the job's name; left out, one is made up"}),
		key("tasks", positiveCount(job.MaxTasks), func(s *spec) *int { return &s.Tasks },
			"how many equal tasks; each gets the resources below").withDefault("1").writtenIf(func(s *spec) bool { return s.Matrix == nil }).
			withFlag(Flag{Name: "tasks", Kind: IntFlag, Default: "1", Usage: "equal tasks"}),
		key("matrix", matrix(), func(s *spec) **job.Matrix { return &s.Matrix },
			"a task for each [combination](#matrices) of values: `{lr: [0.1, 0.01], seed: [1, 2, 3]}`, with `include` and `exclude`").withDefault("none"),
		key("max_parallel", positiveCount(job.MaxTasks).withFlags(flagReadBy(Flag{Name: "max-parallel", Kind: IntFlag, Usage: "how many of the tasks hold places at a time; 0 is all"}, readCount)),
			func(s *spec) *int { return &s.MaxParallel },
			"how many of the tasks hold places at a time").withDefault("all"),
		key("gpus", gpuCount(), func(s *spec) *int { return &s.Request.GPUs },
			"GPUs for each task, whole unless `share` says what part of each").withDefault("0, with `share` 1").
			withFlag(Flag{Name: "gpus", Kind: IntFlag, Usage: "GPUs for each task, whole unless --gpu-memory or --gpu-cores says what part of each"}),
		key("share", share(), func(s *spec) *gpu.Request { return &s.Request },
			"a [part of each GPU](#shares): `{memory: 4GiB, cores: 30}`").withDefault("all of it"),
		key("gpu_type", typeSelector(), func(s *spec) *gpu.TypeSelector { return &s.Request.Types },
			"a type (`V100`), a list of types, or `{include: […], exclude: […]}`; a type is the short name (`A100`) or the exact product name (`NVIDIA A100-SXM4-80GB`), in any case").withDefault("any"),
		key("gpu_uuid", deviceSelector(), func(s *spec) *gpu.DeviceSelector { return &s.Request.Devices },
			"devices that will do, by UUID: one, a list, or `{include: […], exclude: […]}`").withDefault("any"),
		key("gpu_mem", wholeSize(), func(s *spec) *int64 { return &s.Request.MinMemMiB },
			"memory each device has at least, as `40GiB`").
			withFlag(Flag{Name: "gpu-mem", Usage: "memory each GPU has at least, such as 40GiB"}),
		key("gpu_driver", word(versionPattern), func(s *spec) *string { return &s.Request.MinDriver },
			"the oldest driver that will do, as `\"535.104\"`").withDefault("any").
			withFlag(Flag{Name: "gpu-driver", Usage: "oldest driver version that will do"}),
		key("gpu_cuda", word(versionPattern), func(s *spec) *string { return &s.Request.MinCUDA },
			"the oldest CUDA version that the driver must serve, as `\"12.2\"`").withDefault("any").
			withFlag(Flag{Name: "gpu-cuda", Usage: "oldest CUDA version that the driver must serve"}),
		key("gpu_topology", oneOf(gpu.AllTopologies()...), func(s *spec) *gpu.Topology { return &s.Request.Topology },
			"`nvlink`: a task's devices reach one another over NVLinks among them; `same-numa`: they are on one NUMA node; `any`").withDefault("`any`").
			withFlag(Flag{Name: "gpu-topology", Usage: "how a task's GPUs hang together: any, nvlink or same-numa"}),
		key("cpus", number(), func(s *spec) *float64 { return &s.CPUs },
			"CPUs, fractions allowed").withDefault("1").alwaysWritten().
			withFlag(Flag{Name: "cpus", Kind: FloatFlag, Default: fmt.Sprint(job.DefaultCPUs), Usage: "CPUs for each task"}),
		key("mem", size(), func(s *spec) *float64 { return &s.MemMiB },
			"memory, as `512MiB`, `4GiB`, `1.5GB`; a bare number is MiB").withDefault("256MiB").alwaysWritten().
			withFlag(Flag{Name: "mem", Default: fmt.Sprintf("%dMiB", job.DefaultMemMiB), Usage: "memory for each task, in KiB, MiB, GiB, TiB, MB, GB or TB; a bare number is MiB"}),
		key("disk", size(), func(s *spec) *float64 { return &s.DiskMiB },
			"disk, in the same words").withDefault("none").
			withFlag(Flag{Name: "disk", Usage: "disk for each task, such as 10GiB"}),
		key("limits", resourceLimits(), func(s *spec) *job.ResourceLimits { return &s.Limits },
			"what the task may use beyond that: `{cpus: 4, mem: 8GiB}`, or `unlimited` for either; it is sure of `cpus` and `mem` alone").withDefault("no more"),
		key("constraints", constraintList().withFlags(appendFlag(Flag{Name: "constraint", Kind: RepeatedFlag, Usage: "which agents will do, as Marathon has it: 'hostname UNIQUE', 'rack LIKE r[12]'"}, job.ParseConstraint)),
			func(s *spec) *[]job.Constraint { return &s.Constraints },
			"which agents will do, in [Marathon's terms](https://mesosphere.github.io/marathon/docs/constraints.html): `[[hostname, UNIQUE], [rack, LIKE, \"r[12]\"]]`, or each in one line"),
		key("container", oneOf(job.Docker, job.Mesos), func(s *spec) *job.Containerizer { return &s.Containerizer },
			"`docker` (the Docker engine) or `mesos` (Mesos's own containers)").withDefault("`docker` with an image, else `mesos`").
			withFlag(Flag{Name: "container", Usage: "docker or mesos; docker where there is an image"}),
		key("image", word(""), func(s *spec) *string { return &s.Image },
			"a container image").withDefault("none: the agent's own file system").
			withFlag(Flag{Name: "image", Usage: "container image; left out, the agent's own file system"}),
		key("force_pull", boolean().withFlags(choiceFlag(Flag{Name: "pull", Default: "missing", Usage: "always: fetch the image anew for each attempt; or missing"}, "always", func(to *bool) { *to = true }, "")),
			func(s *spec) *bool { return &s.ForcePull },
			"`true`: the image is fetched anew for each attempt").withDefault("`false`"),
		key("entrypoint", word(""), func(s *spec) *string { return &s.Entrypoint },
			"replaces the image's; `command` then is its arguments").withDefault("the image's").
			withFlag(Flag{Name: "entrypoint", Usage: "replaces the image's; the command is then its arguments"}),
		key("image_entrypoint", boolean(), func(s *spec) *bool { return &s.ImageEntrypoint },
			"`true`: the image's own entrypoint gets `command` as its arguments, as it does with `docker` anyway; otherwise `command` takes its place with `mesos`").withDefault("`false`"),
		key("command", commandLine(), func(s *spec) *[]string { return &s.Command },
			"a list of arguments, or one line for `/bin/sh -c`; may be left out where the image brings its own"),
		key("user", word(""), func(s *spec) *string { return &s.User },
			"whom the task runs as: a name, or for `docker` also `UID` or `UID:GID`").withDefault("the image's, or without one the framework's").
			withFlag(Flag{Name: "user", Shorthand: "u", Usage: "whom the task runs as, as NAME, UID or UID:GID (default the image's)"}),
		key("env", pairs(anyWordSchema()).withSchema("propertyNames", valueSchema{"pattern": "^[^=]+$"}).
			withFlags(assignmentsFlag(Flag{Name: "env", Shorthand: "e", Kind: RepeatedFlag, Usage: "NAME=value for the task's environment"}, "")),
			func(s *spec) *map[string]string { return &s.Env },
			"`NAME: value` pairs; a name is anything without an equals sign, such as `node.name`"),
		key("secrets", pairs(wordSchema(secretPattern)).withSchema("propertyNames", valueSchema{"pattern": variablePattern}).
			withFlags(assignmentsFlag(Flag{Name: "secret", Kind: RepeatedFlag, Usage: "NAME=KEY: a variable whose value the agent keeps under that name for the job's role"}, ": the value is the secret's name on the agent, never the secret")),
			func(s *spec) *map[string]string { return &s.Secrets },
			"variables with [secrets](#secrets) that the agents keep: `NAME: name/of/the/secret` pairs").withDefault("none"),
		key("fetch", fetchList(), func(s *spec) *[]job.FetchArtifact { return &s.Fetch },
			"files that are put into the sandbox before the task starts: `[https://example.org/model.tar.gz]`, or `{uri, path, extract, executable, cache}`; a URI may be a path of the agent").withDefault("none"),
		key("volumes", volumeList(), func(s *spec) *[]job.Volume { return &s.Volumes },
			"what the container sees beside its image and sandbox: `[\"/data:/data:ro\", \"scratch:/scratch\"]`, or `{source, target, read_only, driver}`. A source is a path of the agent, where the [scheduler's operator allows it](scheduling.md#what-a-job-may-have-of-its-agents), or a volume of its Docker engine").withDefault("none"),
		key("shm_size", size(), func(s *spec) *float64 { return &s.ShmMiB },
			"size of `/dev/shm`, which counts as the task's memory").withDefault("as much as `mem`").
			withFlag(Flag{Name: "shm-size", Usage: "size of /dev/shm, such as 8GiB; it counts as memory"}),
		key("ipc", oneOf(job.PrivateIPC, job.HostIPC), func(s *spec) *job.IPCMode { return &s.IPC },
			"`private`, or `host`: the agent's shared memory and semaphores, where its operator and the scheduler's allow it").withDefault("`private`").
			withFlag(Flag{Name: "ipc", Usage: "private or host"}),
		key("ulimits", ulimits(), func(s *spec) *[]job.Ulimit { return &s.Ulimits },
			"resource limits by their names of setrlimit(2): `{memlock: unlimited, nofile: 65536, stack: \"8388608:16777216\"}`, the soft limit before the hard one, in the kernel's units").withDefault("the agent's"),
		key("network", text[job.NetworkMode](wordSchema("")), func(s *spec) *job.NetworkMode { return &s.Network },
			"`host`, `bridge`, `none` or the name of a network of the agents' Docker engines").withDefault("`host`").
			withFlag(Flag{Name: "network", Usage: "host, bridge, none or a network of the agents' Docker engines (default host)"}),
		key("ports", portList(), func(s *spec) *[]job.Port { return &s.Ports },
			"host ports for each task, told as `PORT0`, `PORT1`, …: how many, or a list of the container's own that they lead to, as `[8080, \"9090/udp\"]`, or `{name, container, host, protocol}`. [`host`](#host-ports), or `\"80:8080\"`, names the host port too").withDefault("0"),
		key("parameters", parameterList(), func(s *spec) *[]job.DockerParameter { return &s.Parameters },
			"options of `docker run`, those that the [executor](executor.md) lists and no others: `[\"hostname=web\", \"cap-add=IPC_LOCK\"]`, or `{key, value}`").withDefault("none"),
		key("labels", pairs(anyWordSchema()).withFlags(assignmentsFlag(Flag{Name: "label", Shorthand: "l", Kind: RepeatedFlag, Usage: "NAME=value, for people and their tools"}, "")),
			func(s *spec) *map[string]string { return &s.Labels },
			"`NAME: value` pairs that the master, the agent and the Docker engine show"),
		key("health_check", healthCheckList(), func(s *spec) *job.Container { return &s.Container },
			"a [check](#checks) that ends a task which fails it too often, or a list of up to 20: the task is healthy by all of them").withDefault("none"),
		key("check", optional(generalCheck()), func(s *spec) **job.Check { return &s.Check },
			"a [check](#checks) that only tells what it finds").withDefault("none"),
		key("service", service(), func(s *spec) **job.Service { return &s.Service },
			"`true`, or `{backoff, backoff_factor, backoff_max, replace_after}`: the tasks are [kept running](#services) until somebody ends the job").withDefault("`false`"),
		key("group", word(""), func(s *spec) *string { return &s.Group },
			"constraints such as `UNIQUE` count the tasks of all jobs of the role with the same group, such as the versions of one service").withDefault("the job alone"),
		key("role", word(""), func(s *spec) *string { return &s.Role },
			"the Mesos role whose offers and quota the job uses").withDefault("the scheduler's first").
			withFlag(Flag{Name: "role", Usage: "Mesos role whose offers and quota the job uses"}),
		key("priority", count(-job.MaxPriority, job.MaxPriority), func(s *spec) *int { return &s.Priority },
			"orders the jobs of one role, the highest first").withDefault("0").
			withFlag(Flag{Name: "priority", Kind: IntFlag, Usage: "jobs of one role go by priority, the highest first"}),
		key("preemptible", boolean(), func(s *spec) *bool { return &s.Preemptible },
			"`true`: a job of higher priority may have the task's place; it is stopped with its `kill_grace` and queued again").withDefault("`false`").
			withFlag(Flag{Name: "preemptible", Kind: BoolFlag, Usage: "tasks may be stopped and queued again for a job of higher priority"}),
		key("gang", boolean(), func(s *spec) *bool { return &s.Gang },
			"`true`: the tasks start together or not at all").withDefault("`false`").
			withFlag(Flag{Name: "gang", Kind: BoolFlag, Usage: "tasks start together or not at all"}),
		key("retries", count(0, job.MaxRetries), func(s *spec) *int { return &s.Retries },
			"how often a task that failed is tried again, after pauses that grow; in a gang all tasks start anew and share the number").withDefault("0").
			withFlag(Flag{Name: "retries", Kind: IntFlag, Usage: "how often a task that failed is tried again"}),
		key("timeout", duration(), func(s *spec) *time.Duration { return &s.Timeout },
			"how long a task may run; then it is stopped and has failed").
			withFlag(Flag{Name: "timeout", Kind: DurationFlag, Usage: "how long a task may run"}),
		key("run_time", duration(), func(s *spec) *time.Duration { return &s.RunTime },
			"how long a task is expected to run: a job that ends in time may go before a large one that waits").withDefault("the `timeout`").
			withFlag(Flag{Name: "run-time", Kind: DurationFlag, Usage: "how long a task is expected to run: short jobs may go before large ones that wait"}),
		key("max_wait", duration(), func(s *spec) *time.Duration { return &s.MaxWait },
			"how long the job may wait for its first start; then it has failed").
			withFlag(Flag{Name: "max-wait", Kind: DurationFlag, Usage: "how long the job may wait for its first start"}),
		key("after", dependencyList(), func(s *spec) *[]job.Dependency { return &s.After },
			"jobs that must have [ended](#after-other-jobs) first: `[prepare]`, or `{job, state}`").withDefault("none"),
		key("schedule", optional(schedule()), func(s *spec) **job.Schedule { return &s.Schedule },
			"[when](#schedules) to run such a job again and again: `\"0 3 * * *\"`, or `{cron, time_zone, overlap, history}`").withDefault("once, now"),
		key("kill_grace", duration(), func(s *spec) *time.Duration { return &s.KillGrace },
			"time between SIGTERM and SIGKILL, as `10s` or `2m`").withDefault("`5s`").alwaysWritten().
			withFlag(Flag{Name: "kill-grace", Kind: DurationFlag, Default: job.DefaultKillGrace.String(), Usage: "how long a task may take to end by itself (SIGTERM) before it is ended (SIGKILL)"}),
	}
}

// gpuCount suggests share where a fraction of a GPU is asked for.
func gpuCount() format[int] {
	f := count(0, job.MaxGPUs)
	f.read = readGPUs
	return f
}

// share sets the share of a request, and may set its number of GPUs.
func share() format[gpu.Request] {
	memory := format[gpu.ShareRequest]{
		read: readShareMemory,
		write: func(v gpu.ShareRequest) any {
			if v.MemPercent > 0 {
				return fmt.Sprintf("%d%%", v.MemPercent)
			}
			return formatSize(float64(v.MemMiB))
		},
		schema: valueSchema{"type": []string{"number", "string"}, "exclusiveMinimum": 0, "pattern": "^(" + sizePattern + "|" + percentPattern + ")$"},
	}
	return object(
		key("memory", memory, func(r *gpu.Request) *gpu.ShareRequest { return &r.Share },
			"memory of each GPU: `4GiB`, or `30%` of what it has").
			withFlag(Flag{Name: "gpu-memory", Usage: "a part of each GPU instead of all of it: memory, such as 4GiB or 30%"}),
		key("cores", count(0, gpu.AllCores), func(r *gpu.Request) *int { return &r.Share.Cores },
			"compute of each GPU, in percent from 1 to 100; 0 is no bound").
			withFlag(Flag{Name: "gpu-cores", Kind: IntFlag, Usage: "a part of each GPU instead of all of it: compute in percent; 100 is a shared GPU to oneself"}),
		key("gpus", positiveCount(job.MaxGPUs), func(r *gpu.Request) *int { return &r.GPUs },
			"how many GPUs to have such a part of, in place of `gpus`").neverWritten(),
	).withSchema("anyOf", []valueSchema{{"required": []string{"memory"}}, {"required": []string{"cores"}}}).
		checked(func(_ *yaml.Node, r *gpu.Request) error {
			if r.Share.IsWhole() {
				return errors.New("needs memory, cores or both")
			}
			return nil
		})
}

func typeSelector() format[gpu.TypeSelector] {
	include := func(t *gpu.TypeSelector) *[]string { return &t.Include }
	return selector(
		key("include", wordList().withFlags(wordsFlag(Flag{Name: "gpu-type", Kind: ListFlag, Usage: "GPU types that will do, such as V100,A100"})), include,
			"types that will do: one or a list"),
		key("exclude", wordList().withFlags(wordsFlag(Flag{Name: "not-gpu-type", Kind: ListFlag, Usage: "GPU types that will not do"})),
			func(t *gpu.TypeSelector) *[]string { return &t.Exclude },
			"types that will not do: one or a list"),
		include)
}

func deviceSelector() format[gpu.DeviceSelector] {
	include := func(d *gpu.DeviceSelector) *[]string { return &d.Include }
	return selector(
		key("include", wordList().withFlags(wordsFlag(Flag{Name: "gpu-uuid", Kind: ListFlag, Usage: "GPUs that will do, by UUID"})), include,
			"devices that will do, by UUID: one or a list"),
		key("exclude", wordList().withFlags(wordsFlag(Flag{Name: "not-gpu-uuid", Kind: ListFlag, Usage: "GPUs that will not do, by UUID"})),
			func(d *gpu.DeviceSelector) *[]string { return &d.Exclude },
			"devices that will not do, by UUID: one or a list"),
		include)
}

func resourceLimits() format[job.ResourceLimits] {
	return object(
		key("cpus", orUnlimited(number()), func(l *job.ResourceLimits) *float64 { return &l.CPUs },
			"CPUs the task may use where others leave them: a number above `cpus`, or `unlimited`"),
		key("mem", orUnlimited(size()), func(l *job.ResourceLimits) *float64 { return &l.MemMiB },
			"memory the task may use where others leave it: a size above `mem`, or `unlimited`"),
	)
}

// service is true, or how the tasks are kept running.
func service() format[*job.Service] {
	f := optional(object(
		key("backoff", positiveDuration(), func(v *job.Service) *time.Duration { return &v.Backoff.Initial },
			"the pause before a task is started again").alwaysWritten(),
		key("backoff_factor", number(), func(v *job.Service) *float64 { return &v.Backoff.Factor },
			"by how much the pause grows each time").alwaysWritten(),
		key("backoff_max", positiveDuration(), func(v *job.Service) *time.Duration { return &v.Backoff.Max },
			"the longest pause").alwaysWritten(),
		key("replace_after", replaceAfter(), func(v *job.Service) *time.Duration { return &v.ReplaceAfter },
			"how long an agent may be away before its tasks are started elsewhere; `never`: they wait for it"),
	))
	long := f.read
	f.read = func(n *yaml.Node, to **job.Service) error {
		if n.Kind != yaml.ScalarNode {
			return long(n, to)
		}
		var enabled bool
		if err := readFlag(n, &enabled); err != nil {
			return fmt.Errorf("%w, nor keys such as {backoff: 1s}", err)
		}
		if enabled {
			*to = &job.Service{}
		}
		return nil
	}
	f.schema = eitherSchema(flagSchema(), f.schema)
	return f.withFlags(choiceFlag(Flag{Name: "restart", Default: "no", Usage: "always: a service, whose tasks are started again whatever ends them; or no"},
		"always", func(to **job.Service) { *to = &job.Service{} }, ": --retries says how often a task that failed is tried again"))
}

func replaceAfter() format[time.Duration] {
	return format[time.Duration]{
		read: readReplaceAfter,
		write: func(v time.Duration) any {
			if v < 0 {
				return neverText
			}
			return v
		},
		schema: eitherSchema(enumSchema(neverText), durationSchema()),
	}
}

// dependencyList is a job's name, or a list of names and of {job, state}.
func dependencyList() format[[]job.Dependency] {
	one := object(
		key("job", word(""), func(d *job.Dependency) *string { return &d.Job },
			"the job's name").needed(),
		key("state", oneOf(job.OutcomeFinished, job.OutcomeEnded, job.OutcomeFailed), func(d *job.Dependency) *job.DependencyOutcome { return &d.Outcome },
			"`finished`, `ended` in whatever way, or `failed`; left out, `finished`"),
	).orShort(func(n *yaml.Node, d *job.Dependency) error { return readText(n, &d.Job) }, wordSchema(""))
	f := listOf("[prepare]", one)
	list := f.read
	f.read = func(n *yaml.Node, to *[]job.Dependency) error {
		if n.Kind == yaml.ScalarNode {
			n = &yaml.Node{Kind: yaml.SequenceNode, Line: n.Line, Content: []*yaml.Node{n}}
		}
		if len(n.Content) == 0 {
			return errors.New("needs jobs, for example [prepare]")
		}
		return list(n, to)
	}
	f.schema = eitherSchema(wordSchema(""), listSchema(1, one.schema))
	return f.withFlags(appendFlag(Flag{Name: "after", Kind: ListFlag, Usage: "jobs that must have finished first, or JOB:ended, JOB:failed"}, func(text string) (job.Dependency, error) {
		name, outcome, _ := strings.Cut(text, ":")
		return job.Dependency{Job: name, Outcome: job.DependencyOutcome(outcome)}, nil
	}))
}

func schedule() format[job.Schedule] {
	return object(
		key("cron", word(""), func(v *job.Schedule) *string { return &v.Cron },
			"minute, hour, day, month and day of the week, as `0 3 * * mon-fri`; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`").needed(),
		key("time_zone", word(""), func(v *job.Schedule) *string { return &v.TimeZone },
			"the zone of these times, as `Europe/Berlin`; left out, UTC"),
		key("overlap", oneOf(job.SkipOverlap, job.AllowOverlap, job.ReplaceOverlap), func(v *job.Schedule) *job.OverlapPolicy { return &v.Overlap },
			"while an earlier run has not ended: `skip` this one, `allow` both, or `replace` the earlier; left out, `skip`"),
		key("history", positiveCount(job.MaxHistory), func(v *job.Schedule) *int { return &v.History },
			"how many runs that have ended are kept; left out, 3"),
	).orShort(func(n *yaml.Node, v *job.Schedule) error { return readText(n, &v.Cron) }, wordSchema(""))
}
