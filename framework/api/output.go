package api

import "time"

// OutputPart is a part of a task's output in GET /v1/tasks/{id}/output.
type OutputPart struct {
	// Time is when it was written, by the clock of the agent, or of the scheduler if the agent has no times; zero if
	// that is unknown.
	Time time.Time `json:"time,omitzero"`
	// Stream is stdout or stderr; empty in the last part.
	Stream string `json:"stream,omitempty"`
	// Text is the output. If it is not UTF-8 it is in Data instead.
	Text string `json:"text,omitempty"`
	Data []byte `json:"data,omitempty"`
	// Lost is set if output before this part was rotated away before it was read.
	Lost bool `json:"lost,omitempty"`
	// After is the position after the part: both streams' numbers of bytes since the task's
	// start, separated by a comma. A request with it continues there.
	After string `json:"after"`
	// Stored is set only in the first part, which has no output: the parts that follow were stored when the task ended, because
	// its sandbox can no longer be read.
	Stored *StoredOutput `json:"stored,omitempty"`
	// Complete marks the last part, which has no output.
	Complete bool `json:"complete,omitempty"`
}

// StoredOutput describes the end of a task's output that is stored, in the selected streams.
type StoredOutput struct {
	// Bytes is the size of what is stored, and MissingBytes of what the task wrote before it.
	Bytes        int64 `json:"bytes"`
	MissingBytes int64 `json:"missing_bytes"`
	// AgentUnreachable is set if there is no connection to the agent, which may still have the sandbox.
	AgentUnreachable bool `json:"agent_unreachable,omitempty"`
}

// Output returns the part's output.
func (p *OutputPart) Output() []byte {
	if p.Data != nil {
		return p.Data
	}
	return []byte(p.Text)
}
