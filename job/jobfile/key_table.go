package jobfile

import (
	"go.yaml.in/yaml/v3"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// keyDefinition is one word of the job file's language.
type keyDefinition struct {
	name string
	// def is what holds where it is left out; doc says what it is and what it
	// takes. Both are Markdown, with links as in docs/job-file.md.
	def, doc string
	// schema says the latter to programs, as far as a schema can.
	schema valueSchema
	read   func(*job.Spec, *yaml.Node) error
}

// keys is the language: readers, schema and documentation come from here.
var keys = []keyDefinition{
	{
		name: "name", schema: wordSchema("^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"), def: "required",
		doc:  "1 to 63 letters, digits, `.`, `-`, `_`; no two live jobs share one",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, &s.Name) },
	},
	{
		name: "tasks", schema: integerSchema(1, job.MaxTasks), def: "1",
		doc:  "how many equal tasks; each gets the resources below",
		read: func(s *job.Spec, n *yaml.Node) error { return readPositive(n, &s.Tasks) },
	},
	{
		name: "matrix", schema: matrixSchema(), def: "none",
		doc:  "a task for each [combination](#matrices) of values: `{lr: [0.1, 0.01], seed: [1, 2, 3]}`, with `include` and `exclude`",
		read: func(s *job.Spec, n *yaml.Node) error { return readMatrix(n, &s.Matrix) },
	},
	{
		name: "max_parallel", schema: integerSchema(1, job.MaxTasks), def: "all",
		doc:  "how many of the tasks hold places at a time",
		read: func(s *job.Spec, n *yaml.Node) error { return readPositive(n, &s.MaxParallel) },
	},
	{
		name: "gpus", schema: integerSchema(0, job.MaxGPUs), def: "0, with `share` 1",
		doc:  "GPUs for each task, whole unless `share` says what part of each",
		read: func(s *job.Spec, n *yaml.Node) error { return readGPUs(n, &s.Request.GPUs) },
	},
	{
		name: "share", schema: shareSchema(), def: "all of it",
		doc:  "a [part of each GPU](#shares): `{memory: 4GiB, cores: 30}`",
		read: func(s *job.Spec, n *yaml.Node) error { return readShare(n, &s.Request) },
	},
	{
		name: "gpu_type", schema: includedSchema(), def: "any",
		doc:  "a type (`V100`), a list of types, or `{include: […], exclude: […]}`; a type is the short name (`A100`) or the exact product name (`NVIDIA A100-SXM4-80GB`), in any case",
		read: func(s *job.Spec, n *yaml.Node) error { return readTypes(n, &s.Request.Types) },
	},
	{
		name: "gpu_uuid", schema: includedSchema(), def: "any",
		doc: "devices that will do, by UUID: one, a list, or `{include: […], exclude: […]}`",
		read: func(s *job.Spec, n *yaml.Node) error {
			return readIncluded(n, &s.Request.Devices.Include, &s.Request.Devices.Exclude)
		},
	},
	{
		name: "gpu_mem", schema: sizeSchema(), def: "",
		doc:  "memory each device has at least, as `40GiB`",
		read: func(s *job.Spec, n *yaml.Node) error { return readWholeSize(n, &s.Request.MinMemMiB) },
	},
	{
		name: "gpu_driver", schema: wordSchema(versionPattern), def: "any",
		doc:  "the oldest driver that will do, as `\"535.104\"`",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, &s.Request.MinDriver) },
	},
	{
		name: "gpu_cuda", schema: wordSchema(versionPattern), def: "any",
		doc:  "the oldest CUDA version that the driver must serve, as `\"12.2\"`",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, &s.Request.MinCUDA) },
	},
	{
		name: "gpu_topology", schema: enumSchema(gpu.AllTopologies()...), def: "`any`",
		doc:  "`nvlink`: a task's devices reach one another over NVLinks among them; `same-numa`: they are on one NUMA node; `any`",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, (*string)(&s.Request.Topology)) },
	},
	{
		name: "constraints", schema: constraintsSchema(), def: "",
		doc:  "which agents will do, in [Marathon's terms](https://mesosphere.github.io/marathon/docs/constraints.html): `[[hostname, UNIQUE], [rack, LIKE, \"r[12]\"]]`, or each in one line",
		read: func(s *job.Spec, n *yaml.Node) error { return readConstraints(n, &s.Constraints) },
	},
	{
		name: "cpus", schema: numberSchema(), def: "1",
		doc:  "CPUs, fractions allowed",
		read: func(s *job.Spec, n *yaml.Node) error { return readNumber(n, &s.CPUs) },
	},
	{
		name: "mem", schema: sizeSchema(), def: "256MiB",
		doc:  "memory, as `512MiB`, `4GiB`, `1.5GB`; a bare number is MiB",
		read: func(s *job.Spec, n *yaml.Node) error { return readSize(n, &s.MemMiB) },
	},
	{
		name: "disk", schema: sizeSchema(), def: "none",
		doc:  "disk, in the same words",
		read: func(s *job.Spec, n *yaml.Node) error { return readSize(n, &s.DiskMiB) },
	},
	{
		name: "limits", schema: limitsSchema(), def: "no more",
		doc:  "what the task may use beyond that: `{cpus: 4, mem: 8GiB}`, or `unlimited` for either; it is sure of `cpus` and `mem` alone",
		read: func(s *job.Spec, n *yaml.Node) error { return readLimits(n, &s.Limits) },
	},
	{
		name: "command", schema: commandSchema(), def: "",
		doc:  "a list of arguments, or one line for `/bin/sh -c`; may be left out where the image brings its own",
		read: func(s *job.Spec, n *yaml.Node) error { return readCommand(n, &s.Command) },
	},
	{
		name: "entrypoint", schema: wordSchema(""), def: "the image's",
		doc:  "replaces the image's; `command` then is its arguments",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, &s.Entrypoint) },
	},
	{
		name: "image_entrypoint", schema: flagSchema(), def: "`false`",
		doc:  "`true`: the image's own entrypoint gets `command` as its arguments, as it does with `docker` anyway; otherwise `command` takes its place with `mesos`",
		read: func(s *job.Spec, n *yaml.Node) error { return readFlag(n, &s.ImageEntrypoint) },
	},
	{
		name: "user", schema: wordSchema(""), def: "the image's, or without one the framework's",
		doc:  "whom the task runs as: a name, or for `docker` also `UID` or `UID:GID`",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, &s.User) },
	},
	{
		name: "env", schema: envSchema(), def: "",
		doc:  "`NAME: value` pairs; a name is anything without an equals sign, such as `node.name`",
		read: func(s *job.Spec, n *yaml.Node) error { return readPairs(n, &s.Env) },
	},
	{
		name: "secrets", schema: secretsSchema(), def: "none",
		doc:  "variables with [secrets](#secrets) that the agents keep: `NAME: name/of/the/secret` pairs",
		read: func(s *job.Spec, n *yaml.Node) error { return readPairs(n, &s.Secrets) },
	},
	{
		name: "fetch", schema: fetchSchema(), def: "none",
		doc:  "files that are put into the sandbox before the task starts: `[https://example.org/model.tar.gz]`, or `{uri, path, extract, executable, cache}`; a URI may be a path of the agent",
		read: func(s *job.Spec, n *yaml.Node) error { return readFetch(n, &s.Fetch) },
	},
	{
		name: "image", schema: wordSchema(""), def: "none: the agent's own file system",
		doc:  "a container image",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, &s.Image) },
	},
	{
		name: "container", schema: enumSchema(job.Docker, job.Mesos), def: "`docker` with an image, else `mesos`",
		doc:  "`docker` (the Docker engine) or `mesos` (Mesos's own containers)",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, (*string)(&s.Containerizer)) },
	},
	{
		name: "volumes", schema: volumesSchema(), def: "none",
		doc:  "what the container sees beside its image and sandbox: `[\"/data:/data:ro\", \"scratch:/scratch\"]`, or `{source, target, read_only, driver}`. A source is a path of the agent, where the [scheduler's operator allows it](scheduling.md#what-a-job-may-have-of-its-agents), or a volume of its Docker engine",
		read: func(s *job.Spec, n *yaml.Node) error { return readVolumes(n, &s.Volumes) },
	},
	{
		name: "network", schema: wordSchema(""), def: "`host`",
		doc:  "`host`, `bridge`, `none` or the name of a network of the agents' Docker engines",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, (*string)(&s.Network)) },
	},
	{
		name: "ports", schema: portsSchema(), def: "0",
		doc:  "host ports for each task, told as `PORT0`, `PORT1`, …: how many, or a list of the container's own that they lead to, as `[8080, \"9090/udp\"]`, or `{name, container, host, protocol}`. [`host`](#host-ports), or `\"80:8080\"`, names the host port too",
		read: func(s *job.Spec, n *yaml.Node) error { return readPorts(n, &s.Ports) },
	},
	{
		name: "force_pull", schema: flagSchema(), def: "`false`",
		doc:  "`true`: the image is fetched anew for each attempt",
		read: func(s *job.Spec, n *yaml.Node) error { return readFlag(n, &s.ForcePull) },
	},
	{
		name: "shm_size", schema: sizeSchema(), def: "as much as `mem`",
		doc:  "size of `/dev/shm`, which counts as the task's memory",
		read: func(s *job.Spec, n *yaml.Node) error { return readSize(n, &s.ShmMiB) },
	},
	{
		name: "ipc", schema: enumSchema(job.PrivateIPC, job.HostIPC), def: "`private`",
		doc:  "`private`, or `host`: the agent's shared memory and semaphores, where its operator and the scheduler's allow it",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, (*string)(&s.IPC)) },
	},
	{
		name: "ulimits", schema: ulimitsSchema(), def: "the agent's",
		doc:  "resource limits by their names of setrlimit(2): `{memlock: unlimited, nofile: 65536, stack: \"8388608:16777216\"}`, the soft limit before the hard one, in the kernel's units",
		read: func(s *job.Spec, n *yaml.Node) error { return readUlimits(n, &s.Ulimits) },
	},
	{
		name: "parameters", schema: parametersSchema(), def: "none",
		doc:  "options of `docker run`, those that the [executor](executor.md) lists and no others: `[\"hostname=web\", \"cap-add=IPC_LOCK\"]`, or `{key, value}`",
		read: func(s *job.Spec, n *yaml.Node) error { return readParameters(n, &s.Parameters) },
	},
	{
		name: "labels", schema: pairsSchema(), def: "",
		doc:  "`NAME: value` pairs that the master, the agent and the Docker engine show",
		read: func(s *job.Spec, n *yaml.Node) error { return readPairs(n, &s.Labels) },
	},
	{
		name: "health_check", schema: healthSchema(), def: "none",
		doc:  "a [check](#checks) that ends a task which fails it too often, or a list of up to 20: the task is healthy by all of them",
		read: func(s *job.Spec, n *yaml.Node) error { return readHealthChecks(n, &s.Container) },
	},
	{
		name: "check", schema: checkSchema(), def: "none",
		doc:  "a [check](#checks) that only tells what it finds",
		read: func(s *job.Spec, n *yaml.Node) error { return readCheck(n, &s.Check) },
	},
	{
		name: "service", schema: serviceSchema(), def: "`false`",
		doc:  "`true`, or `{backoff, backoff_factor, backoff_max, replace_after}`: the tasks are [kept running](#services) until somebody ends the job",
		read: func(s *job.Spec, n *yaml.Node) error { return readService(n, &s.Service) },
	},
	{
		name: "group", schema: wordSchema(""), def: "the job alone",
		doc:  "constraints such as `UNIQUE` count the tasks of all jobs of the role with the same group, such as the versions of one service",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, &s.Group) },
	},
	{
		name: "gang", schema: flagSchema(), def: "`false`",
		doc:  "`true`: the tasks start together or not at all",
		read: func(s *job.Spec, n *yaml.Node) error { return readFlag(n, &s.Gang) },
	},
	{
		name: "role", schema: wordSchema(""), def: "the scheduler's first",
		doc:  "the Mesos role whose offers and quota the job uses",
		read: func(s *job.Spec, n *yaml.Node) error { return readText(n, &s.Role) },
	},
	{
		name: "priority", schema: integerSchema(-job.MaxPriority, job.MaxPriority), def: "0",
		doc:  "orders the jobs of one role, the highest first",
		read: func(s *job.Spec, n *yaml.Node) error { return readCount(n, &s.Priority) },
	},
	{
		name: "preemptible", schema: flagSchema(), def: "`false`",
		doc:  "`true`: a job of higher priority may have the task's place; it is stopped with its `kill_grace` and queued again",
		read: func(s *job.Spec, n *yaml.Node) error { return readFlag(n, &s.Preemptible) },
	},
	{
		name: "retries", schema: integerSchema(0, job.MaxRetries), def: "0",
		doc:  "how often a task that failed is tried again, after pauses that grow; in a gang all tasks start anew and share the number",
		read: func(s *job.Spec, n *yaml.Node) error { return readCount(n, &s.Retries) },
	},
	{
		name: "timeout", schema: durationSchema(), def: "",
		doc:  "how long a task may run; then it is stopped and has failed",
		read: func(s *job.Spec, n *yaml.Node) error { return readDuration(n, &s.Timeout) },
	},
	{
		name: "run_time", schema: durationSchema(), def: "the `timeout`",
		doc:  "how long a task is expected to run: a job that ends in time may go before a large one that waits",
		read: func(s *job.Spec, n *yaml.Node) error { return readDuration(n, &s.RunTime) },
	},
	{
		name: "max_wait", schema: durationSchema(), def: "",
		doc:  "how long the job may wait for its first start; then it has failed",
		read: func(s *job.Spec, n *yaml.Node) error { return readDuration(n, &s.MaxWait) },
	},
	{
		name: "after", schema: afterSchema(), def: "none",
		doc:  "jobs that must have [ended](#after-other-jobs) first: `[prepare]`, or `{job, state}`",
		read: func(s *job.Spec, n *yaml.Node) error { return readAfter(n, &s.After) },
	},
	{
		name: "schedule", schema: scheduleSchema(), def: "once, now",
		doc:  "[when](#schedules) to run such a job again and again: `\"0 3 * * *\"`, or `{cron, time_zone, overlap, history}`",
		read: func(s *job.Spec, n *yaml.Node) error { return readSchedule(n, &s.Schedule) },
	},
	{
		name: "kill_grace", schema: durationSchema(), def: "`5s`",
		doc:  "time between SIGTERM and SIGKILL, as `10s` or `2m`",
		read: func(s *job.Spec, n *yaml.Node) error { return readDuration(n, &s.KillGrace) },
	},
}
