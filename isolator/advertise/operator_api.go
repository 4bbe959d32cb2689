package advertise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/share"
)

// operatorPath is the path of the v1 operator API below the agent's URL.
const operatorPath = "/api/v1"

// errAgentRefusesCaller means that the agent rejects operator calls of this caller: it
// requires other credentials or has no operator API.
var errAgentRefusesCaller = errors.New("the agent rejects operator calls of this caller")

// readAgentID returns the id under which the agent has registered. It returns
// an error if the agent has not registered yet, and errAgentRefusesCaller if
// the id cannot be read at all.
func (p *resourceProvider) readAgentID(ctx context.Context) (string, error) {
	answer, err := p.callOperator(ctx, operator.Call_GET_AGENT)
	if err != nil {
		return "", err
	}
	id := answer.GetGetAgent().GetAgentInfo().GetID().GetValue()
	if id == "" {
		return "", errors.New("the agent has no id yet: it has not registered with a master")
	}
	return id, nil
}

// readDevicesInUse returns the provider's devices that tasks and executors
// hold, by UUID.
func (p *resourceProvider) readDevicesInUse(ctx context.Context, id string) (map[string]share.DeviceUse, error) {
	answer, err := p.callOperator(ctx, operator.Call_GET_STATE)
	if err != nil {
		return nil, err
	}
	held := map[string]share.DeviceUse{}
	state := answer.GetGetState()
	for _, e := range state.GetGetExecutors().GetExecutors() {
		addHeldDevices(held, e.ExecutorInfo.Resources, id)
	}
	tasks := state.GetGetTasks()
	for _, list := range [][]mesos.Task{tasks.GetPendingTasks(), tasks.GetQueuedTasks(), tasks.GetLaunchedTasks()} {
		for _, t := range list {
			addHeldDevices(held, t.Resources, id)
		}
	}
	return held, nil
}

// ReadDevicesInUse returns all devices that tasks and executors of the agent
// hold, by UUID, of any provider. It needs no session and changes nothing on
// the agent.
func ReadDevicesInUse(ctx context.Context, c ProviderConfig) (map[string]share.DeviceUse, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSClientConfig: c.TLS}
	defer transport.CloseIdleConnections()
	p := &resourceProvider{ProviderConfig: c, client: &http.Client{Transport: transport}}
	return p.readDevicesInUse(ctx, "")
}

// addHeldDevices adds the provider's devices among the resources; provider ""
// means any.
func addHeldDevices(held map[string]share.DeviceUse, resources []mesos.Resource, provider string) {
	for _, r := range resources {
		if provider != "" && r.GetProviderID().GetValue() != provider {
			continue
		}
		ids, part := resourceDevices(r)
		for _, uuid := range ids {
			use := held[uuid]
			held[uuid] = share.DeviceUse{Whole: use.Whole || !part, Shared: use.Shared || part}
		}
	}
}

// resourceDevices returns the devices that a resource names: whole devices, or
// a share of one.
func resourceDevices(r mesos.Resource) (ids []string, part bool) {
	if uuid, _, ok := gpu.ShareResource(r.Name); ok {
		return []string{uuid}, true
	}
	if r.Name != ResourceGPUIDs {
		return nil, false
	}
	return r.GetSet().GetItem(), false
}

// callOperator makes one call of the operator API.
func (p *resourceProvider) callOperator(ctx context.Context, call operator.Call_Type) (*operator.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body, err := proto.Marshal(&operator.Call{Type: call})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", call, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(p.AgentURL, "/")+operatorPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	p.setHeaders(request)
	answer, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the agent %s: %w", call, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		err := refusalError(call.String(), answer)
		if answer.StatusCode < http.StatusInternalServerError {
			return nil, fmt.Errorf("%w: %w", errAgentRefusesCaller, err)
		}
		return nil, err
	}
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxEventBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read the agent's answer to %s: %w", call, err)
	}
	if len(body) > maxEventBytes {
		return nil, fmt.Errorf("read the agent's answer to %s: more than %d bytes", call, maxEventBytes)
	}
	response := new(operator.Response)
	if err := proto.Unmarshal(body, response); err != nil {
		return nil, fmt.Errorf("parse the agent's answer to %s: %w", call, err)
	}
	return response, nil
}
