package marathon

const maxPort = 65535

func portProtocols() []string { return []string{"tcp", "udp", "udp,tcp"} }

func networkFields() []Field {
	return []Field{
		{Path: "networks", Type: Array, Default: "[]", Why: "the host's if absent; one other"},
		{Path: "networks[]", Type: Object},
		{Path: "networks[].mode", Type: String, Default: `"container"`, Enum: []string{ContainerMode, BridgeMode, HostMode}},
		{
			Path:    "networks[].name",
			Type:    String,
			MinLen:  1,
			MaxLen:  63,
			Pattern: networkName,
			Why:     "for mode container: a network of the agents' Docker engines, with MESOS a CNI network; the scheduler's default if absent",
		},
		{Path: "networks[].labels", Type: Object},
		{Path: "networks[].labels.*", Type: String},
		{
			Path: "portDefinitions",
			Type: Array,
			Why:  "for the host's network; one port named default if absent. For another network only the numbers are kept, as service ports",
		},
		{Path: "portDefinitions[]", Type: Object},
		{
			Path:    "portDefinitions[].port",
			Type:    Integer,
			Default: "0",
			Min:     boundOf(0),
			Max:     boundOf(maxPort),
			Why:     "the host port with requirePorts, otherwise the service port; 0 is any host port, or gets a number of `--marathon-service-ports`",
		},
		{Path: "portDefinitions[].name", Type: String, MinLen: 1, MaxLen: maxNameLength, Pattern: portName},
		{Path: "portDefinitions[].protocol", Type: String, Default: `"tcp"`, Enum: portProtocols()},
		{Path: "portDefinitions[].labels", Type: Object, Support: Informational, Why: noPortLabels},
		{Path: "portDefinitions[].labels.*", Type: String, Support: Informational},
		{Path: "requirePorts", Type: Boolean, Default: "false"},
		{Path: "ports", Type: Array, Deprecated: "portDefinitions"},
		{Path: "ports[]", Type: Integer, Min: boundOf(0), Max: boundOf(maxPort)},
		{Path: "ipAddress", Type: Object, Deprecated: "networks"},
		{Path: "ipAddress.networkName", Type: String, MinLen: 1, Deprecated: "networks[].name"},
		{Path: "ipAddress.labels", Type: Object, Deprecated: "networks[].labels"},
		{Path: "ipAddress.labels.*", Type: String},
		{Path: "ipAddress.groups", Type: Array, Support: Informational, Why: "without effect, as in Marathon"},
		{Path: "ipAddress.groups[]", Type: String, Support: Informational},
		{Path: "ipAddress.discovery", Type: Object, Deprecated: "container.portMappings", Why: "with MESOS; with DOCKER use container.portMappings"},
		{Path: "ipAddress.discovery.ports", Type: Array},
		{Path: "ipAddress.discovery.ports[]", Type: Object},
		{Path: "ipAddress.discovery.ports[].number", Type: Integer, Default: "0", Min: boundOf(0), Max: boundOf(maxPort)},
		{Path: "ipAddress.discovery.ports[].name", Type: String, Required: true, MinLen: 1, Pattern: portName},
		{Path: "ipAddress.discovery.ports[].protocol", Type: String, Default: `"tcp"`, Enum: portProtocols()},
		{Path: "ipAddress.discovery.ports[].labels", Type: Object},
		{Path: "ipAddress.discovery.ports[].labels.*", Type: String},
	}
}
