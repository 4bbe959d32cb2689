package master

import (
	"fmt"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/minimesos/resource"
)

// agentCapabilities returns the capabilities of agents that use package link.
func agentCapabilities() []mesos.AgentInfo_Capability {
	return []mesos.AgentInfo_Capability{
		{Type: mesos.AgentInfo_Capability_MULTI_ROLE},
		{Type: mesos.AgentInfo_Capability_HIERARCHICAL_ROLE},
		{Type: mesos.AgentInfo_Capability_RESERVATION_REFINEMENT},
		{Type: mesos.AgentInfo_Capability_RESOURCE_PROVIDER},
		{Type: mesos.AgentInfo_Capability_TASK_RESOURCE_LIMITS},
	}
}

func (m *EmbeddedMaster) describeAgents() *operator.Response_GetAgents {
	out := &operator.Response_GetAgents{}
	for _, a := range sortedValues(m.agents) {
		out.Agents = append(out.Agents, m.describeAgent(a))
	}
	return out
}

func (m *EmbeddedMaster) describeAgent(a *registeredAgent) operator.Response_GetAgents_Agent {
	drain := m.adminState(a.id.Value).drain
	address := a.info.Hostname
	if ip := ipOf(address); ip != nil {
		address = *ip
	}
	pid := fmt.Sprintf("slave(1)@%s:%d", address, a.info.GetPort())
	return operator.Response_GetAgents_Agent{
		AgentInfo:          a.info,
		Active:             true,
		Deactivated:        new(drain != nil),
		DrainInfo:          drain,
		Version:            link.Version,
		PID:                &pid,
		RegisteredTime:     timeInfo(a.registered),
		ReregisteredTime:   timeInfo(a.reregistered),
		TotalResources:     resource.Plain(a.total),
		AllocatedResources: resource.Plain(resource.Sum(a.usedResources("")...)),
		Capabilities:       agentCapabilities(),
	}
}

func (m *EmbeddedMaster) describeFrameworks() *operator.Response_GetFrameworks {
	out := &operator.Response_GetFrameworks{}
	for _, f := range sortedValues(m.frameworks) {
		out.Frameworks = append(out.Frameworks, describeFramework(f))
	}
	for _, f := range m.completed {
		out.CompletedFrameworks = append(out.CompletedFrameworks, describeFramework(f))
	}
	return out
}

func describeFramework(f *frameworkState) operator.Response_GetFrameworks_Framework {
	return operator.Response_GetFrameworks_Framework{
		FrameworkInfo:    f.info,
		Active:           f.stream != nil,
		Connected:        f.stream != nil,
		Recovered:        f.recovered,
		RegisteredTime:   timeInfo(f.registered),
		ReregisteredTime: timeInfo(f.reregistered),
		UnregisteredTime: timeInfo(f.unregistered),
	}
}

func (m *EmbeddedMaster) describeTasks() *operator.Response_GetTasks {
	out := &operator.Response_GetTasks{}
	for _, f := range slices.Concat(sortedValues(m.frameworks), m.completed) {
		for _, t := range sortedValues(f.tasks) {
			out.Tasks = append(out.Tasks, t.Task)
		}
		for _, t := range sortedValues(f.unreachable) {
			out.UnreachableTasks = append(out.UnreachableTasks, t.Task)
		}
		for _, t := range f.completed {
			out.CompletedTasks = append(out.CompletedTasks, t.Task)
		}
	}
	return out
}
