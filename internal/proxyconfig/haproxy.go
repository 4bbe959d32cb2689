package proxyconfig

import (
	"fmt"
	"strings"
)

// HAProxySettings are the parts of a configuration that are not in the jobs.
type HAProxySettings struct {
	// Bind is the address of the frontend that selects HTTP services by host name, with
	// options such as "ssl crt FILE"; "" for none.
	Bind string
	// StatsSocket is the path of HAProxy's socket, through which a reload takes over the
	// listening sockets without losing connections; "" for none.
	StatsSocket string
}

// haproxyDefaults are the settings of all sections. Requests whose connection to a task fails
// go to another one. Each request has its own connection to a task, so that a task that ends
// closes no connection with a request.
//
// A task that is to be ended gets SIGTERM at about the time at which a new configuration without
// it is written. If it ends before HAProxy has read that, it closes connections that it has not
// accepted, and HAProxy gets no response. Requests whose repetition has no further effect go to
// another task then.
const haproxyDefaults = `
defaults
    timeout connect 3s
    timeout client 10m
    timeout server 10m
    timeout tunnel 1h
    retries 3
    option redispatch 1
`

// WriteHAProxy returns a configuration of HAProxy: a frontend for HTTP services by host name,
// a frontend for each service port, and a backend for each endpoint.
func WriteHAProxy(list []Endpoint, s HAProxySettings) string {
	var b strings.Builder
	b.WriteString("# Written by mesos-gpu service-config.\n")
	if s.StatsSocket != "" {
		fmt.Fprintf(&b, "global\n    stats socket %s mode 600 level admin expose-fd listeners\n", s.StatsSocket)
	}
	b.WriteString(haproxyDefaults)
	if s.Bind != "" {
		fmt.Fprintf(&b, "\nfrontend mesos-gpu-http\n    mode http\n    bind %s\n    option forwardfor\n", s.Bind)
		for _, e := range list {
			if e.First && e.HTTP {
				fmt.Fprintf(&b, "    use_backend %s if { req.hdr(host),host_only -i -m str %s } || { req.hdr(host) -i -m beg %s. }\n", e.Name, e.Job, e.Job)
			}
		}
	}
	bound := map[int]bool{}
	for _, e := range list {
		if e.ServicePort == 0 || bound[e.ServicePort] {
			continue
		}
		bound[e.ServicePort] = true
		fmt.Fprintf(&b, "\nfrontend port-%d\n    mode %s\n    bind :%d\n    default_backend %s\n", e.ServicePort, haproxyMode(&e), e.ServicePort, e.Name)
	}
	for _, e := range list {
		fmt.Fprintf(&b, "\nbackend %s\n    mode %s\n    balance leastconn\n", e.Name, haproxyMode(&e))
		if e.HTTP {
			b.WriteString("    option http-server-close\n    retry-on conn-failure empty-response\n    http-request " +
				"disable-l7-retry unless { method GET HEAD OPTIONS PUT DELETE }\n")
		}
		for _, server := range e.Servers {
			fmt.Fprintf(&b, "    server %s %s\n", server.Name, server.Address)
		}
	}
	return b.String()
}

func haproxyMode(e *Endpoint) string {
	if e.HTTP {
		return "http"
	}
	return "tcp"
}
