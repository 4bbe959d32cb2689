package marathon

const maxPort = 65535

func protocols() []string { return []string{"tcp", "udp", "udp,tcp"} }

func networkFields() []Field {
	return []Field{
		{Path: "networks", Type: Array, Default: "[]", Why: "absent, the host's; others with DOCKER only, and one"},
		{Path: "networks[]", Type: Object},
		{Path: "networks[].mode", Type: String, Default: `"container"`, Enum: []string{ContainerMode, BridgeMode, HostMode}},
		{Path: "networks[].name", Type: String, MinLen: 1, MaxLen: 63, Pattern: networkName, Why: "of mode container: a network of the agents' docker engines; absent, the scheduler's default"},
		{Path: "networks[].labels", Type: Object, Standing: Informational, Why: "docker's networks take none, in Marathon neither"},
		{Path: "networks[].labels.*", Type: String, Standing: Informational},
		{Path: "portDefinitions", Type: Array, Why: "in the host's network; absent, one port named default"},
		{Path: "portDefinitions[]", Type: Object},
		{Path: "portDefinitions[].port", Type: Integer, Default: "0", Min: limit(0), Max: limit(maxPort), Why: "the host's port with requirePorts, else the service port"},
		{Path: "portDefinitions[].name", Type: String, MinLen: 1, MaxLen: longestName, Pattern: portName},
		{Path: "portDefinitions[].protocol", Type: String, Default: `"tcp"`, Enum: protocols()},
		{Path: "portDefinitions[].labels", Type: Object, Standing: Informational, Why: noPortLabels},
		{Path: "portDefinitions[].labels.*", Type: String, Standing: Informational},
		{Path: "requirePorts", Type: Boolean, Default: "false", Why: "the numbers of portDefinitions are those of the host, of agents that offer those very ports"},
		{Path: "ports", Type: Array, Deprecated: "portDefinitions"},
		{Path: "ports[]", Type: Integer, Min: limit(0), Max: limit(maxPort)},
		{Path: "ipAddress", Type: Object, Deprecated: "networks"},
		{Path: "ipAddress.networkName", Type: String, MinLen: 1, Deprecated: "networks[].name"},
		{Path: "ipAddress.labels", Type: Object, Deprecated: "networks[].labels"},
		{Path: "ipAddress.labels.*", Type: String},
		{Path: "ipAddress.groups", Type: Array, Standing: Informational, Why: "Marathon does nothing with it"},
		{Path: "ipAddress.groups[]", Type: String, Standing: Informational},
		{Path: "ipAddress.discovery", Type: Object, Standing: Refused, Why: "it is for MESOS containers, which are in the host's network here: use container.portMappings with DOCKER"},
		{Path: "ipAddress.discovery.ports", Type: Array, Standing: Refused},
		{Path: "ipAddress.discovery.ports[]", Type: Object, Standing: Refused},
		{Path: "ipAddress.discovery.ports[].number", Type: Integer, Default: "0", Min: limit(0), Max: limit(maxPort), Standing: Refused},
		{Path: "ipAddress.discovery.ports[].name", Type: String, Required: true, MinLen: 1, Pattern: portName, Standing: Refused},
		{Path: "ipAddress.discovery.ports[].protocol", Type: String, Default: `"tcp"`, Enum: protocols(), Standing: Refused},
		{Path: "ipAddress.discovery.ports[].labels", Type: Object, Standing: Refused},
		{Path: "ipAddress.discovery.ports[].labels.*", Type: String, Standing: Refused},
	}
}
