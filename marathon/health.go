package marathon

import "strings"

// HealthCheck determines whether an instance is healthy. All checks run on the agent of the task, also those whose
// protocol does not begin with MESOS_.
type HealthCheck struct {
	// Protocol is HTTP, HTTPS, TCP, COMMAND, MESOS_HTTP, MESOS_HTTPS or
	// MESOS_TCP.
	Protocol               string        `json:"protocol"`
	Command                *CheckCommand `json:"command,omitempty"`
	Path                   string        `json:"path,omitempty"`
	Port                   *int          `json:"port,omitempty"`
	PortIndex              *int          `json:"portIndex,omitempty"`
	GracePeriodSeconds     int           `json:"gracePeriodSeconds"`
	IntervalSeconds        int           `json:"intervalSeconds"`
	TimeoutSeconds         int           `json:"timeoutSeconds"`
	DelaySeconds           int           `json:"delaySeconds"`
	MaxConsecutiveFailures int           `json:"maxConsecutiveFailures"`
	IgnoreHTTP1xx          *bool         `json:"ignoreHttp1xx,omitempty"`
	IPProtocol             string        `json:"ipProtocol"`
}

// UsesDelay reports whether delaySeconds has an effect. Marathon passes it to Mesos, and
// ignores it for the checks that it runs itself: HTTP, HTTPS and TCP.
func (h HealthCheck) UsesDelay() bool {
	return h.Protocol == commandProtocol || strings.HasPrefix(h.Protocol, "MESOS_")
}

const commandProtocol = "COMMAND"

// CheckCommand is a line for /bin/sh.
type CheckCommand struct {
	Value string `json:"value"`
}

// ReadinessCheck delays a deployment until a new instance can serve requests.
type ReadinessCheck struct {
	Name                    string `json:"name"`
	Protocol                string `json:"protocol"`
	Path                    string `json:"path"`
	PortName                string `json:"portName"`
	IntervalSeconds         int    `json:"intervalSeconds"`
	TimeoutSeconds          int    `json:"timeoutSeconds"`
	HTTPStatusCodesForReady []int  `json:"httpStatusCodesForReady,omitempty"`
	PreserveLastResponse    bool   `json:"preserveLastResponse"`
}

// Check is Mesos's general check, whose result is only reported. It has exactly one of
// HTTP, TCP and Exec.
type Check struct {
	HTTP            *HTTPCheck `json:"http,omitempty"`
	TCP             *TCPCheck  `json:"tcp,omitempty"`
	Exec            *ExecCheck `json:"exec,omitempty"`
	IntervalSeconds int        `json:"intervalSeconds"`
	TimeoutSeconds  int        `json:"timeoutSeconds"`
	DelaySeconds    int        `json:"delaySeconds"`
}

// HTTPCheck, TCPCheck and ExecCheck are the three kinds of a Check.
type HTTPCheck struct {
	Port      *int   `json:"port,omitempty"`
	PortIndex *int   `json:"portIndex,omitempty"`
	Path      string `json:"path,omitempty"`
	Scheme    string `json:"scheme"`
}

type TCPCheck struct {
	Port      *int `json:"port,omitempty"`
	PortIndex *int `json:"portIndex,omitempty"`
}

type ExecCheck struct {
	Command ExecCommand `json:"command"`
}

// ExecCommand is a line for the shell, or an argument vector.
type ExecCommand struct {
	Shell string   `json:"shell,omitempty"`
	Argv  []string `json:"argv,omitempty"`
}
