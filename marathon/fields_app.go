package marathon

import "mesos-gpu/job"

const onlyVariables = "secrets are variables: use env"

// appFields are the fields at the top of an app and in its small objects.
func appFields() []Field {
	return []Field{
		{Path: "id", Type: String, Required: true, MinLen: 1, Why: "within a group also relative to it"},
		{Path: "cmd", Type: String, MinLen: 1, Why: "a line for /bin/sh; not with args"},
		{Path: "args", Type: Array, Why: "arguments of the image's entrypoint, without an image the whole command; not with cmd"},
		{Path: "args[]", Type: String},
		{Path: "user", Type: String, MaxLen: 255, Pattern: userName, Why: "with DOCKER the option user of docker run"},
		{Path: "env", Type: Object, Why: "names without an equals sign"},
		{Path: "env.*", Type: String | Object},
		{Path: "env.*.secret", Type: String, Required: true, MinLen: 1, Why: "a name in `secrets`"},
		{Path: "instances", Type: Integer, Default: "1", Min: boundOf(0), Max: boundOf(job.MaxTasks), Why: "0 suspends the app"},
		{Path: "cpus", Type: Number, Default: "1", Min: boundOf(0.001), Max: boundOf(maxCPUs)},
		{Path: "mem", Type: Number, Default: "128", Min: boundOf(0), Max: boundOf(maxMiB), Why: "in MiB, and more than 0"},
		{Path: "disk", Type: Number, Default: "0", Min: boundOf(0), Max: boundOf(maxMiB), Why: "in MiB"},
		{Path: "gpus", Type: Integer, Default: "0", Min: boundOf(0), Max: boundOf(maxGPUs), Why: "with MESOS and with DOCKER containers; Marathon allows only MESOS"},
		{Path: "resourceLimits", Type: Object, Why: "at least the app's request"},
		{Path: "resourceLimits.cpus", Type: Number | String, Max: boundOf(maxCPUs), Enum: []string{unlimitedText}},
		{Path: "resourceLimits.mem", Type: Number | String, Max: boundOf(maxMiB), Enum: []string{unlimitedText}},
		{Path: "executor", Type: String, Default: `""`, Support: Refused, Accepts: []string{"//cmd"}, Why: "each task runs under this project's own executor"},
		{Path: "executorResources", Type: Object, Support: Refused, Why: "the scheduler sets the executor's resources"},
		{Path: "executorResources.cpus", Type: Number, Default: "0.1", Min: boundOf(0.1), Support: Refused},
		{Path: "executorResources.mem", Type: Number, Default: "32", Min: boundOf(32), Support: Refused},
		{Path: "executorResources.disk", Type: Number, Default: "10", Min: boundOf(10), Support: Refused},
		{Path: "role", Type: String, MinLen: 1, Why: "the scheduler's role, or that of a top group that enforces its role; this is also the default"},
		{Path: "acceptedResourceRoles", Type: Array, Why: "`*`, the app's role, or both (the default); with only one of them, agents that offer resources of the other are excluded"},
		{Path: "acceptedResourceRoles[]", Type: String},
		{Path: "constraints", Type: Array, Why: "Marathon's operators; regular expressions in the syntax that Java and RE2 have in common"},
		{Path: "constraints[]", Type: Array},
		{Path: "constraints[][]", Type: String},
		{Path: "labels", Type: Object, Default: "{}", Why: "`GPU_SCHEDULING_BEHAVIOR` and `MARATHON_SINGLE_INSTANCE_APP` have Marathon's meaning"},
		{Path: "labels.*", Type: String},
		{Path: "dependencies", Type: Array, Why: "of apps and of groups"},
		{Path: "dependencies[]", Type: String},
		{Path: "fetch", Type: Array, Why: "by the agent, into the sandbox"},
		{Path: "fetch[]", Type: Object},
		{Path: "fetch[].uri", Type: String, Required: true, MinLen: 1, MaxLen: 1024},
		{Path: "fetch[].extract", Type: Boolean, Default: "true"},
		{Path: "fetch[].executable", Type: Boolean, Default: "false"},
		{Path: "fetch[].cache", Type: Boolean, Default: "false"},
		{Path: "fetch[].destPath", Type: String, MinLen: 1, MaxLen: 1024},
		{Path: "uris", Type: Array, Deprecated: "fetch"},
		{Path: "uris[]", Type: String, MinLen: 1, MaxLen: 1024},
		{Path: "storeUrls", Type: Array, Support: Refused, Why: "Marathon removed it in 1.5: use fetch"},
		{Path: "storeUrls[]", Type: String, Support: Refused},
		{Path: "backoffSeconds", Type: Integer, Default: "1", Min: boundOf(0), Max: boundOf(maxSeconds), Why: "at most maxLaunchDelaySeconds"},
		{Path: "backoffFactor", Type: Number, Default: "1.15", Min: boundOf(1), Max: boundOf(maxFactor)},
		{Path: "maxLaunchDelaySeconds", Type: Integer, Default: "300", Min: boundOf(0), Max: boundOf(maxSeconds)},
		{Path: "taskKillGracePeriodSeconds", Type: Integer, Min: boundOf(0), Max: boundOf(maxKillGrace), Why: "between SIGTERM and SIGKILL; 5 if absent"},
		{Path: "killSelection", Type: String, Default: `"YOUNGEST_FIRST"`, Enum: []string{"YOUNGEST_FIRST", "OLDEST_FIRST"}},
		{Path: "unreachableStrategy", Type: String | Object, Enum: []string{disabledText}, Why: "both times are 0 if absent"},
		{Path: "unreachableStrategy.inactiveAfterSeconds", Type: Long, Default: "0", Min: boundOf(0), Max: boundOf(maxSeconds), Why: "counted from when Mesos reports the agent unreachable"},
		{Path: "unreachableStrategy.expungeAfterSeconds", Type: Long, Default: "0", Min: boundOf(0), Support: Informational, Why: "an instance is given up when it is replaced; if it returns, it is killed"},
		{Path: "upgradeStrategy", Type: Object, Why: "both are 1 if absent; with an external volume 0 and 0.5"},
		{Path: "upgradeStrategy.maximumOverCapacity", Type: Number, Required: true, Min: boundOf(0), Max: boundOf(1)},
		{Path: "upgradeStrategy.minimumHealthCapacity", Type: Number, Required: true, Min: boundOf(0), Max: boundOf(1)},
		{Path: "secrets", Type: Object, Why: "for variables; the executor reads them on the agent, as [secrets](../guides/jobs.md#secrets) of the app's role"},
		{Path: "secrets.*", Type: Object},
		{Path: "secrets.*.source", Type: String, Required: true, MinLen: 1, Why: "the secret's name there; a slash at its beginning is ignored"},
		{Path: "residency", Type: Object, Support: Refused, Why: "it applies to persistent volumes, which are not supported"},
		{Path: "residency.relaunchEscalationTimeoutSeconds", Type: Long, Default: "3600", Min: boundOf(0), Support: Refused},
		{Path: "residency.taskLostBehavior", Type: String, Default: `"WAIT_FOREVER"`, Enum: []string{"WAIT_FOREVER", "RELAUNCH_AFTER_TIMEOUT"}, Support: Refused},
		{Path: "tty", Type: Boolean, Support: Refused, Why: "the tasks of a service have no terminal"},
	}
}

// statusFields are in Marathon's answers. They are accepted so that a client may send an
// answer back.
func statusFields() []Field {
	info := func(path string, t JSONType) Field { return Field{Path: path, Type: t, Support: Informational} }
	return []Field{
		{Path: "version", Type: String, Support: Informational, Why: "the scheduler sets it"},
		{Path: "versionInfo", Type: Object, Support: Informational, Why: "the scheduler sets it"},
		{Path: "versionInfo.lastScalingAt", Type: String, Required: true, Support: Informational},
		{Path: "versionInfo.lastConfigChangeAt", Type: String, Required: true, Support: Informational},
		{Path: "tasksStaged", Type: Integer, Support: Informational, Why: "this field and those below are in Marathon's answers, and are ignored in requests"},
		info("tasksRunning", Integer),
		info("tasksHealthy", Integer),
		info("tasksUnhealthy", Integer),
		info("tasks", Any),
		info("tasksStats", Any),
		info("deployments", Any),
		info("readinessCheckResults", Any),
		info("lastTaskFailure", Any),
	}
}
