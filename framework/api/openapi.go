package api

import (
	_ "embed"
	"net/http"

	"mesos-gpu/job/jobfile"
)

// openAPIDocument is the OpenAPI description of the API.
//
//go:embed openapi.yaml
var openAPIDocument []byte

func (s *apiServer) handleOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPIDocument) // an error means that the client has disconnected
	return nil
}

// handleJobSchema returns the JSON schema of job files.
func (s *apiServer) handleJobSchema(w http.ResponseWriter, _ *http.Request) error {
	text, err := jobfile.Schema()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/schema+json")
	_, _ = w.Write(text) // likewise
	return nil
}
