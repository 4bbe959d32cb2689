package jobfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// jobFormat is the job file's language. Reading, writing, the JSON Schema, the
// flags of mesos-gpu run, mesos-gpu explain and the table of docs/reference/job-file.md
// all come from this table; a key is written in its order.
var jobFormat = sync.OnceValue(func() valueFormat[job.Spec] { return object(jobKeys()...) })

// jobKeys lists the keys in the order of the documentation. Each has its format, the field of job.Spec that it sets, and its
// explanation. Callers share the list and must not change it.
var jobKeys = sync.OnceValue(func() []keyField[job.Spec] {
	type spec = job.Spec
	return []keyField[spec]{
		key("name", word("^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"), func(s *spec) *string { return &s.Name },
			"1 to 63 letters, digits, `.`, `-`, `_`; unique among jobs that have not ended").withDefault("required").needed().
			withFlag(Flag{Name: "name", Usage: "the job's name (default a random one)"}),
		key("tasks", positiveCount(job.MaxTasks), func(s *spec) *int { return &s.Tasks },
			"number of tasks, each of which gets the resources below").withDefault("1").writtenIf(func(s *spec) bool { return s.Matrix == nil }).
			withFlag(Flag{Name: "tasks", Kind: IntFlag, Default: "1", Usage: "number of equal tasks"}),
		key("matrix", matrix(), func(s *spec) **job.Matrix { return &s.Matrix },
			"one task for each [combination](../guides/jobs.md#sweeps) of values: `{lr: [0.1, 0.01], seed: [1, 2, 3]}`; also `include`, `exclude`").withDefault("none"),
		key("max_parallel", positiveCount(job.MaxTasks).withFlags(flagReadBy(Flag{
			Name:  "max-parallel",
			Kind:  IntFlag,
			Usage: "maximum number of tasks that run at the same time; 0 is no limit",
		}, readCount)),
			func(s *spec) *int { return &s.MaxParallel },
			"maximum number of tasks that hold resources at the same time").withDefault("all"),
		key("gpus", gpuCount(), func(s *spec) *int { return &s.Request.GPUs },
			"GPUs for each task: whole devices, unless `share` is set").withDefault("0, with `share` 1").
			withFlag(Flag{Name: "gpus", Kind: IntFlag, Usage: "GPUs for each task: whole devices, unless --gpu-memory or --gpu-cores is set"}),
		key("share", share(), func(s *spec) *gpu.Request { return &s.Request },
			"a [part of each GPU](../guides/sharing.md#request-a-share): `{memory: 4GiB, cores: 30}`").withDefault("all of it"),
		key("gpu_type", typeSelector(), func(s *spec) *gpu.TypeSelector { return &s.Request.Types },
			"a [name of a GPU type](#names-of-gpu-types): short (`A100`), with memory (`A100-80GB`), a product (`NVIDIA A100-SXM4-80GB`) or "+
				"a MIG profile (`1g.10gb`), a list of names, "+
				"or `{include: […], exclude: […]}`. [`same`](#one-gpu-type-for-a-gang), alone or in the list, is one type for all tasks of a gang").withDefault("any"),
		key("gpu_uuid", deviceSelector(), func(s *spec) *gpu.DeviceSelector { return &s.Request.Devices },
			"acceptable devices by UUID: one, a list, or `{include: […], exclude: […]}`").withDefault("any"),
		key("gpu_mem", wholeSize(), func(s *spec) *int64 { return &s.Request.MinMemMiB },
			"minimum memory of each device, for example `40GiB`").
			withFlag(Flag{Name: "gpu-mem", Usage: "only GPUs with this much memory in all, such as 40GiB; --gpu-memory uses a part of one"}),
		key("gpu_driver", word(versionPattern), func(s *spec) *string { return &s.Request.MinDriver },
			"oldest acceptable driver version, for example `\"535.104\"`").withDefault("any").
			withFlag(Flag{Name: "gpu-driver", Usage: "oldest acceptable driver version"}),
		key("gpu_cuda", word(versionPattern), func(s *spec) *string { return &s.Request.MinCUDA },
			"oldest CUDA version that the driver must support, for example `\"12.2\"`").withDefault("any").
			withFlag(Flag{Name: "gpu-cuda", Usage: "oldest CUDA version that the driver must support"}),
		key("gpu_topology", oneOf(gpu.AllTopologies()...), func(s *spec) *gpu.Topology { return &s.Request.Topology },
			"`nvlink`: the devices of a task are connected by NVLinks; `same-numa`: they are on one NUMA node; `any`: no requirement").withDefault("`any`").
			withFlag(Flag{Name: "gpu-topology", Usage: "how a task's GPUs are connected: any, nvlink or same-numa"}),
		key("cpus", number(), func(s *spec) *float64 { return &s.CPUs },
			"CPUs of each task; fractions are allowed").withDefault("1").alwaysWritten().
			withFlag(Flag{Name: "cpus", Kind: FloatFlag, Default: fmt.Sprint(job.DefaultCPUs), Usage: "CPUs for each task"}),
		key("mem", size(), func(s *spec) *float64 { return &s.MemMiB },
			"memory of each task, for example `512MiB`, `4GiB` or `1.5GB`; a number without a unit is MiB").withDefault("256MiB").alwaysWritten().
			withFlag(Flag{
				Name:    "mem",
				Default: fmt.Sprintf("%dMiB", job.DefaultMemMiB),
				Usage:   "memory for each task, in KiB, MiB, GiB, TiB, MB, GB or TB; a number without a unit is MiB",
			}),
		key("disk", size(), func(s *spec) *float64 { return &s.DiskMiB },
			"disk of each task, in the same units").withDefault("none").
			withFlag(Flag{Name: "disk", Usage: "disk for each task, such as 10GiB"}),
		key("limits", resourceLimits(), func(s *spec) *job.ResourceLimits { return &s.Limits },
			"how much the task may use if its agent has it free: `{cpus: 4, mem: 8GiB}`, or `unlimited` for either").withDefault("`cpus` and `mem`"),
		key("constraints", constraintList().withFlags(appendFlag(Flag{
			Name:  "constraint",
			Kind:  RepeatedFlag,
			Usage: "restriction on the agents, as Marathon's constraints: 'hostname UNIQUE', 'rack LIKE r[12]'",
		}, job.ParseConstraint)),
			func(s *spec) *[]job.Constraint { return &s.Constraints },
			"restrictions on the agents, as [Marathon's "+
				"constraints](https://mesosphere.github.io/marathon/docs/constraints.html): `[[hostname, UNIQUE], [rack, LIKE, \"r[12]\"]]`, or each as one text"),
		key("container", oneOf(job.Docker, job.Mesos), func(s *spec) *job.Containerizer { return &s.Containerizer },
			"`docker` (the Docker engine) or `mesos` (Mesos's own containers)").withDefault("`docker` with an image, else `mesos`").
			withFlag(Flag{Name: "container", Usage: "docker or mesos (default docker if there is an image)"}),
		key("image", word(""), func(s *spec) *string { return &s.Image },
			"a container image").withDefault("none: the agent's own file system").
			withFlag(Flag{Name: "image", Usage: "container image (default the agent's own file system)"}),
		key("force_pull", boolean().withFlags(choiceFlag(Flag{Name: "pull", Default: "missing", Usage: "always: pull the image again for each attempt; or missing"},
			"always", func(to *bool) { *to = true }, "")),
			func(s *spec) *bool { return &s.ForcePull },
			"`true`: the image is pulled again for each attempt").withDefault("`false`"),
		key("pull_secret", word(secretPattern), func(s *spec) *string { return &s.PullSecret },
			"a [secret](../guides/jobs.md#secrets) with a docker config.json, "+
				"whose credentials [pull the image](executor.md#private-registries); with `docker` only").withDefault("none").
			withFlag(Flag{
				Name:  "pull-secret",
				Usage: "secret KEY that the agent stores for the job's role: a docker config.json with the credentials that pull the image",
			}),
		key("entrypoint", word(""), func(s *spec) *string { return &s.Entrypoint },
			"replaces the image's entrypoint; `command` is then its arguments").withDefault("the image's").
			withFlag(Flag{Name: "entrypoint", Usage: "replaces the image's entrypoint; the command is then its arguments"}),
		key("image_entrypoint", boolean(), func(s *spec) *bool { return &s.ImageEntrypoint },
			"`true`: with `mesos` too, `command` is the arguments of the image's entrypoint instead of replacing it").withDefault("`false`"),
		key("command", commandLine(), func(s *spec) *[]string { return &s.Command },
			"a list of arguments, or one line for `/bin/sh -c`; optional if the image has a command"),
		key("stdin", boolean(), func(s *spec) *bool { return &s.Stdin },
			"`true`: a [client](../guides/jobs.md#interactive-jobs) sends the command's standard input; "+
				"the task ends if it is lost before the end of the input").withDefault("`false`").
			withFlag(Flag{
				Name:      "stdin",
				Shorthand: "i",
				Kind:      BoolFlag,
				Usage:     "pass standard input to the command, and end the job if it is lost (default true without an image if it is a pipe or a file)",
			}),
		key("tty", boolean(), func(s *spec) *bool { return &s.TTY },
			"`true`: the command runs on the terminal of a [client](../guides/jobs.md#interactive-jobs), and the task ends with it").withDefault("`false`").
			withFlag(Flag{Name: "tty", Shorthand: "t", Kind: BoolFlag, Usage: "run the command on this terminal; all keys reach it, including Ctrl-C"}),
		key("user", word(""), func(s *spec) *string { return &s.User },
			"user that the task runs as: a name, "+
				"or with `docker` also `UID` or `UID:GID`").withDefault("the image's user, or without an image the scheduler's `--process-user`").
			withFlag(Flag{Name: "user", Shorthand: "u", Usage: "user that the task runs as: NAME, UID or UID:GID (default the image's)"}),
		key("env", pairs(anyWordSchema()).withSchema("propertyNames", valueSchema{"pattern": "^[^=]+$"}).
			withFlags(assignmentsFlag(Flag{
				Name:      "env",
				Shorthand: "e",
				Kind:      RepeatedFlag,
				Usage:     "NAME=value: an environment variable of the task, or NAME for its value here",
			}, "")),
			func(s *spec) *map[string]string { return &s.Env },
			"environment variables: `NAME: value` pairs; names without an equals sign"),
		key("secrets", pairs(wordSchema(secretPattern)).withSchema("propertyNames", valueSchema{"pattern": variablePattern}).
			withFlags(assignmentsFlag(Flag{
				Name:  "secret",
				Kind:  RepeatedFlag,
				Usage: "NAME=KEY: an environment variable whose value is the secret KEY that the agent stores for the job's role",
			}, ": the value is the secret's name on the agent, never the secret")),
			func(s *spec) *map[string]string { return &s.Secrets },
			"environment variables whose values are [secrets](../guides/jobs.md#secrets) of the agents: `NAME: name/of/the/secret` pairs").withDefault("none"),
		key("secret_files", pairs(wordSchema(secretPattern)).
			withFlags(assignmentsFlag(Flag{
				Name:  "secret-file",
				Kind:  RepeatedFlag,
				Usage: "PATH=KEY: a file in the container with the secret KEY that the agent stores for the job's role; a relative PATH is in the sandbox",
			}, ": the value is the secret's name on the agent, never the secret")),
			func(s *spec) *map[string]string { return &s.SecretFiles },
			"files in the container that are [secrets](../guides/jobs.md#secrets): `/path: name/of/the/secret` pairs; "+
				"a relative path is in the sandbox, and the only kind without an image").withDefault("none"),
		key("workdir", word(""), func(s *spec) *string { return &s.Workdir },
			"[folder of the client](../guides/jobs.md#files), relative to the job file, "+
				"that is uploaded and in which the tasks start; or the `sha256:` digest of a stored one").withDefault("none").
			withFlag(Flag{Name: "workdir", Shorthand: "w", Usage: "folder to upload; the tasks start in a copy of it"}),
		key("chdir", word(""), func(s *spec) *string { return &s.Chdir },
			"`submit`: the tasks start in the [folder of the submission](../guides/jobs.md#shared-folders), which must be on a "+
				"file system that the agents share; or the absolute path of such a folder").withDefault("the sandbox").
			withFlag(Flag{Name: "chdir", Usage: "submit: start in the current folder, on a file system that the agents share; or the absolute path of a folder there"}),
		key("fetch", fetchList(), func(s *spec) *[]job.FetchArtifact { return &s.Fetch },
			"files that the agent puts into the sandbox first: `[https://example.org/model.tar.gz]`, or `{uri, path, extract, "+
				"executable, cache}`; a URI may be a path of the agent").withDefault("none"),
		key("artifacts", listOf("[results, model.pt]", word("")), func(s *spec) *[]string { return &s.Artifacts },
			"[files and folders](../guides/jobs.md#files) of the sandbox that the scheduler keeps after each task's end: `[results, model.pt]`").withDefault("none"),
		key("volumes", volumeList(), func(s *spec) *[]job.Volume { return &s.Volumes },
			"directories and files mounted into the container: `[\"/data:/data:ro\", \"scratch:/scratch\"]`, or `{source, target, "+
				"read_only, driver}`. A source is a path of the agent that the [operator "+
				"allows](../guides/security.md#resources-of-jobs), or a volume of its Docker engine, which the engine creates, "+
				"empty and with a line on standard error, if it does not exist").withDefault("none"),
		key("shm_size", size(), func(s *spec) *float64 { return &s.ShmMiB },
			"size of `/dev/shm`, which is part of the task's memory").withDefault("as much as `mem`").
			withFlag(Flag{Name: "shm-size", Usage: "size of /dev/shm, such as 8GiB; it is part of the task's memory"}),
		key("ipc", oneOf(job.PrivateIPC, job.HostIPC), func(s *spec) *job.IPCMode { return &s.IPC },
			"`private`, or `host`: the agent's shared memory and semaphores, if both operators allow it").withDefault("`private`").
			withFlag(Flag{Name: "ipc", Usage: "private or host"}),
		key("ulimits", ulimits(), func(s *spec) *[]job.Ulimit { return &s.Ulimits },
			"resource limits, named as in setrlimit(2), soft before hard, in the kernel's units: `{memlock: unlimited, nofile: "+
				"65536, stack: \"8388608:16777216\"}`").withDefault("the agent's"),
		key("network", text[job.NetworkMode](wordSchema("")), func(s *spec) *job.NetworkMode { return &s.Network },
			"`host`; with `docker` also `bridge`, `none` or a network of the Docker engine, with `mesos` a [CNI network](#cni-networks)").withDefault("`host`").
			withFlag(Flag{
				Name:  "network",
				Usage: "host; with docker bridge, none or a network of the Docker engines; with mesos a CNI network of the agents (default host)",
			}),
		key("network_labels", pairs(anyWordSchema()), func(s *spec) *map[string]string { return &s.NetworkLabels },
			"`NAME: value` pairs for the plugins of a CNI network").withDefault("none"),
		key("ports", portList(), func(s *spec) *[]job.Port { return &s.Ports },
			"host ports for each task, passed to it as `PORT0`, `PORT1`, …: a number of ports, or container ports such as `[8080, "+
				"\"9090/udp\"]` or `{name, container, host, service, protocol}`. [`host`](#host-ports), or `\"80:8080\"`, selects the host port").withDefault("0"),
		key("devices",
			wordList().withFlags(wordsFlag(Flag{Name: "device", Kind: RepeatedFlag, Usage: "device node of the agent, or a folder of them, such as /dev/infiniband"})),
			func(s *spec) *[]string { return &s.Devices },
			"[device nodes](#devices) of the agent, or folders of them, that the task may open besides its GPUs: `[/dev/infiniband]`").withDefault("none"),
		key("parameters", parameterList(), func(s *spec) *[]job.DockerParameter { return &s.Parameters },
			"options of `docker run` that the [executor](executor.md) supports: `[\"hostname=web\", \"cap-add=IPC_LOCK\"]`, or `{key, value}`").withDefault("none"),
		key("labels", pairs(anyWordSchema()).withFlags(assignmentsFlag(Flag{
			Name:      "label",
			Shorthand: "l",
			Kind:      RepeatedFlag,
			Usage:     "NAME=value: a label for users and their tools",
		}, "")),
			func(s *spec) *map[string]string { return &s.Labels },
			"`NAME: value` pairs, also for the master, the agent and the Docker engine; marathon.app and marathon.version are reserved"),
		key("health_check", healthCheckList(), func(s *spec) *job.Container { return &s.Container },
			"a [check](../guides/jobs.md#health-checks) that ends a task if it fails too often, or a list of up to 20, all of which must succeed").withDefault("none"),
		key("check", optional(generalCheck()), func(s *spec) **job.Check { return &s.Check },
			"a [check](../guides/jobs.md#health-checks) that only reports its result").withDefault("none"),
		key("service", service(), func(s *spec) **job.Service { return &s.Service },
			"`true`, or `{backoff, backoff_factor, backoff_max, replace_after, shutdown_delay, min, max, target, cooldown, "+
				"stabilization}`: the tasks are [kept running](../guides/jobs.md#services) until a user ends the job, "+
				"with a `target` [scaled by load](../guides/jobs.md#autoscaling)").withDefault("`false`"),
		key("group", word(""), func(s *spec) *string { return &s.Group },
			"constraints such as `UNIQUE` count the tasks of all jobs of the role with the same group; "+
				"a slash at the beginning is reserved for [Marathon apps](marathon.md)").withDefault("this job alone"),
		key("role", word(""), func(s *spec) *string { return &s.Role },
			"Mesos role whose offers and quota the job uses").withDefault("the user's [default role](../concepts/scheduling.md#roles)").
			withFlag(Flag{Name: "role", Usage: "Mesos role whose offers and quota the job uses"}),
		key("priority", count(-job.MaxPriority, job.MaxPriority), func(s *spec) *int { return &s.Priority },
			"order among the jobs of one role, the highest first").withDefault("0").
			withFlag(Flag{Name: "priority", Kind: IntFlag, Usage: "order among the jobs of one role, the highest first"}),
		key("preemptible", boolean(), func(s *spec) *bool { return &s.Preemptible },
			"`true`: the task may be stopped, with its `kill_grace`, for a job of higher priority, and is queued again").withDefault("`false`").
			withFlag(Flag{Name: "preemptible", Kind: BoolFlag, Usage: "a job of higher priority may stop the tasks, which are queued again"}),
		key("guaranteed", boolean(), func(s *spec) *bool { return &s.Guaranteed },
			"`true`: the tasks run only on GPUs that their role [deserves](../concepts/scheduling.md#deserved-gpus), "+
				"never stopped for another role").withDefault("`false`").
			withFlag(Flag{Name: "guaranteed", Kind: BoolFlag, Usage: "run only on GPUs that the role deserves, never stopped for another role"}),
		key("gang", boolean(), func(s *spec) *bool { return &s.Gang },
			"`true`: the tasks start together or not at all").withDefault("`false`").
			withFlag(Flag{Name: "gang", Kind: BoolFlag, Usage: "tasks start together or not at all"}),
		key("retries", count(0, job.MaxRetries), func(s *spec) *int { return &s.Retries },
			"how often a failed task is tried again, after growing pauses; the tasks of a gang start again together and share this number").withDefault("0").
			withFlag(Flag{Name: "retries", Kind: IntFlag, Usage: "how often a failed task is tried again"}),
		key("timeout", duration(), func(s *spec) *time.Duration { return &s.Timeout },
			"maximum run time of a task, after which it is stopped and has failed").
			withFlag(Flag{Name: "timeout", Kind: DurationFlag, Usage: "maximum run time of a task"}),
		key("idle_timeout", duration(), func(s *spec) *time.Duration { return &s.IdleTimeout },
			"a running task is stopped after this time without a [connected client](../guides/jobs.md#notebooks-and-ports)").withDefault("never").
			withFlag(Flag{Name: "idle", Kind: DurationFlag, Usage: "stop the tasks after this time without a connected client"}),
		key("on_timeout", oneOf(job.FailOnTimeout, job.RequeueOnTimeout), func(s *spec) *job.TimeoutAction { return &s.OnTimeout },
			"at the `timeout`: `fail`, or `requeue`: the task is queued again, which counts as no retry").withDefault("`fail`").
			withFlag(Flag{Name: "on-timeout", Usage: "what follows at the timeout: fail or requeue"}),
		key("warn", optional(object(
			key("signal", oneOf(job.WarningSignals()...), func(w *job.Warning) *string { return &w.Signal },
				"a signal to the command"),
			key("file", word(""), func(w *job.Warning) *string { return &w.File },
				"a file to create in the sandbox"),
			key("http", word("^/"), func(w *job.Warning) *string { return &w.HTTP },
				"path of a POST to the job's first port"),
			key("before", positiveDuration(), func(w *job.Warning) *time.Duration { return &w.Before },
				"time between the warning and SIGTERM").needed(),
		)), func(s *spec) **job.Warning { return &s.Warn },
			"`{signal: USR1, before: 5m}`, or `file` or `http` instead of the signal: "+
				"a [warning](../guides/jobs.md#checkpoints-and-warnings) before preemptions, drains, requeues and the `timeout`").withDefault("none"),
		key("min_run_time", duration(), func(s *spec) *time.Duration { return &s.MinRunTime },
			"how long a task runs before it may be stopped for another job").withDefault("0").
			withFlag(Flag{Name: "min-run-time", Kind: DurationFlag, Usage: "how long a task runs before it may be stopped for another job"}),
		key("preempt_after", duration(), func(s *spec) *time.Duration { return &s.PreemptAfter },
			"how long after its submission others are stopped for the job at the earliest; their warnings run within this time").withDefault("0").
			withFlag(Flag{
				Name:  "preempt-after",
				Kind:  DurationFlag,
				Usage: "how long after its submission others are stopped for the job at the earliest; their warning runs within this time",
			}),
		key("checkpoint_dir", word("^/"), func(s *spec) *string { return &s.CheckpointDir },
			"folder that all attempts see, such as a volume: "+
				"the task's [`MESOS_GPU_CHECKPOINT_DIR`](../guides/jobs.md#checkpoints-and-warnings) is below it").withDefault("none").
			withFlag(Flag{Name: "checkpoint-dir", Usage: "folder that all attempts see, such as a volume; MESOS_GPU_CHECKPOINT_DIR is one of the task below it"}),
		key("notify", notificationRules(), func(s *spec) *[]job.NotificationRule { return &s.Notify },
			"[notifications](../guides/jobs.md#notifications) by mail and webhook: `[mailto:alice@example.org]`, or `{to, "+
				"on}` with the events `start`, `end`, `failure`, `preemption`, `idle`, `gpu_idle`, `quota` and `budget`").withDefault("none"),
		key("run_time", duration(), func(s *spec) *time.Duration { return &s.RunTime },
			"expected run time of a task: a job that ends in time may start before a large one that waits").withDefault("the `timeout`").
			withFlag(Flag{Name: "run-time", Kind: DurationFlag, Usage: "expected run time of a task: short jobs may start before large ones that wait"}),
		key("max_wait", duration(), func(s *spec) *time.Duration { return &s.MaxWait },
			"maximum wait for the job's first start, after which it has failed").
			withFlag(Flag{Name: "max-wait", Kind: DurationFlag, Usage: "maximum wait for the job's first start"}),
		key("after", dependencyList(), func(s *spec) *[]job.Dependency { return &s.After },
			"jobs that must [end](../guides/jobs.md#dependencies) first: `[prepare]`, or `{job, state}`; each is a [name, `OWNER/NAME` or number](../guides/jobs.md#names-and-numbers)").withDefault("none"),
		key("schedule", optional(schedule()), func(s *spec) **job.Schedule { return &s.Schedule },
			"[when](../guides/jobs.md#schedules) to run the job repeatedly: `\"0 3 * * *\"`, or `{cron, time_zone, overlap, history}`").withDefault("once, now"),
		key("kill_grace", duration(), func(s *spec) *time.Duration { return &s.KillGrace },
			"time between SIGTERM and SIGKILL, for example `10s` or `2m`").withDefault("`5s`").alwaysWritten().
			withFlag(Flag{Name: "kill-grace", Kind: DurationFlag, Default: job.DefaultKillGrace.String(), Usage: "time between SIGTERM and SIGKILL"}),
	}
})

// gpuCount is a number of GPUs. For a fraction its error suggests share.
func gpuCount() valueFormat[int] {
	f := count(0, job.MaxGPUs)
	f.read = readGPUs
	return f
}

// share sets the share of a request, and may set its number of GPUs.
func share() valueFormat[gpu.Request] {
	memory := valueFormat[gpu.ShareRequest]{
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
			"memory of each GPU: `4GiB`, or `30%` of its memory").
			withFlag(Flag{Name: "gpu-memory", Usage: "use a share of each GPU: memory, such as 4GiB or 30%"}),
		key("cores", count(0, gpu.AllCores), func(r *gpu.Request) *int { return &r.Share.Cores },
			"compute of each GPU in percent, from 1 to 100; with 0 none is reserved").
			withFlag(Flag{Name: "gpu-cores", Kind: IntFlag, Usage: "use a share of each GPU: compute in percent; with 100 no other task uses the GPU"}),
		key("gpus", positiveCount(job.MaxGPUs), func(r *gpu.Request) *int { return &r.GPUs },
			"number of GPUs to share, instead of the key `gpus`").neverWritten(),
	).withSchema("anyOf", []valueSchema{{"required": []string{"memory"}}, {"required": []string{"cores"}}}).
		checked(func(_ *yaml.Node, r *gpu.Request) error {
			if r.Share.IsWhole() {
				return errors.New("needs memory, cores or both")
			}
			return nil
		})
}

// typeSelector is the GPU types to use and to avoid.
func typeSelector() valueFormat[gpu.TypeSelector] {
	return selector(
		key("include", typeNames(), func(t *gpu.TypeSelector) *gpu.TypeSelector { return t },
			"acceptable types: one or a list"),
		key("exclude", wordList().withFlags(wordsFlag(Flag{Name: "not-gpu-type", Kind: ListFlag, Usage: "GPU types to avoid"})),
			func(t *gpu.TypeSelector) *[]string { return &t.Exclude },
			"types to avoid: one or a list"))
}

// sameTypeWord stands among the names of types for TypeSelector.Same.
const sameTypeWord = "same"

// typeNames are acceptable types, and same for one type in all tasks.
func typeNames() valueFormat[gpu.TypeSelector] {
	set := func(to *gpu.TypeSelector, words []string) {
		for _, word := range words {
			if word == sameTypeWord {
				to.Same = true
			} else {
				to.Include = append(to.Include, word)
			}
		}
	}
	return valueFormat[gpu.TypeSelector]{
		read: func(n *yaml.Node, to *gpu.TypeSelector) error {
			var words []string
			if err := readWords(n, &words); err != nil {
				return err
			}
			set(to, words)
			return nil
		},
		write: func(t gpu.TypeSelector) any {
			if t.Same {
				return append([]string{sameTypeWord}, t.Include...)
			}
			return t.Include
		},
		schema: wordsSchema(),
		flags: []flagOf[gpu.TypeSelector]{{
			Flag{Name: "gpu-type", Kind: ListFlag, Usage: "acceptable GPU types, such as V100,A100; same for one type in all tasks of a gang"},
			func(to *gpu.TypeSelector, words []string) error {
				set(to, words)
				return nil
			},
		}},
	}
}

// deviceSelector is the GPUs to use and to avoid.
func deviceSelector() valueFormat[gpu.DeviceSelector] {
	return selector(
		key("include", wordList().withFlags(wordsFlag(Flag{Name: "gpu-uuid", Kind: ListFlag, Usage: "acceptable GPUs by UUID"})),
			func(d *gpu.DeviceSelector) *[]string { return &d.Include },
			"acceptable devices by UUID: one or a list"),
		key("exclude", wordList().withFlags(wordsFlag(Flag{Name: "not-gpu-uuid", Kind: ListFlag, Usage: "GPUs to avoid, by UUID"})),
			func(d *gpu.DeviceSelector) *[]string { return &d.Exclude },
			"devices to avoid, by UUID: one or a list"))
}

// resourceLimits is a mapping of limits, each of which may be absent.
func resourceLimits() valueFormat[job.ResourceLimits] {
	return object(
		key("cpus", orUnlimited(number()), func(l *job.ResourceLimits) *float64 { return &l.CPUs },
			"maximum CPUs if the agent has them free: a number above `cpus`, or `unlimited`"),
		key("mem", orUnlimited(size()), func(l *job.ResourceLimits) *float64 { return &l.MemMiB },
			"maximum memory if the agent has it free: a size above `mem`, or `unlimited`"),
	)
}

// service is true, or a mapping.
func service() valueFormat[*job.Service] {
	f := optional(object(
		key("backoff", positiveDuration(), func(v *job.Service) *time.Duration { return &v.Backoff.Initial },
			"pause before a task is started again").alwaysWritten(),
		key("backoff_factor", number(), func(v *job.Service) *float64 { return &v.Backoff.Factor },
			"factor by which the pause grows with each failure").alwaysWritten(),
		key("backoff_max", positiveDuration(), func(v *job.Service) *time.Duration { return &v.Backoff.Max },
			"maximum pause").alwaysWritten(),
		key("replace_after", replaceAfter(), func(v *job.Service) *time.Duration { return &v.ReplaceAfter },
			"how long an agent may be unreachable before its tasks are started elsewhere, or `never`"),
		key("shutdown_delay", positiveDuration(), func(v *job.Service) *time.Duration { return &v.ShutdownDelay },
			"time between the request to stop a task, which takes it from load balancers, and SIGTERM; absent, none"),
		key("min", positiveCount(job.MaxTasks), func(v *job.Service) *int { return &v.Autoscaling.Min },
			"the least number of tasks to which load scales the service; absent, 1"),
		key("max", positiveCount(job.MaxTasks), func(v *job.Service) *int { return &v.Autoscaling.Max },
			"the largest number of tasks to which load scales the service"),
		key("target", loadTarget(), func(v *job.Service) *job.LoadTarget { return &v.Autoscaling.Target },
			"the average load of a task that autoscaling keeps"),
		key("cooldown", positiveDuration(), func(v *job.Service) *time.Duration { return &v.Autoscaling.Cooldown },
			"time after a change of the number of tasks before load changes it again; absent, 1m"),
		key("stabilization", object(
			key("up", positiveDuration(), func(w *job.StabilizationWindows) *time.Duration { return &w.Up },
				"how long the load must require more tasks; absent, not at all"),
			key("down", positiveDuration(), func(w *job.StabilizationWindows) *time.Duration { return &w.Down },
				"how long the load must require fewer tasks; absent, 5m"),
		), func(v *job.Service) *job.StabilizationWindows { return &v.Autoscaling.Stabilization },
			"how long the load must require a change: `{up, down}`"),
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
	return f.withFlags(choiceFlag(Flag{Name: "restart", Default: "no", Usage: "always: a service, whose tasks are started again however they end; or no"},
		"always", func(to **job.Service) { *to = &job.Service{} }, ": --retries sets how often a failed task is tried again"))
}

// loadTarget is a mapping. job.Spec.Validate checks that it has exactly one of the three kinds of load.
func loadTarget() valueFormat[job.LoadTarget] {
	return object(
		key("gpu_duty", number(), func(t *job.LoadTarget) *float64 { return &t.GPUDuty },
			"utilization of the task's GPUs in percent"),
		key("requests_per_second", number(), func(t *job.LoadTarget) *float64 { return &t.RequestsPerSecond },
			"rate at which the counter `metric` grows"),
		key("value", number(), func(t *job.LoadTarget) *float64 { return &t.Value },
			"value of the gauge `metric`, such as the length of a queue"),
		key("metric", word(""), func(t *job.LoadTarget) *string { return &t.Metric },
			"a metric that the task serves in Prometheus's text format, the sum of its series; absent, `http_requests_total` for requests_per_second"),
		key("path", word(""), func(t *job.LoadTarget) *string { return &t.Path },
			"path at which the task serves its metrics; absent, `/metrics`"),
		key("port_index", count(0, job.MaxPorts-1), func(t *job.LoadTarget) *int { return &t.PortIndex },
			"which of the job's ports it is; absent, 0"),
	)
}

// replaceAfter is a duration, or the word never.
func replaceAfter() valueFormat[time.Duration] {
	return valueFormat[time.Duration]{
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
func dependencyList() valueFormat[[]job.Dependency] {
	one := object(
		key("job", word(""), func(d *job.Dependency) *string { return &d.Job },
			"the job: `NAME`, `OWNER/NAME`, `NAME@RUN` or a number").needed(),
		key("state", oneOf(job.OutcomeFinished, job.OutcomeEnded, job.OutcomeFailed), func(d *job.Dependency) *job.DependencyOutcome { return &d.Outcome },
			"`finished`, `failed`, or `ended` for either; absent, `finished`"),
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
	return f.withFlags(appendFlag(Flag{Name: "after", Kind: ListFlag, Usage: "jobs that must finish first, or JOB:ended, JOB:failed"},
		func(text string) (job.Dependency, error) {
			at := strings.LastIndexByte(text, ':')
			if at < 0 || strings.Contains(text[at:], "/") { // the owner of OWNER/NAME may contain a colon
				return job.Dependency{Job: text}, nil
			}
			return job.Dependency{Job: text[:at], Outcome: job.DependencyOutcome(text[at+1:])}, nil
		}))
}

// notificationRules is a list of targets and of mappings.
func notificationRules() valueFormat[[]job.NotificationRule] {
	return listOf("[mailto:alice@example.org]", object(
		key("to", word("^(mailto:|https?://)"), func(r *job.NotificationRule) *string { return &r.To },
			"`mailto:ADDRESS`, or the URL of a webhook").needed(),
		key("on", listOf("[end, failure]", oneOf(job.NotificationEvents()...)), func(r *job.NotificationRule) *[]job.NotificationEvent { return &r.On },
			"events: `start`, `end`, `failure`, `preemption`, `idle`, `gpu_idle`, `quota`, `budget`; absent, `[end, failure]`"),
	).orShort(func(n *yaml.Node, r *job.NotificationRule) error { return readText(n, &r.To) }, wordSchema("^(mailto:|https?://)"))).
		withFlags(appendFlag(Flag{
			Name:  "notify",
			Kind:  RepeatedFlag,
			Usage: "mailto:ADDRESS or URL of a webhook to notify of the job's end and failure; or EVENT,EVENT,TARGET for other events",
		}, func(text string) (r job.NotificationRule, err error) {
			for r.To = text; ; {
				event, rest, ok := strings.Cut(r.To, ",")
				if !ok || !slices.Contains(job.NotificationEvents(), job.NotificationEvent(event)) {
					return r, nil
				}
				r.On, r.To = append(r.On, job.NotificationEvent(event)), rest
			}
		}))
}

// schedule is the times alone, or a mapping.
func schedule() valueFormat[job.Schedule] {
	return object(
		key("cron", word(""), func(v *job.Schedule) *string { return &v.Cron },
			"minute, hour, day, month and day of the week, for example `0 3 * * mon-fri`; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`").needed(),
		key("time_zone", word(""), func(v *job.Schedule) *string { return &v.TimeZone },
			"time zone, for example `Europe/Berlin`; absent, UTC"),
		key("overlap", oneOf(job.SkipOverlap, job.AllowOverlap, job.ReplaceOverlap), func(v *job.Schedule) *job.OverlapPolicy { return &v.Overlap },
			"if an earlier run has not ended: `skip` this one, `allow` both, or `replace` the earlier; absent, `skip`"),
		key("history", positiveCount(job.MaxHistory), func(v *job.Schedule) *int { return &v.History },
			"how many ended runs are kept; absent, 3"),
	).orShort(func(n *yaml.Node, v *job.Schedule) error { return readText(n, &v.Cron) }, wordSchema(""))
}
