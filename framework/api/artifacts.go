package api

import "time"

// Artifact is a file that was copied from a task's sandbox after the task's end.
type Artifact struct {
	// Path is relative to the sandbox.
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// ArtifactReport is the result of copying a task's artifacts.
type ArtifactReport struct {
	Task  string `json:"task"`
	Index int    `json:"index"`
	// Copied is when the copy began; zero while the task runs, or waits for its copy.
	Copied time.Time  `json:"copied,omitzero"`
	Files  []Artifact `json:"files"`
	// Missing are paths that the sandbox did not have, or that the agent did not serve.
	Missing []string `json:"missing,omitempty"`
	// Error is why not all artifacts were copied.
	Error string `json:"error,omitempty"`
}

// ArtifactList is the answer to GET /v1/jobs/{reference}/artifacts.
type ArtifactList struct {
	// Tasks has an entry for each task that has run, by index.
	Tasks []ArtifactReport `json:"tasks"`
}
