package marathon

func healthFields() []Field {
	port := func(path, why string) []Field {
		return []Field{
			{Path: path + ".port", Type: Integer, Min: boundOf(1), Max: boundOf(maxPort), Why: why},
			{Path: path + ".portIndex", Type: Integer, Min: boundOf(0), Max: boundOf(maxPort)},
		}
	}
	fields := []Field{
		{Path: "healthChecks", Type: Array, Why: "an instance is healthy if all succeed; the task's executor runs all of them, Marathon's and Mesos's"},
		{Path: "healthChecks[]", Type: Object},
		{
			Path:    "healthChecks[].protocol",
			Type:    String,
			Default: `"HTTP"`,
			Enum:    []string{"HTTP", "HTTPS", "TCP", commandProtocol, "MESOS_TCP", "MESOS_HTTP", "MESOS_HTTPS"},
		},
		{Path: "healthChecks[].command", Type: Object},
		{Path: "healthChecks[].command.value", Type: String, Required: true},
		{Path: "healthChecks[].path", Type: String},
		{Path: "healthChecks[].gracePeriodSeconds", Type: Integer, Default: "300", Min: boundOf(0), Max: boundOf(maxSeconds)},
		{Path: "healthChecks[].intervalSeconds", Type: Integer, Default: "60", Min: boundOf(1), Max: boundOf(maxSeconds)},
		{Path: "healthChecks[].timeoutSeconds", Type: Integer, Default: "20", Min: boundOf(1), Max: boundOf(maxSeconds)},
		{
			Path:    "healthChecks[].delaySeconds",
			Type:    Integer,
			Default: "15",
			Min:     boundOf(0),
			Max:     boundOf(maxSeconds),
			Why:     "for `COMMAND` and `MESOS_` protocols; as in Marathon without effect for the others, which are first run after a second",
		},
		{Path: "healthChecks[].maxConsecutiveFailures", Type: Integer, Default: "3", Min: boundOf(0), Max: boundOf(maxFailures)},
		{Path: "healthChecks[].ignoreHttp1xx", Type: Boolean, Support: Informational, Why: "the executor waits for the answer after one with 1xx"},
		{Path: "healthChecks[].ipProtocol", Type: String, Default: `"IPv4"`, Enum: []string{"IPv4", "IPv6"}, Support: Refused, Why: "checks use IPv4 addresses only"},
		{Path: "readinessChecks", Type: Array, Why: "at most one"},
		{Path: "readinessChecks[]", Type: Object},
		{Path: "readinessChecks[].name", Type: String, Default: `"readinessCheck"`, MinLen: 1},
		{Path: "readinessChecks[].protocol", Type: String, Default: `"HTTP"`, Enum: []string{"HTTP", "HTTPS"}},
		{Path: "readinessChecks[].path", Type: String, Default: `"/"`, MinLen: 1, MaxLen: 1024},
		{Path: "readinessChecks[].portName", Type: String, Default: `"http-api"`, MinLen: 1, Pattern: portName},
		{Path: "readinessChecks[].intervalSeconds", Type: Integer, Default: "30", Min: boundOf(0)},
		{Path: "readinessChecks[].timeoutSeconds", Type: Integer, Default: "10", Min: boundOf(1)},
		{Path: "readinessChecks[].httpStatusCodesForReady", Type: Array, Default: "[200]", MinLen: 1},
		{Path: "readinessChecks[].httpStatusCodesForReady[]", Type: Integer, Min: boundOf(100), Max: boundOf(999)},
		{Path: "readinessChecks[].preserveLastResponse", Type: Boolean, Default: "false"},
		{Path: "check", Type: Object},
		{Path: "check.http", Type: Object},
		{Path: "check.http.path", Type: String, MinLen: 1, MaxLen: 1024},
		{Path: "check.http.scheme", Type: String, Default: `"HTTP"`, Enum: []string{"HTTP", "HTTPS"}, Support: Refused, Why: "checks use plain HTTP"},
		{Path: "check.tcp", Type: Object},
		{Path: "check.exec", Type: Object},
		{Path: "check.exec.command", Type: Object, Required: true},
		{Path: "check.exec.command.shell", Type: String, MinLen: 1},
		{Path: "check.exec.command.argv", Type: Array, MinLen: 1},
		{Path: "check.exec.command.argv[]", Type: String},
		{Path: "check.intervalSeconds", Type: Integer, Default: "60", Min: boundOf(1), Max: boundOf(maxSeconds)},
		{Path: "check.timeoutSeconds", Type: Integer, Default: "20", Min: boundOf(1), Max: boundOf(maxSeconds)},
		{Path: "check.delaySeconds", Type: Integer, Default: "15", Min: boundOf(0), Max: boundOf(maxSeconds)},
	}
	fields = append(fields, port("healthChecks[]", "the port inside the container, also in a container network and for `check`")...)
	fields = append(fields, port("check.http", "")...)
	return append(fields, port("check.tcp", "")...)
}
