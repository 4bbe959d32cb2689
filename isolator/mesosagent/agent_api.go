package mesosagent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gogo/protobuf/proto"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"
)

const (
	protobufType     = "application/x-protobuf"
	maxResponseBytes = 64 << 20 // thousands of completed tasks fit
	maxErrorBytes    = 4 << 10
)

// agentState contains the three responses that together show which container holds which
// devices.
type agentState struct {
	containers *agent.Response_GetContainers
	executors  *agent.Response_GetExecutors
	tasks      *agent.Response_GetTasks
}

// queryState requests the tasks last. The container of a task that starts meanwhile may be
// missing until the next query.
func (a *AgentClient) queryState(ctx context.Context) (agentState, error) {
	var got agentState
	for _, call := range []*agent.Call{calls.GetContainers(), calls.GetExecutors(), calls.GetTasks()} {
		response, err := a.callAgent(ctx, call)
		if err != nil {
			return got, fmt.Errorf("call the agent's %s: %w", call.Type, err)
		}
		switch call.Type {
		case agent.Call_GET_CONTAINERS:
			got.containers = response.GetContainers
		case agent.Call_GET_EXECUTORS:
			got.executors = response.GetExecutors
		case agent.Call_GET_TASKS:
			got.tasks = response.GetTasks
		}
	}
	return got, nil
}

func (a *AgentClient) callAgent(ctx context.Context, call *agent.Call) (*agent.Response, error) {
	body, err := proto.Marshal(call)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cfg.AgentURL+"/api/v1", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", protobufType)
	request.Header.Set("Accept", protobufType)
	if a.cfg.Authorization != "" {
		request.Header.Set("Authorization", a.cfg.Authorization)
	}
	answer, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(answer.Body, maxErrorBytes))
		return nil, fmt.Errorf("it responds %s: %s", answer.Status, strings.TrimSpace(string(reason)))
	}
	return decodeResponse(answer.Body)
}

func decodeResponse(r io.Reader) (*agent.Response, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxResponseBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if len(body) > maxResponseBytes {
		return nil, fmt.Errorf("read answer: more than %d bytes", maxResponseBytes)
	}
	response := new(agent.Response)
	if err := proto.Unmarshal(body, response); err != nil {
		return nil, fmt.Errorf("parse answer of %d bytes: %w", len(body), err)
	}
	return response, nil
}
