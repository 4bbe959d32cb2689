package clusterview

import (
	"slices"
	"sync/atomic"

	"mesos-gpu/framework/master"
)

// AgentSizeCache has the number of GPUs of each agent in the master's last list, so that checks
// of jobs need no request to the master.
type AgentSizeCache struct {
	sizes atomic.Pointer[[]agentSize]
}

// agentSize is the number of GPUs of an agent, shared ones included, and their types.
type agentSize struct {
	types []string
	gpus  int
}

// UpdateAgents replaces the agents.
func (c *AgentSizeCache) UpdateAgents(list []master.ListedAgent) {
	sizes := make([]agentSize, len(list))
	for i := range list {
		sizes[i] = agentSize{gpuTypesOf(&list[i]), list[i].GPUs}
		if shared := sumSharedGPUs(&list[i]); shared != nil {
			sizes[i].gpus += shared.GPUs
		}
	}
	c.sizes.Store(&sizes)
}

// LargestAgent returns the most GPUs of an agent with a type that matches, 0 if none exists. It
// returns false before the first list with agents.
func (c *AgentSizeCache) LargestAgent(matches func(kind string) bool) (gpus int, known bool) {
	sizes := c.sizes.Load()
	if sizes == nil || len(*sizes) == 0 {
		return 0, false
	}
	for _, a := range *sizes {
		if slices.ContainsFunc(a.types, matches) {
			gpus = max(gpus, a.gpus)
		}
	}
	return gpus, true
}
