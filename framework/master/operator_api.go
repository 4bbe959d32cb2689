package master

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/agent"
	agentcalls "github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	mastermsg "github.com/mesos/mesos-go/api/v1/lib/master"
	mastercalls "github.com/mesos/mesos-go/api/v1/lib/master/calls"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
)

// ErrNoFile means that an agent has no such file, or not yet. ErrUnreadable means that the
// agent does not serve the path: it is not a file, or a link leads out of the sandbox.
var (
	ErrNoFile     = errors.New("no such file on the agent")
	ErrUnreadable = errors.New("the agent does not serve it")
)

// ListedAgent is an agent in the master's list.
type ListedAgent struct {
	// ID is the agent's id in Mesos, URL the base URL of its API.
	ID, Hostname, URL string
	// Active agents are connected to the master; the others keep their tasks for a while.
	Active bool
	// Draining agents get no new tasks: an operator has drained or deactivated
	// them, or is draining them.
	Draining bool
	// Types are the GPU types of its attribute gpu_type.
	Types []string
	// Host is the decoded gpu_inventory attribute. Without that attribute it
	// has only what the other attributes contain.
	Host gpu.Host
	// GPUs is the gpus scalar, GPUsFree what of it no task holds.
	GPUs, GPUsFree int
	// DeviceIDs are the agent's devices, DevicesHeld those allocated to tasks.
	DeviceIDs, DevicesHeld []string
	// Shared are the shared devices in total, SharedFree what is free of each.
	Shared, SharedFree []sched.SharedDevice
	// Withheld are devices that the agent does not offer.
	Withheld []gpu.WithheldDevice
	// CPUs, MemMiB, DiskMiB and Ports are in total, whatever is in use.
	CPUs, MemMiB, DiskMiB float64
	Ports                 []sched.PortRange
	// Attributes, Region and Zone are as in an offer.
	Attributes   []sched.Attribute
	Region, Zone string
}

// ListAgents returns the agents of the leading master, in no order. It follows one redirect: the leader may have changed
// since it was found.
func (c *Client) ListAgents(ctx context.Context) ([]ListedAgent, error) {
	var answer mastermsg.Response
	err := c.callLeader(ctx, "list the agents of", func(leader string) error {
		return c.cfg.callAndDecode(ctx, c.operatorClient, leader+"/api/v1", mastercalls.GetAgents(), &answer)
	})
	if err != nil {
		return nil, err
	}
	return c.convertAgents(answer.GetGetAgents().GetAgents()), nil
}

// callLeader calls request with the URL of the leading master, and once more if that redirects to another one. Errors
// of request begin with purpose, such as "list the agents of", and the master.
func (c *Client) callLeader(ctx context.Context, purpose string, request func(leader string) error) error {
	leader, err := c.CurrentLeader(ctx)
	if err != nil {
		return err
	}
	err = request(leader)
	var moved *statusError
	if errors.As(err, &moved) && moved.code == http.StatusTemporaryRedirect {
		if leader, err = redirectTarget(leader, moved.location); err == nil {
			err = request(leader)
		}
	}
	if err != nil {
		return fmt.Errorf("%s master %s: %w", purpose, leader, err)
	}
	return nil
}

// convertAgents converts the master's answer.
func (c *Client) convertAgents(list []mastermsg.Response_GetAgents_Agent) []ListedAgent {
	agents := make([]ListedAgent, 0, len(list))
	for i := range list {
		a := &list[i]
		total, used := sumResources(a.TotalResources), sumResources(a.AllocatedResources)
		host, types := c.readHardware(a.AgentInfo.Attributes)
		region, zone := faultDomain(a.AgentInfo.Domain)
		agents = append(agents, ListedAgent{
			ID: a.AgentInfo.GetID().GetValue(), Hostname: a.AgentInfo.Hostname, URL: c.cfg.agentURLFromPID(a.GetPID()),
			Active: a.Active, Draining: a.GetDeactivated() || a.DrainInfo != nil,
			Types: types, Host: host, GPUs: total.gpus, GPUsFree: max(total.gpus-used.gpus, 0), DeviceIDs: total.devices, DevicesHeld: used.devices,
			Shared: total.sharedDevices(), SharedFree: total.subtractUsed(&used), Withheld: total.withheld,
			CPUs: total.amount.CPUs, MemMiB: total.amount.MemMiB, DiskMiB: total.amount.DiskMiB, Ports: total.ports,
			Attributes: convertAttributes(a.AgentInfo.Attributes), Region: region, Zone: zone,
		})
	}
	return agents
}

// subtractUsed returns the shared devices minus what is used of them.
func (t *resourceTotal) subtractUsed(used *resourceTotal) []sched.SharedDevice {
	left := resourceTotal{mem: maps.Clone(t.mem), cores: maps.Clone(t.cores)}
	for uuid := range left.mem {
		left.mem[uuid] = max(left.mem[uuid]-used.mem[uuid], 0)
		left.cores[uuid] = max(left.cores[uuid]-used.cores[uuid], 0)
	}
	return left.sharedDevices()
}

// agentURLFromPID converts slave(1)@127.0.0.1:5051 to
// http://127.0.0.1:5051/slave(1).
func (c *ConnectionConfig) agentURLFromPID(pid string) string {
	name, address, ok := strings.Cut(pid, "@")
	if !ok {
		return ""
	}
	return c.urlScheme() + "://" + bracketIPv6(address) + "/" + name
}

// SandboxFilePath returns the path by which an agent serves a file of an
// executor's sandbox.
func SandboxFilePath(frameworkID, executorID, name string) string {
	return "/frameworks/" + frameworkID + "/executors/" + executorID + "/runs/latest/" + name
}

// ReadFile reads at most length bytes of a file on an agent, and returns the
// file's current size. It returns ErrNoFile, wrapped, if the file does not
// exist, and ErrUnreadable if the agent does not serve it.
func (c *Client) ReadFile(ctx context.Context, agentURL, path string, offset, length uint64) (data []byte, size uint64, err error) {
	if agentURL == "" {
		return nil, 0, fmt.Errorf("read %s: %w: the agent's address is not known", path, ErrNoFile)
	}
	var answer agent.Response
	err = c.cfg.callAndDecode(ctx, c.operatorClient, agentURL+"/api/v1", agentcalls.ReadFileWithLength(path, offset, length), &answer)
	switch {
	case hasStatus(err, http.StatusNotFound):
		return nil, 0, fmt.Errorf("read %s: %w", path, ErrNoFile)
	case hasStatus(err, http.StatusBadRequest):
		return nil, 0, fmt.Errorf("read %s: %w: %w", path, ErrUnreadable, err)
	case err != nil:
		return nil, 0, fmt.Errorf("read %s from agent %s: %w", path, agentURL, err)
	}
	file := answer.GetReadFile()
	return file.GetData(), file.GetSize_(), nil
}

// AgentFile is an entry of a folder on an agent. Links are described by their targets.
type AgentFile struct {
	Name     string
	Mode     fs.FileMode
	Bytes    int64
	Modified time.Time
}

// ListFiles returns the entries of a folder on an agent, by name, and none for a file. It
// returns ErrNoFile, wrapped, if the path does not exist.
func (c *Client) ListFiles(ctx context.Context, agentURL, folder string) ([]AgentFile, error) {
	if agentURL == "" {
		return nil, fmt.Errorf("list %s: %w: the agent's address is not known", folder, ErrNoFile)
	}
	var answer agent.Response
	err := c.cfg.callAndDecode(ctx, c.operatorClient, agentURL+"/api/v1", agentcalls.ListFiles(folder), &answer)
	switch {
	case hasStatus(err, http.StatusNotFound):
		return nil, fmt.Errorf("list %s: %w", folder, ErrNoFile)
	case hasStatus(err, http.StatusBadRequest):
		return nil, fmt.Errorf("list %s: %w: %w", folder, ErrUnreadable, err)
	case err != nil:
		return nil, fmt.Errorf("list %s on agent %s: %w", folder, agentURL, err)
	}
	var list []AgentFile
	for _, f := range answer.GetListFiles().GetFileInfos() {
		list = append(list, AgentFile{
			Name: path.Base(f.Path), Mode: fileModeOf(f.GetMode()), Bytes: int64(min(f.GetSize_(), math.MaxInt64)),
			Modified: time.Unix(0, f.GetMtime().GetNanoseconds()).UTC(),
		})
	}
	return list, nil
}

// fileModeOf converts the kernel's st_mode.
func fileModeOf(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	switch mode & syscall.S_IFMT {
	case syscall.S_IFREG:
	case syscall.S_IFDIR:
		m |= fs.ModeDir
	case syscall.S_IFLNK:
		m |= fs.ModeSymlink
	default:
		m |= fs.ModeIrregular // a socket, a pipe or a device
	}
	return m
}

// Close closes idle connections. Run must have returned.
func (c *Client) Close() { c.operatorClient.CloseIdleConnections() }
