package master

import (
	"context"
	"errors"
	"fmt"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	agentcalls "github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/apierrors"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpagent"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpmaster"
	mastermsg "github.com/mesos/mesos-go/api/v1/lib/master"
	mastercalls "github.com/mesos/mesos-go/api/v1/lib/master/calls"

	"mesos-gpu/gpu"
)

// ErrNoFile means that an agent has no such file, or not yet.
var ErrNoFile = errors.New("no such file on the agent")

// Agent is an agent as the master lists it.
type Agent struct {
	ID, Hostname, URL string
	Active            bool
	Types             []string
	// Host is what the gpu_inventory attribute says; without it only what
	// the other attributes do.
	Host           gpu.Host
	GPUs, GPUsFree int
	DeviceIDs      []string
	CPUs, MemMiB   float64
}

// Agents asks the leading master for its agents.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	client := c.cfg.client()
	defer client.CloseIdleConnections()
	leader, err := c.leaderHint(ctx, client)
	if err != nil {
		return nil, err
	}
	send := httpmaster.NewSender(httpcli.New(httpcli.Endpoint(leader+"/api/v1"), httpcli.Do(client.Do)).Send)
	var answer mastermsg.Response
	if err := decode(send.Send(ctx, mastercalls.NonStreaming(mastercalls.GetAgents())))(&answer); err != nil {
		return nil, fmt.Errorf("ask master %s for its agents: %w", leader, err)
	}
	return c.agentsOf(answer.GetGetAgents().GetAgents()), nil
}

// decode reads the one message of an answer.
func decode(res mesos.Response, err error) func(message) error {
	return func(into message) error {
		if err == nil {
			err = res.Decode(into)
		}
		if res != nil {
			_ = res.Close() // the answer is read, or of no use
		}
		return err
	}
}

// message is what mesos-go's responses decode into.
type message interface {
	Unmarshal([]byte) error
	UnmarshalJSON([]byte) error
}

func (c *Client) agentsOf(list []mastermsg.Response_GetAgents_Agent) []Agent {
	agents := make([]Agent, 0, len(list))
	for i := range list {
		a := &list[i]
		total, used := sum(a.TotalResources), sum(a.AllocatedResources)
		host, types := c.hardware(a.AgentInfo.Attributes)
		agents = append(agents, Agent{
			ID: a.AgentInfo.GetID().GetValue(), Hostname: a.AgentInfo.Hostname, URL: urlOfPID(a.GetPID()), Active: a.Active,
			Types: types, Host: host, GPUs: total.gpus, GPUsFree: max(total.gpus-used.gpus, 0), DeviceIDs: total.devices,
			CPUs: total.amount.CPUs, MemMiB: total.amount.MemMiB,
		})
	}
	return agents
}

// urlOfPID makes http://127.0.0.1:5051/slave(1) of slave(1)@127.0.0.1:5051.
func urlOfPID(pid string) string {
	name, address, ok := strings.Cut(pid, "@")
	if !ok {
		return ""
	}
	return "http://" + address + "/" + name
}

// SandboxFile is the path by which an agent serves a file of an executor's
// sandbox.
func SandboxFile(frameworkID, executorID, name string) string {
	return "/frameworks/" + frameworkID + "/executors/" + executorID + "/runs/latest/" + name
}

// ReadFile reads at most length bytes of a file on an agent, and says how
// long the file is now. Returns ErrNoFile, wrapped, if it is not there.
func (c *Client) ReadFile(ctx context.Context, agentURL, path string, offset, length uint64) (data []byte, size uint64, err error) {
	if agentURL == "" {
		return nil, 0, fmt.Errorf("read %s: %w: the agent's address is not known", path, ErrNoFile)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	send := httpagent.NewSender(httpcli.New(httpcli.Endpoint(agentURL+"/api/v1"), httpcli.Do(c.files.Do)).Send)
	var answer agent.Response
	err = decode(send.Send(ctx, agentcalls.NonStreaming(agentcalls.ReadFileWithLength(path, offset, length))))(&answer)
	switch {
	case apierrors.CodeNotFound.Matches(err):
		return nil, 0, fmt.Errorf("read %s: %w", path, ErrNoFile)
	case err != nil:
		return nil, 0, fmt.Errorf("read %s from agent %s: %w", path, agentURL, err)
	}
	file := answer.GetReadFile()
	return file.GetData(), file.GetSize_(), nil
}

// Close ends idle connections. Run must have returned.
func (c *Client) Close() { c.files.CloseIdleConnections() }
