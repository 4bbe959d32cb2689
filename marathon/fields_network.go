package marathon

const maxPort = 65535

func protocols() []string { return []string{"tcp", "udp", "udp,tcp"} }

func networkFields() []Field {
	return []Field{
		{Path: "networks", Type: Array, Default: "[]", Why: "absent, the host's"},
		{Path: "networks[]", Type: Object},
		{Path: "networks[].mode", Type: String, Default: `"container"`, Enum: []string{ContainerMode, BridgeMode, HostMode}},
		{Path: "networks[].name", Type: String, MinLen: 1, MaxLen: 63, Pattern: networkName, Why: "of mode container; absent, the scheduler's default"},
		{Path: "networks[].labels", Type: Object},
		{Path: "networks[].labels.*", Type: String},
		{Path: "portDefinitions", Type: Array, Why: "in the host's network; absent, one port named default"},
		{Path: "portDefinitions[]", Type: Object},
		{Path: "portDefinitions[].port", Type: Integer, Default: "0", Min: limit(0), Max: limit(maxPort), Why: "the host port with requirePorts, else the service port"},
		{Path: "portDefinitions[].name", Type: String, MinLen: 1, Pattern: portName},
		{Path: "portDefinitions[].protocol", Type: String, Default: `"tcp"`, Enum: protocols()},
		{Path: "portDefinitions[].labels", Type: Object},
		{Path: "portDefinitions[].labels.*", Type: String},
		{Path: "requirePorts", Type: Boolean, Default: "false", Why: "the host's network only"},
		{Path: "ports", Type: Array, Deprecated: "portDefinitions"},
		{Path: "ports[]", Type: Integer, Min: limit(0), Max: limit(maxPort)},
		{Path: "ipAddress", Type: Object, Deprecated: "networks"},
		{Path: "ipAddress.networkName", Type: String, MinLen: 1, Deprecated: "networks[].name"},
		{Path: "ipAddress.labels", Type: Object, Deprecated: "networks[].labels"},
		{Path: "ipAddress.labels.*", Type: String},
		{Path: "ipAddress.groups", Type: Array, Standing: Informational, Why: "Marathon does nothing with it"},
		{Path: "ipAddress.groups[]", Type: String, Standing: Informational},
		{Path: "ipAddress.discovery", Type: Object, Deprecated: "container.portMappings"},
		{Path: "ipAddress.discovery.ports", Type: Array, Why: "MESOS only"},
		{Path: "ipAddress.discovery.ports[]", Type: Object},
		{Path: "ipAddress.discovery.ports[].number", Type: Integer, Default: "0", Min: limit(0), Max: limit(maxPort)},
		{Path: "ipAddress.discovery.ports[].name", Type: String, Required: true, MinLen: 1, Pattern: portName},
		{Path: "ipAddress.discovery.ports[].protocol", Type: String, Default: `"tcp"`, Enum: protocols()},
		{Path: "ipAddress.discovery.ports[].labels", Type: Object},
		{Path: "ipAddress.discovery.ports[].labels.*", Type: String},
	}
}
