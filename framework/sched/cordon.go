package sched

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"
)

// CordonState excludes the agents of a host from placement. Like Mesos's maintenance it applies to a host: a repaired
// machine keeps its hostname, while its agent may get another id.
type CordonState struct {
	// Reason is the operator's reason, Since the time of the cordon.
	Reason string `json:"reason"`
	// Drain: the tasks that ran on the host were stopped too.
	Drain bool      `json:"drain,omitempty"`
	Since time.Time `json:"since"`
}

// ParseCordons returns the cordons among documents, by host. A cordon that cannot be decoded still keeps tasks off the
// host.
func ParseCordons(documents map[string][]byte) map[string]CordonState {
	all := map[string]CordonState{}
	for key, value := range documents {
		if host, ok := strings.CutPrefix(key, cordonPrefix); ok {
			c := CordonState{}
			if json.Unmarshal(value, &c) != nil {
				c = CordonState{Reason: "its record cannot be read"}
			}
			all[host] = c
		}
	}
	return all
}

// FindCordon returns the cordon of an agent.
func FindCordon(cordons map[string]CordonState, hostname, agentID string) (CordonState, bool) {
	c, ok := cordons[cordonHost(hostname, agentID)]
	return c, ok
}

// cordonHost returns the name by which an agent is cordoned.
func cordonHost(hostname, agentID string) string { return cmp.Or(hostname, agentID) }
