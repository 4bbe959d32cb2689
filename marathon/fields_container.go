package marathon

func containerFields() []Field {
	fields := []Field{
		{Path: "container", Type: Object},
		{Path: "container.type", Type: String, Default: `"DOCKER"`, Enum: []string{DockerType, MesosType}},
		{Path: "container.docker", Type: Object},
		{Path: "container.docker.image", Type: String, Required: true, MinLen: 1, MaxLen: 1024, Pattern: imageName},
		{Path: "container.docker.forcePullImage", Type: Boolean, Default: "false"},
		{Path: "container.docker.privileged", Type: Boolean, Default: "false", Support: Refused, Why: "the container could open every GPU of its agent"},
		{Path: "container.docker.parameters", Type: Array, Default: "[]", Why: "those that docs/reference/executor.md lists; DOCKER only"},
		{Path: "container.docker.parameters[]", Type: Object},
		{Path: "container.docker.parameters[].key", Type: String, Required: true, MinLen: 1},
		{Path: "container.docker.parameters[].value", Type: String, Required: true},
		{Path: "container.docker.pullConfig", Type: Object, Why: "DOCKER only"},
		{Path: "container.docker.pullConfig.secret", Type: String, Required: true, MinLen: 1, Why: "a name in `secrets`; its content is a docker config.json"},
		{Path: "container.docker.credential", Type: Object, Support: Refused, Why: "Marathon has refused it since 1.5: use pullConfig"},
		{Path: "container.docker.credential.principal", Type: String, Required: true, Support: Refused},
		{Path: "container.docker.credential.secret", Type: String, Support: Refused},
		{
			Path:       "container.docker.network",
			Type:       String,
			Enum:       []string{"BRIDGE", "HOST", "NONE", "USER"},
			Deprecated: "networks",
			Why:        "NONE has no equivalent and is an error",
		},
		{Path: "container.linuxInfo", Type: Object},
		{Path: "container.linuxInfo.seccomp", Type: Object, Why: "only if empty"},
		{Path: "container.linuxInfo.seccomp.profileName", Type: String, Support: Refused, Why: oneProfile},
		{Path: "container.linuxInfo.seccomp.unconfined", Type: Boolean, Default: "false", Support: Refused, Why: oneProfile},
		{Path: "container.linuxInfo.ipcInfo", Type: Object},
		{
			Path:     "container.linuxInfo.ipcInfo.mode",
			Type:     String,
			Required: true,
			Enum:     []string{"PRIVATE", "SHARE_PARENT"},
			Support:  Refused,
			Accepts:  []string{"PRIVATE"},
			Why:      "tasks cannot use the agent's own shared memory",
		},
		{
			Path: "container.linuxInfo.ipcInfo.shmSize",
			Type: Integer,
			Min:  boundOf(1),
			Max:  boundOf(maxMiB),
			Why:  "in MiB, below mem; as much as mem if absent; with DOCKER too",
		},
	}
	fields = append(fields, portMappingFields("container.portMappings", "")...)
	return append(fields, portMappingFields("container.docker.portMappings", "container.portMappings")...)
}

const (
	oneProfile   = "the agent's own seccomp profile applies to all tasks"
	noPortLabels = "stored and returned, without effect"
)

// portMappingFields are the fields of port mappings, which may be at two paths.
func portMappingFields(path, deprecated string) []Field {
	each := path + "[]."
	return []Field{
		{Path: path, Type: Array, Deprecated: deprecated},
		{Path: path + "[]", Type: Object},
		{Path: each + "containerPort", Type: Integer, Default: "0", Min: boundOf(0), Max: boundOf(maxPort), Why: "0 is the host port's number"},
		{
			Path: each + "hostPort",
			Type: Integer,
			Min:  boundOf(0),
			Max:  boundOf(maxPort),
			Why:  "0 is any port; if absent none, in bridge mode any; a number needs an agent that offers this port",
		},
		{
			Path:    each + "servicePort",
			Type:    Integer,
			Default: "0",
			Min:     boundOf(0),
			Max:     boundOf(maxPort),
			Support: Informational,
			Why:     "for load balancers; 0 gets a number of `--marathon-service-ports`",
		},
		{Path: each + "name", Type: String, MinLen: 1, MaxLen: maxNameLength, Pattern: portName},
		{Path: each + "protocol", Type: String, Default: `"tcp"`, Enum: portProtocols(), Why: "one of tcp and udp"},
		{Path: each + "labels", Type: Object, Default: "{}", Support: Informational, Why: noPortLabels},
		{Path: each + "labels.*", Type: String, Support: Informational},
		{Path: each + "networkNames", Type: Array, Why: "an app has only one network"},
		{Path: each + "networkNames[]", Type: String, MinLen: 1, MaxLen: 63, Pattern: portName},
	}
}

func volumeFields() []Field {
	const each = "container.volumes[]."
	const persistent = each + "persistent"
	const external = each + "external"
	const csi = external + ".options."
	return []Field{
		{Path: "container.volumes", Type: Array, Default: "[]"},
		{Path: "container.volumes[]", Type: Object},
		{Path: each + "containerPath", Type: String, Required: true, MinLen: 1, Why: "relative to the sandbox with DOCKER only"},
		{Path: each + "mode", Type: String, Enum: []string{"RO", "RW"}},
		{Path: each + "hostPath", Type: String, MinLen: 1},
		{
			Path:   each + "secret",
			Type:   String,
			MinLen: 1,
			Why:    "a name in `secrets`, mounted as a read-only file; paths may be relative, without an image they must be",
		},
		{Path: persistent, Type: Object, Support: Refused, Why: "no disk is reserved for a task: use a host or an external volume"},
		{Path: persistent + ".type", Type: String, Enum: []string{"root", "path", "mount"}, Support: Refused},
		{Path: persistent + ".size", Type: Long, Required: true, Min: boundOf(0), Support: Refused},
		{Path: persistent + ".maxSize", Type: Long, Min: boundOf(0), Support: Refused},
		{Path: persistent + ".profileName", Type: String, Support: Refused},
		{Path: persistent + ".constraints", Type: Array, Default: "[]", Support: Refused},
		{Path: persistent + ".constraints[]", Type: Array, Support: Refused},
		{Path: persistent + ".constraints[][]", Type: String, Support: Refused},
		{Path: external, Type: Object, Why: "a volume of a docker volume driver; DOCKER only, one driver for a container"},
		{Path: external + ".name", Type: String, Why: "letters, digits, dots, dashes and underscores, 63 at most"},
		{Path: external + ".provider", Type: String, Support: Refused, Accepts: []string{"dvdi"}, Why: "only volumes of Docker's volume drivers are supported"},
		{Path: external + ".size", Type: Long, Min: boundOf(0), Support: Refused, Why: "the Docker engine cannot set the size of a volume"},
		{Path: external + ".shared", Type: Boolean, Default: "false"},
		{Path: external + ".options", Type: Object, Why: "`dvdi/driver` names the driver; other options are refused"},
		{Path: csi + "*", Type: String},
		{Path: csi + "pluginName", Type: String, MinLen: 1, Support: Refused, Why: "it is an option of csi"},
		{Path: csi + "capability", Type: Object, Support: Refused, Why: "it is an option of csi"},
		{Path: csi + "capability.accessMode", Type: String, Required: true, Support: Refused, Enum: []string{
			"SINGLE_NODE_WRITER", "SINGLE_NODE_READER_ONLY", "MULTI_NODE_READER_ONLY", "MULTI_NODE_SINGLE_WRITER", "MULTI_NODE_MULTI_WRITER",
		}},
		{Path: csi + "capability.accessType", Type: String, Required: true, Enum: []string{"block", "mount"}, Support: Refused},
		{Path: csi + "capability.fsType", Type: String, Support: Refused},
		{Path: csi + "capability.mountFlags", Type: Array, Support: Refused},
		{Path: csi + "capability.mountFlags[]", Type: String, Support: Refused},
		{Path: csi + "nodeStageSecret", Type: Object, Support: Refused, Why: "it is an option of csi"},
		{Path: csi + "nodeStageSecret.*", Type: String, Support: Refused},
		{Path: csi + "nodePublishSecret", Type: Object, Support: Refused, Why: "it is an option of csi"},
		{Path: csi + "nodePublishSecret.*", Type: String, Support: Refused},
		{Path: csi + "volumeContext", Type: Object, Support: Refused, Why: "it is an option of csi"},
		{Path: csi + "volumeContext.*", Type: String, Support: Refused},
	}
}
