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

// operatorPath is where an agent serves its v1 operator API, below its URL.
const operatorPath = "/api/v1"

// errMute is given where the agent tells this caller nothing: it wants other
// credentials, or serves no operator API.
var errMute = errors.New("the agent does not answer this caller")

// agentID asks for the id that the agent has registered under. The error says
// that it has not, yet; errMute that nobody can know.
func (p *provider) agentID(ctx context.Context) (string, error) {
	answer, err := p.ask(ctx, operator.Call_GET_AGENT)
	if err != nil {
		return "", err
	}
	id := answer.GetGetAgent().GetAgentInfo().GetID().GetValue()
	if id == "" {
		return "", errors.New("the agent has no id yet: it has not registered with a master")
	}
	return id, nil
}

// inUse asks which of the provider's devices tasks and executors hold, by
// UUID.
func (p *provider) inUse(ctx context.Context, id string) (map[string]share.Use, error) {
	answer, err := p.ask(ctx, operator.Call_GET_STATE)
	if err != nil {
		return nil, err
	}
	held := map[string]share.Use{}
	state := answer.GetGetState()
	for _, e := range state.GetGetExecutors().GetExecutors() {
		hold(held, e.ExecutorInfo.Resources, id)
	}
	tasks := state.GetGetTasks()
	for _, list := range [][]mesos.Task{tasks.GetPendingTasks(), tasks.GetQueuedTasks(), tasks.GetLaunchedTasks()} {
		for _, t := range list {
			hold(held, t.Resources, id)
		}
	}
	return held, nil
}

// InUse asks the agent which devices tasks and executors hold, by UUID,
// whoever provided them: without a session, and without telling it anything.
func InUse(ctx context.Context, c Config) (map[string]share.Use, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSClientConfig: c.TLS}
	defer transport.CloseIdleConnections()
	p := &provider{Config: c, client: &http.Client{Transport: transport}}
	return p.inUse(ctx, "")
}

// hold adds the provider's devices among the resources; "" stands for any.
func hold(held map[string]share.Use, resources []mesos.Resource, provider string) {
	for _, r := range resources {
		if provider != "" && r.GetProviderID().GetValue() != provider {
			continue
		}
		ids, part := devicesOf(r)
		for _, uuid := range ids {
			use := held[uuid]
			held[uuid] = share.Use{Whole: use.Whole || !part, Part: use.Part || part}
		}
	}
}

// devicesOf are the devices that a resource names: whole, or a part of one.
func devicesOf(r mesos.Resource) (ids []string, part bool) {
	if uuid, _, ok := gpu.ShareResource(r.Name); ok {
		return []string{uuid}, true
	}
	if r.Name != GPUIDs {
		return nil, false
	}
	return r.GetSet().GetItem(), false
}

// ask makes one call of the operator API.
func (p *provider) ask(ctx context.Context, call operator.Call_Type) (*operator.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, p.AskTimeout)
	defer cancel()
	body, err := proto.Marshal(&operator.Call{Type: call})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", call, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(p.AgentURL, "/")+operatorPath, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	p.dress(request)
	answer, err := p.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the agent %s: %w", call, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		err := refused(call.String(), answer)
		if answer.StatusCode < http.StatusInternalServerError {
			return nil, fmt.Errorf("%w: %w", errMute, err)
		}
		return nil, err
	}
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxEvent+1))
	if err != nil {
		return nil, fmt.Errorf("read the agent's answer to %s: %w", call, err)
	}
	if len(body) > maxEvent {
		return nil, fmt.Errorf("read the agent's answer to %s: more than %d bytes", call, maxEvent)
	}
	response := new(operator.Response)
	if err := proto.Unmarshal(body, response); err != nil {
		return nil, fmt.Errorf("parse the agent's answer to %s: %w", call, err)
	}
	return response, nil
}
